package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"gpurig/core/show"
)

// JSON returns the report as indented JSON with a final line break.
func JSON(r Report) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(true) // names may come from a container; a page may embed this
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("report as JSON: %w", err)
	}
	return show.JSON(b.Bytes()), nil
}

// ErrNotReport marks a file that is no report of ours.
var ErrNotReport = errors.New("not a gpurig report")

// Parse reads the JSON form and checks that its totals add up: a report that
// was cut or edited must not pass for a whole one.
func Parse(data []byte) (Report, error) {
	var r Report
	dec := json.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&r); {
	case errors.Is(err, io.EOF):
		return Report{}, fmt.Errorf("%w: there is nothing in it", ErrNotReport)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Report{}, fmt.Errorf("%w: it ends in the middle, after %d bytes", ErrNotReport, len(data))
	case err != nil:
		return Report{}, fmt.Errorf("%w: %w", ErrNotReport, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Report{}, fmt.Errorf("%w: text after the JSON object", ErrNotReport)
	}
	if r.Schema == 0 {
		return Report{}, fmt.Errorf("%w: it has no schema", ErrNotReport)
	}
	if r.Schema != Schema {
		return Report{}, fmt.Errorf("%w: schema %d, this gpurig reads schema %d", ErrNotReport, r.Schema, Schema)
	}
	seen := map[string]bool{}
	for _, res := range r.Results {
		switch res.Verdict {
		case Pass, Fail, Broken, Skip, Differ:
		default:
			return Report{}, fmt.Errorf("%w: %s has verdict %q", ErrNotReport, res.Key(), res.Verdict)
		}
		if seen[res.Key()] {
			return Report{}, fmt.Errorf("%w: %s is there twice", ErrNotReport, res.Key())
		}
		seen[res.Key()] = true
	}
	if want := Count(r.Results); r.Totals != want {
		return Report{}, fmt.Errorf("%w: its totals %+v are not those of its results %+v", ErrNotReport, r.Totals, want)
	}
	return r, nil
}

// Read reads a report file of at most 256 MiB.
func Read(file string) (Report, error) {
	// A pipe is read, as a shell hands it over; one that nobody writes to is empty.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return Report{}, err
	} else if mode := info.Mode(); !mode.IsRegular() && mode&fs.ModeNamedPipe == 0 {
		return Report{}, fmt.Errorf("%s: %w: not a regular file", file, ErrNotReport)
	}
	const limit = 256 << 20
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return Report{}, err
	}
	if len(data) > limit {
		return Report{}, fmt.Errorf("%s: %w: larger than %d bytes", file, ErrNotReport, limit)
	}
	r, err := Parse(data)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
