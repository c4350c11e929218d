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

// dmon and pmon print what NVIDIA's programs of these branches print on the same library.
func TestMonitors(t *testing.T) {
	for host, want := range map[string][2]string{
		"dgx-a100": {"# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n" +
			"    0     47     30     34      0      0      0      0      0      0   1215    210 \n",
			"# gpu         pid  type    sm    mem    enc    dec    command\n# Idx           #   C/G     %      %      %      %    name\n    0          -     -      -      -      -      -    -              \n"},
		"t4-server": {"# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n" +
			"    0      9     30      -      0      0      0      0      0      0    405    300 \n", ""},
		"dgx-h100": {"", "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n# Idx           #    C/G      %      %      %      %      %      %    name \n" +
			"    0          -     -      -      -      -      -      -      -    -              \n"},
	} {
		r := newRig(t, profile(t, host), nvmlfake.Options{})
		for i, program := range []string{"dmon", "pmon"} {
			if out, code := r.run(program, "-c", "1", "-i", "0"); want[i] != "" && (code != 0 || out != want[i]) {
				t.Errorf("%s: %s: %d\n%s\nwant\n%s", host, program, code, out, want[i])
			}
			for _, args := range [][]string{{"-c", "0"}, {"-c", "x"}, {"-d", "11"}, {"-s", "p"}, {"-c"}} {
				if out, code := r.run(append([]string{program}, args...)...); code == 0 {
					t.Errorf("%s %v: %s", program, args, out)
				}
			}
		}
	}
}
