package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary returns the report as a person at a terminal wants it: what failed
// and why, what is broken, skips by reason, the totals last.
func Summary(r Report, took time.Duration) string {
	var b strings.Builder
	for _, res := range append(pick(r, Differ), pick(r, Fail)...) {
		fmt.Fprintf(&b, "\n%s %s, host %s\n  %s\n", strings.ToUpper(string(res.Verdict)), res.Key(), res.Host, oneLine(res.Title))
		for i, f := range res.Findings {
			fmt.Fprintf(&b, "  %s\n", oneLine(f.Line()))
			if again := i+1 < len(res.Findings) && res.Findings[i+1].Next == f.Next; f.Next != "" && !again {
				fmt.Fprintf(&b, "    next: %s\n", oneLine(f.Next))
			}
		}
	}
	for _, res := range pick(r, Broken) {
		fmt.Fprintf(&b, "\nBROKEN %s, host %s\n  %s\n", res.Key(), res.Host, oneLine(res.Reason))
		for _, l := range res.Evidence {
			fmt.Fprintf(&b, "    %s\n", oneLine(l))
		}
	}
	byReason := map[string]int{}
	for _, res := range pick(r, Skip) {
		byReason[res.Target+": "+res.Reason]++
	}
	if len(byReason) > 0 {
		fmt.Fprintln(&b)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(&b, "skipped %d on %s\n", byReason[reason], oneLine(reason))
	}
	noted := map[string]int{}
	for _, res := range r.Results {
		for _, n := range res.Notes {
			noted[n]++
		}
	}
	for _, n := range slices.Sorted(maps.Keys(noted)) {
		fmt.Fprintf(&b, "noted %d times: %s\n", noted[n], oneLine(n))
	}
	if b.Len() > 0 {
		fmt.Fprintln(&b)
	}
	byTarget := map[string][]Result{}
	for _, res := range r.Results {
		byTarget[res.Target] = append(byTarget[res.Target], res)
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		fmt.Fprintf(&b, "%-5s %s\n", name, Count(byTarget[name]).words())
	}
	for _, p := range Across(r.Results) {
		fmt.Fprintln(&b, oneLine(p.String()))
	}
	fmt.Fprintf(&b, "%s in %s\n", headline(r), took.Round(time.Millisecond))
	return b.String()
}

func oneLine(s string) string { return strings.ReplaceAll(clean(s), "\n", " ") }
