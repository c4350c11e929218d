package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrInvalid marks a profile that is not as the schema and the hardware allow.
var ErrInvalid = errors.New("invalid profile")

// A Problem is one mistake in a profile file.
type Problem struct {
	File   string
	Line   int    // from 1; 0: of the file as a whole
	Column int    // from 1
	Path   string // "gpus[0].product"; empty: of the file as a whole
	Why    string
	Err    error // the cause, where there is one
}

// Error reads "dgx.yaml:7:14: gpus[0].product: …".
func (p *Problem) Error() string {
	s := p.File + ":"
	if p.Line > 0 {
		s = fmt.Sprintf("%s:%d:%d:", p.File, p.Line, p.Column)
	}
	if p.Path != "" {
		s += " " + p.Path + ":"
	}
	return s + " " + p.Why
}

// Unwrap gives ErrInvalid and the cause.
func (p *Problem) Unwrap() []error {
	if p.Err == nil {
		return []error{ErrInvalid}
	}
	return []error{ErrInvalid, p.Err}
}

// join returns all problems in order of their place; nil if there are none.
func join(problems []*Problem) error {
	slices.SortStableFunc(problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}
