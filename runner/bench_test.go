package runner_test

import (
	"testing"

	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// BenchmarkShippedScenarios runs every variant of every shipped scenario on
// sim, again and again, with Specs made beforehand; runs/s is what counts.
func BenchmarkShippedScenarios(b *testing.B) {
	all, err := scenarios.LoadFS(scenarios.Files, scenarios.Options{Hosts: profiles.Names()})
	if err != nil {
		b.Fatal(err)
	}
	specs := specgen.New(specgen.Options{})
	b.Cleanup(func() {
		if err := specs.Close(); err != nil {
			b.Error(err)
		}
	})
	machine, err := sim.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	r, err := runner.New(runner.Options{Targets: []target.Target{machine}, Specs: specs, Hosts: runner.Profiles{}})
	if err != nil {
		b.Fatal(err)
	}
	variants := scenarios.ExpandAll(all)
	if testing.Short() { // whether it works, not how fast
		variants = variants[:len(variants)/20]
	}
	r.Run(b.Context(), variants)
	b.ReportAllocs()
	var t reports.Totals
	for b.Loop() {
		t = r.Run(b.Context(), variants).Totals
	}
	if t.Fail+t.Broken > 0 {
		b.Fatalf("totals %+v: what fails early is no measure", t)
	}
	b.ReportMetric(float64(len(variants)*b.N)/b.Elapsed().Seconds(), "runs/s")
}
