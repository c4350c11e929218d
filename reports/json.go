package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
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

// MaxResults is how many results a report has at most, and what reports are merged to.
// All 36,500 variants of every scenario on every target are a third of it.
const MaxResults = 100_000

// maxFile bounds a report file, in bytes.
const maxFile = 256 << 20

// Parse reads the JSON form and checks that its totals add up: a report that
// was cut or edited must not pass for a whole one.
//
// What it takes of memory is a small multiple of the data, whatever they are: of an
// object that costs more than it is long there may be few, and each result is looked
// at before the next is read.
func Parse(data []byte) (Report, error) {
	if objects, values := count(data); objects > len(data)/32+1000 || values > len(data)/8+1000 {
		return Report{}, fmt.Errorf("%w: %d objects and %d values in %d bytes", ErrNotReport, objects, values, len(data))
	}
	var r Report
	read := struct {
		*Report
		Results *results `json:"results"` // in the place of Report's own
	}{Report: &r, Results: &results{}}
	err := json.Unmarshal(data, &read)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		switch {
		case len(bytes.TrimSpace(data)) == 0:
			err = errors.New("there is nothing in it")
		case syntax.Offset >= int64(len(data)):
			err = fmt.Errorf("it ends in the middle, after %d bytes", len(data))
		case strings.Contains(err.Error(), "after top-level value"):
			err = errors.New("text after the JSON object")
		}
	}
	switch {
	case err != nil:
		return Report{}, fmt.Errorf("%w: %w", ErrNotReport, err)
	case r.Schema == 0:
		return Report{}, fmt.Errorf("%w: it has no schema", ErrNotReport)
	case r.Schema != Schema:
		return Report{}, fmt.Errorf("%w: schema %d, this gpurig reads schema %d", ErrNotReport, r.Schema, Schema)
	}
	if read.Results != nil {
		r.Results = read.Results.all
	}
	if want := Count(r.Results); r.Totals != want {
		return Report{}, fmt.Errorf("%w: its totals %+v are not those of its results %+v", ErrNotReport, r.Totals, want)
	}
	return r, nil
}

// count counts the JSON objects in data, and commas between values. It need not be JSON.
func count(data []byte) (objects, values int) {
	text := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case c == '{' && !text:
			objects++
		case c == ',' && !text:
			values++
		}
	}
	return objects, values
}

// results are those of a report as they are read, each looked at before the next.
type results struct {
	all  []Result
	seen map[string]bool
}

// UnmarshalJSON is part of json.Unmarshaler.
func (r *results) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("results: want a list: %w", err)
	}
	n := min(bytes.Count(data, []byte(`"verdict"`)), MaxResults)
	r.all, r.seen = make([]Result, 0, n), make(map[string]bool, n)
	for dec.More() {
		if len(r.all) == MaxResults {
			return fmt.Errorf("more than %d results", MaxResults)
		}
		var res Result
		if err := dec.Decode(&res); err != nil {
			return err
		}
		key := res.Key()
		switch res.Verdict {
		case Pass, Fail, Broken, Skip, Differ:
		default:
			return fmt.Errorf("result %d, %s, has verdict %q", len(r.all)+1, key, res.Verdict)
		}
		if r.seen[key] {
			return fmt.Errorf("%s is there twice", key)
		}
		r.seen[key] = true
		r.all = append(r.all, res)
	}
	return nil
}

// Read reads a report file of at most 256 MiB.
func Read(file string) (Report, error) {
	// A pipe is read, as a shell hands it over; one that nobody writes to is empty.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Report{}, err
	}
	if mode := info.Mode(); !mode.IsRegular() && mode&fs.ModeNamedPipe == 0 {
		return Report{}, fmt.Errorf("%s: %w: not a regular file", file, ErrNotReport)
	}
	var b bytes.Buffer
	if info.Mode().IsRegular() {
		b.Grow(int(min(info.Size(), maxFile)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(f, maxFile+1)); err != nil {
		return Report{}, err
	}
	if b.Len() > maxFile {
		return Report{}, fmt.Errorf("%s: %w: larger than %d bytes", file, ErrNotReport, maxFile)
	}
	r, err := Parse(b.Bytes())
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}
