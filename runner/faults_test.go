package runner_test

import (
	"strings"
	"testing"

	"gpurig/fakehw/fault"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// A scenario that passes on the sound host fails on one that is broken in what it
// expects, and is skipped where the host cannot be: so no fault is a mere word.
// What it does not expect breaks nothing.
func TestAFaultOverARunShows(t *testing.T) {
	all, err := scenarios.LoadFS(scenarios.Files, runner.Words(), "faults/sound")
	if err != nil {
		t.Fatal(err)
	}
	simulated, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	specs := specgen.New(specgen.Options{})
	t.Cleanup(func() { specs.Close() })
	for text, want := range map[string]reports.Verdict{
		"": reports.Pass, "no-driver": reports.Fail, "no-driver:0": reports.Fail, "version-mismatch:570": reports.Fail, "half-upgrade:570": reports.Fail,
		"no-uvm": reports.Fail, "stale-major:nvidia-uvm=511": reports.Fail, "no-nodes": reports.Fail, "no-nodes:/dev/nvidia1": reports.Fail,
		"node:/dev/nvidia0,mode=0600": reports.Fail, "off-bus:0": reports.Fail, "nvml:Init=UNKNOWN": reports.Fail, "nvml:DeviceGetUUID=UNKNOWN": reports.Fail,
		"no-persistenced": reports.Pass, "off-bus:7": reports.Skip, "csv-missing:/x": reports.Skip,
	} {
		t.Run(strings.ReplaceAll(text, "/", "."), func(t *testing.T) {
			var faults fault.List
			if text != "" {
				if faults, err = fault.ParseList([]string{text}); err != nil {
					t.Fatal(err)
				}
			}
			r, err := runner.Run(t.Context(), runner.Options{
				Targets: []target.Target{simulated}, Specs: specs, Hosts: runner.Profiles{}, Faults: faults, Jobs: 1,
			}, scenarios.ExpandAll(all))
			if err != nil || len(r.Results) != 1 {
				t.Fatalf("%d results, %v", len(r.Results), err)
			}
			got := r.Results[0]
			if got.Verdict == reports.Skip && want != reports.Skip && strings.Contains(got.Reason, "Spec") {
				t.Skip(got.Reason) // no namespace of our own here, and no Spec of such a host is checked in
			}
			if got.Verdict != want || got.Variant["faults"] != text {
				t.Errorf("%s, %s %v; want %s", got.Verdict, got.Reason, got.Variant, want)
			}
		})
	}
}
