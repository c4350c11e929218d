package runner_test

import (
	"testing"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/scenarios"
)

// shipped returns every variant of the scenarios that come with the program.
func shipped(t *testing.T) []scenarios.Variant {
	t.Helper()
	all, err := scenarios.LoadFS(scenarios.Files, runner.Words())
	if err != nil {
		t.Fatal(err)
	}
	return scenarios.ExpandAll(all)
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
