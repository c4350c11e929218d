package vfio_test

import (
	"testing"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/image"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// Every scenario of virtual machines passes on an entered host as it is simulated, entry
// by entry.
func TestStoriesAreAsSimulated(t *testing.T) {
	v := open(t)
	s, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	words := scenarios.Options{Hosts: profiles.Names(), Images: image.Kinds(), Fault: fault.Check}
	for _, m := range runner.AllReasons() {
		words.Reasons = append(words.Reasons, string(m.Reason))
	}
	all, err := scenarios.LoadFS(scenarios.Files, words, "vm")
	if err != nil || len(all) < 20 {
		t.Fatalf("%d scenarios, %v; want at least 20", len(all), err)
	}
	specs := specgen.New(specgen.Options{Children: 1})
	defer specs.Close()
	r, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{s, v}, Specs: specs, Hosts: runner.Profiles{}}, scenarios.ExpandAll(all))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if x.Verdict != reports.Pass {
			t.Errorf("%s: %s %s %+v", x.Key(), x.Verdict, x.Reason, x.Findings)
		}
	}
	sums := reports.Across(r.Results)
	if len(sums) != 1 || sums[0].Scenarios != len(scenarios.ExpandAll(all)) || sums[0].Agree != sums[0].Entries || sums[0].Entries < 1000 {
		t.Errorf("%+v; want all scenarios to agree", sums)
	}
}
