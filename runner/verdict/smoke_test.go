package verdict_test

import (
	"strings"
	"testing"

	"gpurig/runner/observe"
	"gpurig/runner/smoke"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

func TestJudgeSmoke(t *testing.T) {
	one, two := 1, 2
	passed := &observe.Smoke{Devices: []string{"GPU-1"}, Kernels: smoke.Pass}
	failed := &observe.Smoke{Step: smoke.Init, Cause: smoke.NodeMissing, Code: 999, Reason: "/dev/nvidia-uvm"}
	for _, tc := range []struct {
		name string
		want scenarios.SmokeExpect
		got  *observe.Smoke
		says string // empty: no finding
	}{
		{"as expected", scenarios.SmokeExpect{Devices: &one, Kernels: "pass"}, passed, ""},
		{"the UUID of a Tegra, without a prefix", scenarios.SmokeExpect{UUIDs: []string{"1"}}, passed, ""},
		{"another UUID", scenarios.SmokeExpect{UUIDs: []string{"GPU-2"}}, passed, "GPU-2"},
		{"a MIG device's UUID", scenarios.SmokeExpect{UUIDs: []string{"MIG-1"}}, passed, "MIG-1 |"},
		{"a device less", scenarios.SmokeExpect{Devices: &two}, passed, "2 devices"},
		{"a wrong kernel", scenarios.SmokeExpect{Kernels: "pass"}, &observe.Smoke{Devices: []string{"GPU-1"}, Kernels: "element 3"}, "element 3"},
		{"a failure", scenarios.SmokeExpect{Kernels: "pass"}, failed, "/dev/nvidia-uvm"},
		{"the expected failure", scenarios.SmokeExpect{Step: "init", Cause: "node-missing", Code: 999}, failed, ""},
		{"another cause", scenarios.SmokeExpect{Step: "init", Cause: "node-forbidden"}, failed, "node-missing"},
		{"another code", scenarios.SmokeExpect{Step: "init", Code: 100}, failed, "(100)"},
		{"no failure", scenarios.SmokeExpect{Step: "init"}, passed, "all passed"},
		{"not asked", scenarios.SmokeExpect{Kernels: "pass"}, nil, "not asked for"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := verdict.Judge(scenarios.Expect{Smoke: &tc.want}, verdict.Evidence{Running: true, Seen: &observe.Observation{Smoke: tc.got}})
			var text string
			for _, f := range found {
				text += f.Want + " | " + f.Got + "\n"
			}
			if (tc.says == "") != (len(found) == 0) || !strings.Contains(text, tc.says) {
				t.Errorf("findings %q; want %q", text, tc.says)
			}
		})
	}
}
