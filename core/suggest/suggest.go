// Package suggest writes the part of an error that helps: the names that a
// mistyped word may stand for, and lists of what there is.
package suggest

import (
	"slices"
	"strings"
)

// longest is the longest word, in runes, that is compared: the work is the
// product of the lengths.
const longest = 600

// Nearest returns the known words that differ from word in few letters and share
// some with it, at most n, nearest first. Case does not count.
func Nearest(word string, known []string, n int) []string {
	w := []rune(strings.ToLower(word))
	limit := 1 + len(w)/3
	type candidate struct {
		text     string
		distance int
	}
	var near []candidate
	for _, k := range known {
		r := []rune(strings.ToLower(k))
		if len(w) > longest || len(r)-len(w) > limit || len(w)-len(r) > limit {
			continue
		}
		if d := distance(w, r); d <= limit && d < max(2, len(r)) {
			near = append(near, candidate{k, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range near[:min(n, len(near))] {
		out = append(out, c.text)
	}
	return out
}

// distance is how many letters must be changed, added, removed or swapped with
// their neighbour to make b of a (Damerau-Levenshtein, restricted).
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// List joins texts for a message, at most ten: "none", "a, b", "a, …, j, …".
func List(all []string) string {
	const most = 10
	if len(all) == 0 {
		return "none"
	}
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:most], ", ") + ", …"
}
