package bench

import (
	"testing"

	"gpurig/fakehw/profiles"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// BenchmarkScenarios runs every shipped scenario on sim, all variants. "first"
// makes everything, the CDI Specs included; "specs kept" has those of a run
// before, and makes hosts, plans and containers.
func BenchmarkScenarios(b *testing.B) {
	all, err := scenarios.LoadFS(scenarios.Files, scenarios.Options{Hosts: profiles.Names()})
	if err != nil {
		b.Fatal(err)
	}
	variants := scenarios.ExpandAll(all)
	run := func(b *testing.B, specs *specgen.Generator) {
		s, err := sim.New(nil)
		if err != nil {
			b.Fatal(err)
		}
		r, err := runner.Run(b.Context(), runner.Options{Targets: []target.Target{s}, Specs: specs, Hosts: runner.Profiles{}}, variants)
		if err != nil || !r.Complete || r.Totals.All() != len(variants) {
			b.Fatalf("the run was not complete: %+v, %v", r.Totals, err)
		}
	}
	rate := func(b *testing.B) {
		b.ReportMetric(float64(b.N*len(variants))/b.Elapsed().Seconds(), "scenarios/s")
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			specs := specgen.New(specgen.Options{})
			run(b, specs)
			specs.Close()
		}
		rate(b)
	})
	b.Run("specs kept", func(b *testing.B) {
		specs := specgen.New(specgen.Options{})
		defer specs.Close()
		run(b, specs)
		for b.Loop() {
			run(b, specs)
		}
		rate(b)
	})
}
