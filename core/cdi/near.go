package cdi

import (
	"slices"
	"strings"
)

// nearest returns the texts of have that differ from s by few letters, nearest
// first, at most n.
func nearest(s string, have []string, n int) []string {
	if len(s) > 2*MaxDevice { // the distance costs the product of the lengths
		return nil
	}
	type scored struct {
		text string
		dist int
	}
	limit := max(1, len(s)/3)
	var near []scored
	for _, h := range have {
		if len(h)-len(s) > limit || len(s)-len(h) > limit {
			continue
		}
		if d := distance(strings.ToLower(s), strings.ToLower(h)); d <= limit {
			near = append(near, scored{h, d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.dist - b.dist })
	var out []string
	for _, c := range near[:min(n, len(near))] {
		out = append(out, c.text)
	}
	return out
}

// distance returns how many bytes have to be added, removed or changed
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// some joins texts for a message, at most ten.
func some(all []string) string {
	const most = 10
	if len(all) == 0 {
		return "none"
	}
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:most], ", ") + ", …"
}
