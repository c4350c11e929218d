package hookspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// LibraryShadowed is the reason of a Warning about a library, and what the hook's
// message of a refusal begins with.
const LibraryShadowed = "library-shadowed"

// A Warning is what the hook could not make as the hook file has it, in a container
// that it let start: with File.Strict it is a refusal.
type Warning struct {
	Reason string `json:"reason"`          // LibraryShadowed
	SONAME string `json:"soname"`          // "libcuda.so.1"
	Host   string `json:"host"`            // the driver's file, where the container has it mounted
	Loads  string `json:"loads,omitempty"` // the file that the container's loader takes for the SONAME; empty: it finds none
	By     string `json:"by,omitempty"`    // by which rule it does: a Rule of package ldcache
	// Later says that this is so only after the container's next own ldconfig.
	Later bool `json:"later,omitempty"`
}

// String is the warning without its reason, on one line. Paths are the image's.
func (w Warning) String() string {
	takes := "finds none"
	if w.Loads != "" {
		takes = fmt.Sprintf("takes %q by %s", cut(w.Loads), cut(w.By))
	}
	if w.Later {
		takes += " after the container's next ldconfig"
	}
	return fmt.Sprintf("%s: the container's loader %s, not the driver's %q", cut(w.SONAME), takes, cut(w.Host))
}

// WarningsFile is where the hook leaves the warnings of its last run that applied
// the hook file. Its first stage makes it empty, for File.Owner alone, since the
// stage that applies may run as the container's root. Whoever clears away after the
// hook clears it away.
func WarningsFile(hookFile string) string { return hookFile + ".warnings" }

// Limits of that file.
const (
	MaxWarnings      = 256
	MaxWarningsBytes = 4 << 20
)

// warnings is the form of the file.
type warnings struct {
	Version  int       `json:"version"`
	Warnings []Warning `json:"warnings"`
}

// MarshalWarnings returns the file of the first MaxWarnings of list.
func MarshalWarnings(list []Warning) ([]byte, error) {
	data, err := json.MarshalIndent(warnings{Version, list[:min(len(list), MaxWarnings)]}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("warnings of the hook: %w", err)
	}
	return append(data, '\n'), nil
}

// ParseWarnings reads the file; an empty one has none. Its texts may be an image's:
// String escapes them.
func ParseWarnings(data []byte) ([]Warning, error) {
	if len(data) > MaxWarningsBytes {
		return nil, fmt.Errorf("warnings of the hook: larger than %d bytes", MaxWarningsBytes)
	}
	if len(data) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var w warnings
	if err := dec.Decode(&w); err != nil {
		return nil, fmt.Errorf("warnings of the hook: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("warnings of the hook: text after the JSON object")
	}
	if w.Version != Version {
		return nil, fmt.Errorf("warnings of the hook: version %d, want %d", w.Version, Version)
	}
	if len(w.Warnings) > MaxWarnings {
		return nil, fmt.Errorf("warnings of the hook: more than %d", MaxWarnings)
	}
	for i, x := range w.Warnings {
		if x.Reason != LibraryShadowed || x.SONAME == "" || x.Host == "" || textProblem(x.SONAME+x.By) != "" {
			return nil, fmt.Errorf("warnings of the hook: warnings[%d]: reason %q, soname %q, host %q", i, cut(x.Reason), cut(x.SONAME), cut(x.Host))
		}
	}
	return w.Warnings, nil
}
