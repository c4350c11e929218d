package reports

import (
	"fmt"
	"maps"
	"slices"
)

// A Pair is two targets, in order of name, and what comparing them came to.
type Pair struct {
	A, B      string
	Scenarios int // with their variants
	Entries   int
	Agree     int
}

// Across sums up the comparisons of all results by pairs of targets, in order.
func Across(results []Result) []Pair {
	sums := map[[2]string]Pair{}
	for _, r := range results {
		for _, c := range r.Across {
			key := [2]string{min(r.Target, c.With), max(r.Target, c.With)}
			p := sums[key]
			p.Scenarios, p.Entries, p.Agree = p.Scenarios+1, p.Entries+c.Entries, p.Agree+c.Agree
			sums[key] = p
		}
	}
	var out []Pair
	for _, key := range slices.SortedFunc(maps.Keys(sums), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		p := sums[key]
		p.A, p.B = key[0], key[1]
		out = append(out, p)
	}
	return out
}

// String is the pair in words.
func (p Pair) String() string {
	s := fmt.Sprintf("%s and %s: %d scenarios compared, %d of %d entries agree", p.A, p.B, p.Scenarios, p.Agree, p.Entries)
	if n := p.Entries - p.Agree; n > 0 {
		s += fmt.Sprintf("; the other %d are findings", n)
	}
	return s
}
