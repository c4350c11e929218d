package strictdoc

import (
	"cmp"
	"fmt"
	"gpurig/core/suggest"
	"slices"
	"strconv"
	"strings"
)

// A Problem is one thing that is wrong in a file.
type Problem struct {
	File   string // as it was given
	Line   int    // from 1; 0: the file as a whole
	Column int    // from 1, in characters
	Msg    string // what is wrong, quoting the input; one line
	Hint   string // what to write instead, one sentence; may be empty
	Err    error  // the cause, where there is one

	source string // the line; may be empty
}

// Error returns "file:line:column: message" on one line.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Msg)
}

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

// excerptWidth bounds what is shown of a line, in characters.
const excerptWidth = 160

// Excerpt returns the source line with a mark below the column, as two lines;
// empty: there is none. Of a long line it is the part around the column.
func (p *Problem) Excerpt() string {
	if p.source == "" {
		return ""
	}
	line, at := []rune(p.source), max(p.Column-1, 0)
	if len(line) > excerptWidth {
		from := min(max(at-excerptWidth/2, 0), len(line)-excerptWidth)
		line, at = line[from:from+excerptWidth], at-from
	}
	below := make([]rune, min(at, len(line)))
	for i := range below {
		below[i] = ' '
		if line[i] == '\t' {
			below[i] = '\t'
		}
	}
	return fmt.Sprintf("%6d | %s\n       | %s^\n", p.Line, string(line), string(below))
}

// Problems are all the things that are wrong in the files that were read.
type Problems []*Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap offers the problems one by one.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// Err returns ps by file, line and column, each once, or nil when there is none.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(ps, func(a, b *Problem) bool { return a.Error() == b.Error() })
}

// oneLine escapes what would break a line, or what a terminal would act on.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteByte(' ')
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// Meant returns `; did you mean "x"?` for the nearest known word, or "".
func Meant(word string, known []string) string {
	if near := suggest.Nearest(word, known, 1); len(near) > 0 {
		return fmt.Sprintf("; did you mean %q?", near[0])
	}
	return ""
}
