package runner_test

import (
	"testing"

	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/image"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// TestShippedScenariosPassOnSim runs every scenario that comes with the program.
func TestShippedScenariosPassOnSim(t *testing.T) {
	words := scenarios.Options{Hosts: profiles.Names(), Images: image.Kinds()}
	for _, m := range runner.AllReasons() {
		words.Reasons = append(words.Reasons, string(m.Reason))
	}
	all, err := scenarios.LoadFS(scenarios.Files, words)
	if err != nil {
		t.Fatal(err)
	}
	specs := specgen.New(specgen.Options{})
	t.Cleanup(func() {
		if err := specs.Close(); err != nil {
			t.Error(err)
		}
	})
	machine, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{machine}, Specs: specs, Hosts: runner.Profiles{}}, scenarios.ExpandAll(all))
	if err != nil {
		t.Fatal(err)
	}
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
