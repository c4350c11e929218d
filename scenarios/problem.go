package scenarios

import (
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong in a scenario file.
type Problem struct {
	File    string // as given to Load
	Line    int    // from 1; 0: the file as a whole
	Column  int    // from 1, in characters
	Msg     string // what is wrong, quoting the input; one line
	Hint    string // what to write instead, one sentence; may be empty
	Excerpt string // the source line; may be empty
}

// Error returns "file:line:column: message" on one line.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Msg)
}

// Text returns the problem with its source line, a mark below the column, and
// the hint, each on a line of its own.
func (p *Problem) Text() string {
	var b strings.Builder
	b.WriteString(p.Error() + "\n")
	if p.Excerpt != "" {
		fmt.Fprintf(&b, "%6d | %s\n       | %s^\n", p.Line, p.Excerpt, indent(p.Excerpt, p.Column-1))
	}
	if p.Hint != "" {
		b.WriteString("hint: " + p.Hint + "\n")
	}
	return b.String()
}

// indent returns n columns of white space that line up below line.
func indent(line string, n int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		if i == n {
			break
		}
		if r == '\t' {
			b.WriteRune('\t')
		} else {
			b.WriteRune(' ')
		}
	}
	return b.String()
}

// Problems are all the things that are wrong in the files of one Load, by file,
// line and column.
type Problems []*Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Text returns every problem with its source line and hint.
func (ps Problems) Text() string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.Text())
	}
	return b.String()
}

// Unwrap offers the problems one by one.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// err returns ps in order as an error, or nil when there is none.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b *Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.CompactFunc(ps, func(a, b *Problem) bool { return a.Error() == b.Error() })
}

// nearest returns the word that was most likely meant, or "".
func nearest(word string, known []string) string {
	best, bestAt := "", 1+len([]rune(word))/3
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d <= bestAt && (best == "" || d < bestAt) {
			best, bestAt = k, d
		}
	}
	return best
}

// distance is how many letters must be changed, added, dropped or swapped with
// their neighbour to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 64 || len(y) > 64 {
		return max(len(x), len(y))
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}

// meant returns "; did you mean "x"?" for the nearest known word, or "".
func meant(word string, known []string) string {
	if n := nearest(word, known); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}
