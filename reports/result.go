package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Key names a result within a report: "mig/one-of-two[cgroup=v2,idmap=none] on lxc".
func (r Result) Key() string { return r.ID() + " on " + r.Target }

// Place is where the scenario stands, and there what is not as expected: "mig/x.yaml:12".
func (r Result) Place() string { return r.place(r.Line) }

func (r Result) place(line int) string {
	if r.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", r.File, max(line, 1))
}

// ID names the scenario and its variant, the same on every target.
func (r Result) ID() string {
	if len(r.Variant) == 0 {
		return r.Scenario
	}
	parts := make([]string, 0, len(r.Variant))
	for _, k := range slices.Sorted(maps.Keys(r.Variant)) {
		parts = append(parts, k+"="+r.Variant[k])
	}
	return r.Scenario + "[" + strings.Join(parts, ",") + "]"
}

// Flaky is the reason of the warning that a result had another verdict when it was run
// before.
const Flaky = "flaky"

// AddFlaky warns of another run of the same, whose verdict does not count.
func (r *Result) AddFlaky(other Result) {
	r.Warnings = append(slices.Clip(r.Warnings), Warning{Reason: Flaky, Text: r.Key() + ": another run of it was " + other.Says()})
}

// Says is the verdict and the first that it is for.
func (r Result) Says() string {
	switch {
	case len(r.Findings) > 0:
		return string(r.Verdict) + ": " + r.Findings[0].Text()
	case r.Reason != "":
		return string(r.Verdict) + ": " + r.Reason
	}
	return string(r.Verdict)
}

// flaky counts the results with that warning.
func flaky(results []Result) (n int) {
	for _, r := range results {
		if slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Reason == Flaky }) {
			n++
		}
	}
	return n
}

// Count counts results by verdict.
func Count(results []Result) Totals {
	var t Totals
	for _, r := range results {
		switch r.Verdict {
		case Pass:
			t.Pass++
		case Fail:
			t.Fail++
		case Broken:
			t.Broken++
		case Skip:
			t.Skip++
		case Differ:
			t.Differ++
		}
	}
	return t
}

// All is the number of results.
func (t Totals) All() int { return t.Pass + t.Fail + t.Broken + t.Skip + t.Differ }

// Sort puts results in the order of a report: by scenario, variant, target.
func Sort(results []Result) {
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.ID(), b.ID()), cmp.Compare(a.Target, b.Target))
	})
}

// Finish sorts the results, counts them and marks the report complete.
func (r *Report) Finish(complete bool) {
	Sort(r.Results)
	r.Schema, r.Totals, r.Complete = Schema, Count(r.Results), complete
}
