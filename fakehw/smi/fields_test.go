package smi_test

import (
	"strings"
	"testing"

	"gpurig/fakehw/nvmlfake"
)

// The fields that --query-gpu takes are those of the driver's branch. How many names it
// has was counted in --help-query-gpu of NVIDIA's programs.
func TestFieldsOfTheBranch(t *testing.T) {
	for host, tc := range map[string]struct {
		names   int
		has, no string
	}{
		"dgx-a100":    {171, "clocks_throttle_reasons.active", "c2c.mode"},
		"dgx-h100":    {174, "c2c.mode", "gpu_recovery_action"},
		"l40s-server": {255, "module.power.limit", "kmd_version"},
	} {
		r := newRig(t, profile(t, host), nvmlfake.Options{})
		help, code := r.run("--help-query-gpu")
		names := 0
		for line := range strings.Lines(help) {
			if strings.HasPrefix(line, "\"") {
				names += strings.Count(line, "\"") / 2
			}
		}
		if code != 0 || names != tc.names {
			t.Errorf("%s: %d names, code %d; want %d", host, names, code, tc.names)
		}
		if out, code := r.run("--query-gpu="+tc.has, "--format=csv,noheader"); code != 0 || out == "" {
			t.Errorf("%s: %s: %d, %s", host, tc.has, code, out)
		}
		if out, code := r.run("--query-gpu="+tc.no, "--format=csv,noheader"); code != 2 || !strings.Contains(out, "not a valid field") {
			t.Errorf("%s: %s: %d, %s", host, tc.no, code, out)
		}
	}
}
