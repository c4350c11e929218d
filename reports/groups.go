package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// groups puts results together that say the same of one scenario, on whatever
// target, host and variant, in the order of their first.
func groups(results []Result) [][]Result {
	var out [][]Result
	at := map[string]int{}
	for _, r := range results {
		key := fmt.Sprintf("%q %q %q %q", r.Scenario, r.Verdict, r.Reason, r.Evidence)
		for _, f := range r.Findings {
			key += fmt.Sprintf(" %q", f.Text())
		}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// A cause is what several results have as their first finding, or as the reason
// why they could not be judged.
type cause struct {
	Count int
	Text  string // one line, clean
}

// causes counts them, the most frequent first.
func causes(results []Result) []cause {
	count := map[string]int{}
	for _, r := range results {
		text := r.Reason
		if len(r.Findings) > 0 {
			f := r.Findings[0]
			f.Container, f.Step = "", ""
			text = f.Text()
		}
		count[oneLine(text)]++
	}
	var out []cause
	for text, n := range count {
		out = append(out, cause{n, text})
	}
	slices.SortFunc(out, func(a, b cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Text, b.Text))
	})
	return out
}

// maxCauses is how many causes are told, where there are more groups than that.
const maxCauses = 5

// mainCauses returns the first of the causes and how many more there are; none
// where the groups themselves are read as fast.
func mainCauses(results []Result, groups int) (first []cause, more int) {
	if groups <= maxCauses {
		return nil, 0
	}
	all := causes(results)
	n := min(len(all), maxCauses)
	return all[:n], len(all) - n
}

// targetsOf names the targets of results, each once, in their order.
func targetsOf(results []Result) string {
	var out []string
	for _, r := range results {
		if !slices.Contains(out, r.Target) {
			out = append(out, r.Target)
		}
	}
	return strings.Join(out, ", ")
}
