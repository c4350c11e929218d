package hookspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"
)

// Limits of one file. They bound the hook's work, whatever wrote the file.
const (
	MaxBytes   = 1 << 20
	MaxEntries = 10_000 // links, mount points or modes
	MaxFolders = 256
	MaxPath    = 4095
	maxName    = 255
)

// ErrVersion marks a file of a version that this package does not read.
var ErrVersion = errors.New("another version of the hook file")

// A ParseError is a hook file that is not acceptable. It wraps ErrVersion, what
// the JSON decoder said, or FieldErrors.
type ParseError struct{ Err error }

func (e *ParseError) Error() string { return e.Err.Error() }
func (e *ParseError) Unwrap() error { return e.Err }

// A FieldError says which field of a hook file is wrong, and why.
type FieldError struct {
	Field string // "links[3].path"
	Why   string
}

func (e *FieldError) Error() string { return fmt.Sprintf("hook file: %s: %s", e.Field, e.Why) }

// Parse reads a hook file: one JSON object, no unknown field, at most MaxBytes,
// and everything in it within the rules of Validate. Every error is a ParseError.
func Parse(data []byte) (File, error) {
	f, err := parse(data)
	if err != nil {
		return File{}, &ParseError{err}
	}
	return f, nil
}

func parse(data []byte) (File, error) {
	if len(data) > MaxBytes {
		return File{}, fmt.Errorf("hook file: larger than %d bytes", MaxBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f File
	if err := dec.Decode(&f); err != nil || f.Version != Version {
		return File{}, cmp.Or(versionProblem(data), fmt.Errorf("hook file: %w", err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return File{}, errors.New("hook file: text after the JSON object")
	}
	if err := f.Validate(); err != nil {
		return File{}, err
	}
	return f, nil
}

// versionProblem says that data is of another version, whose fields are not known, or
// no JSON; nil: neither.
func versionProblem(data []byte) error {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("hook file: not JSON: %w", err)
	}
	if head.Version == nil {
		return fmt.Errorf("hook file has version none, this cdi-hook reads version %d: %w", Version, ErrVersion)
	}
	if *head.Version != Version {
		return fmt.Errorf("hook file has version %d, this cdi-hook reads version %d: %w", *head.Version, Version, ErrVersion)
	}
	return nil
}

// Marshal returns the file as indented JSON with a final line break: equal
// files, equal bytes.
func (f File) Marshal() ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("hook file: %w", err)
	}
	return append(data, '\n'), nil
}

// Validate reports every field that the hook would refuse, joined.
func (f File) Validate() error {
	var errs []error
	check := func(why, field string, at ...any) {
		if why != "" {
			errs = append(errs, &FieldError{Field: fmt.Sprintf(field, at...), Why: why})
		}
	}
	if f.Version != Version {
		check(fmt.Sprintf("is %d, want %d", f.Version, Version), "version")
	}
	check(nameProblem(f.Container), "container")
	check(digestProblem(f.Spec), "spec")
	if len(f.MountPoints) > MaxEntries || len(f.Links) > MaxEntries || len(f.Modes) > MaxEntries {
		check(fmt.Sprintf("more than %d entries of one kind", MaxEntries), "file")
		return errors.Join(errs...)
	}
	if len(f.LibraryDirs) > MaxFolders {
		check(fmt.Sprintf("more than %d folders", MaxFolders), "libraryDirs")
	}
	points := map[string]bool{}
	for i, m := range f.MountPoints {
		check(PathProblem(m.Path), "mountPoints[%d].path", i)
		if points[m.Path] {
			check(fmt.Sprintf("%q is there twice", m.Path), "mountPoints[%d].path", i)
		}
		points[m.Path] = true
		if m.Source != "" {
			check(PathProblem(m.Source), "mountPoints[%d].source", i)
		}
	}
	links := map[string]bool{}
	for i, l := range f.Links {
		check(PathProblem(l.Path), "links[%d].path", i)
		check(TargetProblem(l.Target), "links[%d].target", i)
		if links[l.Path] {
			check(fmt.Sprintf("%q is there twice", l.Path), "links[%d].path", i)
		}
		if points[l.Path] {
			check(fmt.Sprintf("%q is a mount point too", l.Path), "links[%d].path", i)
		}
		links[l.Path] = true
	}
	for i, d := range f.LibraryDirs {
		check(PathProblem(d), "libraryDirs[%d]", i)
		check(FolderProblem(d), "libraryDirs[%d]", i)
	}
	for i, m := range f.Modes {
		check(PathProblem(m.Path), "modes[%d].path", i)
		if !strings.HasPrefix(m.Path, "/dev/") {
			check(fmt.Sprintf("%q is not below /dev", m.Path), "modes[%d].path", i)
		}
		if m.Mode&^0o777 != 0 {
			check(fmt.Sprintf("%#o has more than permission bits", uint32(m.Mode)), "modes[%d].mode", i)
		}
	}
	return errors.Join(errs...)
}

// PathProblem says what is wrong with a path inside a container; empty: nothing.
// A path is absolute, clean, not "/", printable UTF-8, and within the kernel's
// lengths.
func PathProblem(p string) string {
	switch {
	case p == "" || p[0] != '/':
		return fmt.Sprintf("%q is not an absolute path", cut(p))
	case p == "/":
		return "the root itself cannot be meant"
	case len(p) > MaxPath:
		return fmt.Sprintf("longer than %d bytes", MaxPath)
	case path.Clean(p) != p:
		return fmt.Sprintf("%q is not clean: write %q", cut(p), cut(path.Clean(p)))
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxName {
			return fmt.Sprintf("a name in it is longer than %d bytes", maxName)
		}
	}
	return textProblem(p)
}

// TargetProblem says what is wrong with the text of a link; empty: nothing. It
// is relative, so that it means the same wherever the root is looked at from.
func TargetProblem(t string) string {
	switch {
	case t == "":
		return "is empty"
	case t[0] == '/':
		return fmt.Sprintf("%q is absolute; links of a plan are relative", cut(t))
	case len(t) > MaxPath:
		return fmt.Sprintf("longer than %d bytes", MaxPath)
	}
	return textProblem(t)
}

// FolderProblem says what in d the loader's configuration would read as
// something else than a folder name; empty: nothing. See ldconfig(8).
func FolderProblem(d string) string {
	if i := strings.IndexAny(d, ":=# \t,"); i >= 0 {
		return fmt.Sprintf("%q has %q, which means something in ld.so.conf", cut(d), d[i])
	}
	return ""
}

func textProblem(s string) string {
	if !utf8.ValidString(s) {
		return fmt.Sprintf("%q is not UTF-8", cut(s))
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
			return fmt.Sprintf("%q has a control character", cut(s))
		}
	}
	return ""
}

func nameProblem(s string) string {
	if s == "" || len(s) > 63 {
		return "want a name of 1 to 63 characters"
	}
	for _, r := range s {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
		if !ok {
			return fmt.Sprintf("%q has a character other than letters, digits, \".\", \"_\" and \"-\"", cut(s))
		}
	}
	if s[0] == '.' || s[0] == '-' {
		return fmt.Sprintf("%q does not start with a letter or digit", s)
	}
	return ""
}

// digestProblem says what in s is no SHA-256 in hex; the empty text is allowed.
func digestProblem(s string) string {
	if s == "" {
		return ""
	}
	if len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return fmt.Sprintf("%q is not a SHA-256 in lower-case hex", cut(s))
	}
	return ""
}

// cut keeps quoted input short: an attacker chooses its length.
func cut(s string) string {
	if len(s) > 256 {
		return s[:253] + "..."
	}
	return s
}
