package host

import (
	"errors"
	"fmt"
)

// Reasons why a host cannot be described. Each is wrapped by an error that says
// which file of the host it is about.
var (
	// ErrMalformed marks a text that is not as its writer documents it.
	ErrMalformed = errors.New("malformed")
	// ErrConflict marks two sources that say different things of one device.
	ErrConflict = errors.New("sources disagree")
)

// maxQuote bounds how much of a stranger's text a message repeats.
const maxQuote = 80

// A ParseError says which text of the host could not be understood.
type ParseError struct {
	Path string // empty when a parser was called on a text alone
	Line int    // from 1; 0: the text as a whole
	Text string // the offending part, cut to a readable length
	Why  string
}

func (e *ParseError) Error() string {
	at := e.Path
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d", e.Path, e.Line)
	}
	if at != "" {
		at += ": "
	}
	return fmt.Sprintf("%s%s: %q", at, e.Why, e.Text)
}

// Unwrap gives ErrMalformed.
func (e *ParseError) Unwrap() error { return ErrMalformed }

func malformed(line int, text, why string) error {
	if len(text) > maxQuote {
		text = text[:maxQuote] + "…"
	}
	return &ParseError{Line: line, Text: text, Why: why}
}

// inFile names the file that a parse error is about.
func inFile(path string, err error) error {
	if e, ok := errors.AsType[*ParseError](err); ok && e.Path == "" {
		e.Path = path
	}
	return err
}

// A ConflictError says what two sources tell of the same device.
type ConflictError struct {
	What     string // "minor of GPU 0000:07:00.0"
	A, SaysA string
	B, SaysB string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: %v: %s says %s, %s says %s", e.What, ErrConflict, e.A, e.SaysA, e.B, e.SaysB)
}

// Unwrap gives ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }
