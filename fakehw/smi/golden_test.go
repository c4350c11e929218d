package smi_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpurig/fakehw/nvmlfake"
	"gpurig/fixtures/golden"
)

// times are what two runs do not have in common.
var times = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?m)^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}( {7})$`), "Thu Jan  1 00:00:00 1970$1"},
	{regexp.MustCompile(`(?m)^(Timestamp +: ).*$`), "${1}Thu Jan  1 00:00:00 1970"},
}

func stable(out string) string {
	for _, t := range times {
		out = t.re.ReplaceAllString(out, t.with)
	}
	return out
}

// hosts of every kind: full GPUs, MIG in several forms, consumer boards, Hopper,
// Blackwell, and Tegra where it has nvidia-smi.
var hosts = []string{
	"dgx-a100", "a100-mig-2g-3g", "a100-mig-mixed", "a100-mig-empty", "a100-mig-uniform", "dgx-h100", "dgx-b200", "gb200",
	"workstation", "rhel-t4", "l40s-server", "jetson-agx-orin", "igx-orin", "jetson-thor",
}

var commands = []struct{ name, args string }{
	{"list", "-L"}, {"table", ""}, {"query", "-q -i 0"}, {"version", "--version"}, {"topo", "topo -m"}, {"nvlink", "nvlink -s"},
	{"csv", "--query-gpu=index,name,gpu_uuid,serial,gpu_bus_id,pci.domain,driver_version,memory.total,memory.free,memory.used,mig.mode.current,mig.mode.pending," +
		"vbios_version,compute_cap,power.draw,temperature.gpu,utilization.gpu,pstate,persistence_mode,ecc.mode.current,clocks.sm --format=csv"},
	{"mig-profiles", "mig -lgip"}, {"mig-places", "mig -lgipp"}, {"mig-gi", "mig -lgi"}, {"mig-ci", "mig -lci"}, {"mig-ci-profiles", "mig -lcip"},
}

func TestOutputOfHosts(t *testing.T) {
	for _, name := range hosts {
		r := newRig(t, profile(t, name), nvmlfake.Options{})
		for _, c := range commands {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				out, code := r.run(strings.Fields(c.args)...)
				if strings.HasPrefix(c.name, "mig-") && !strings.HasPrefix(name, "a100-mig") {
					if out != "No MIG-enabled devices found.\n" || code != 6 {
						t.Errorf("%s on %s = %d\n%s", c.args, name, code, out)
					}
					return
				}
				if code != 0 && !strings.Contains(out, "found: Not Found") {
					t.Errorf("exit code %d", code)
				}
				golden.Equal(t, filepath.Join("testdata", name, c.name+".txt"), []byte(stable(out)))
				sameWidths(t, out)
			})
		}
	}
}

// sameWidths checks that every line of a box is as wide as its first.
func sameWidths(t *testing.T, out string) {
	t.Helper()
	width := 0
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "|") {
			width = 0
			continue
		}
		if width == 0 {
			width = len(line)
		}
		if end := line[len(line)-1]; len(line) != width || end != '+' && end != '|' {
			t.Errorf("a row of %d columns in a box of %d: %q", len(line), width, line)
		}
	}
}
