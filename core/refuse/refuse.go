// Package refuse has the error type for refusals: what was refused, the reason, a
// message for people, and a hint what to do instead.
//
// A Reason is a stable name that a program can compare and a test can expect;
// Msg and Hint are for people and may change. The packages that refuse (request,
// cdi, translate) define their reasons as constants and list each with one
// sentence. This package defines none, and depends only on the standard library.
package refuse

import (
	"errors"
	"fmt"
	"strings"
)

// A Reason is one stable lower-case word with hyphens, "mig-on-physical", that
// says why something was refused. Equal reasons mean the same rule.
type Reason string

// Error makes a Reason a sentinel: errors.Is(err, request.ReasonMigAll) reports
// whether any refusal in err has that reason.
func (r Reason) Error() string { return string(r) }

// A Meaning explains a Reason in one sentence, for listings and documentation.
type Meaning struct {
	Reason  Reason `json:"reason" yaml:"reason"`
	Meaning string `json:"meaning" yaml:"meaning"` // one sentence, with its full stop
}

// An Error is one refusal.
type Error struct {
	Reason Reason
	Where  string // the place in the user's words: an option, a file with line and column, a container edit; may be empty
	Msg    string // what is wrong, quoting the input; one line, no full stop
	Hint   string // what the user can do next, one sentence; may be empty; not part of Error()
	Err    error  // the cause, if another error is; reached through errors.Is and errors.As
}

// Error returns "where: msg: cause" on one line, without the parts that are
// empty, and without the hint: printing hints is up to the command line.
func (e *Error) Error() string {
	var parts []string
	for _, s := range []string{e.Where, e.Msg} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		return string(e.Reason)
	}
	return strings.ReplaceAll(strings.Join(parts, ": "), "\n", "; ")
}

// Unwrap offers the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this refusal's Reason.
func (e *Error) Is(target error) bool {
	r, ok := target.(Reason)
	return ok && r == e.Reason
}

// New returns a refusal whose Msg is formatted; give it a Hint with WithHint.
func New(r Reason, where, format string, args ...any) *Error {
	return &Error{Reason: r, Where: where, Msg: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy of e with a formatted hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithErr returns a copy of e with err as its cause.
func (e *Error) WithErr(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

// As returns every refusal in err, in the order in which they were joined: it
// walks joined and wrapped errors, and takes the outermost refusal of each
// chain. An err without any gives nil, as does a nil err.
func As(err error) []*Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok { // not errors.As: this very error, not one below it
		if e == nil {
			return nil
		}
		return []*Error{e}
	}
	switch u := err.(type) {
	case interface{ Unwrap() []error }:
		var all []*Error
		for _, sub := range u.Unwrap() {
			all = append(all, As(sub)...)
		}
		return all
	case interface{ Unwrap() error }:
		return As(u.Unwrap())
	}
	return nil
}

// Reasons returns the reasons of all refusals in err, in order, with repeats.
func Reasons(err error) []Reason {
	var rs []Reason
	for _, e := range As(err) {
		rs = append(rs, e.Reason)
	}
	return rs
}

// Join joins refusals into one error, as errors.Join does; none gives nil, and
// one gives that refusal itself.
func Join(es ...*Error) error {
	var errs []error
	for _, e := range es {
		if e != nil {
			errs = append(errs, e)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
