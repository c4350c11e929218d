package runner_test

import (
	"testing"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/image"
	"gpurig/scenarios"
)

// shipped returns every variant of the scenarios that come with the program.
func shipped(t *testing.T) []scenarios.Variant {
	t.Helper()
	all, err := scenarios.LoadFS(scenarios.Files, words())
	if err != nil {
		t.Fatal(err)
	}
	return scenarios.ExpandAll(all)
}

// words are what scenarios may name.
func words() scenarios.Options {
	out := scenarios.Options{Hosts: profiles.Names(), Images: image.Kinds(), Fault: fault.Check, Try: runner.Profiles{}.Try, Content: image.Check, Ldconfig: image.HasLdconfig}
	for _, m := range runner.AllReasons() {
		out.Reasons = append(out.Reasons, string(m.Reason))
	}
	return out
}

// TestShippedScenariosPassOnSim runs every one of them.
func TestShippedScenariosPassOnSim(t *testing.T) {
	report, _ := shippedRun(t)
	if !report.Complete || report.Totals.Pass == 0 {
		t.Errorf("complete %v, totals %+v; want a complete run with passes", report.Complete, report.Totals)
	}
	for _, r := range report.Results {
		switch r.Verdict {
		case reports.Pass:
		case reports.Skip:
			t.Logf("%s: skipped: %s", r.Key(), r.Reason)
		default:
			t.Errorf("%s: %s: %s", r.Key(), r.Verdict, r.Reason)
			for _, f := range r.Findings {
				t.Errorf("    %s %s %s: want %s, got %s", f.Station, f.Step, f.What, f.Want, f.Got)
			}
		}
	}
}
