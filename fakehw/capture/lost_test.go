package capture

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/nvmlfake"
)

// replayed is a host that is broken by these faults, and a recording of it.
func replayed(t *testing.T, name, faults string) (fault.Broken, Machine) {
	t.Helper()
	list, err := fault.ParseList(strings.Fields(faults))
	if err != nil {
		t.Fatal(err)
	}
	broken, err := fault.Break(profile(t, name), list)
	if err != nil {
		t.Fatal(err)
	}
	files, err := broken.Tree()
	if err != nil {
		t.Fatal(err)
	}
	lib := nvmlfake.New(broken.Model, broken.NVML(nvmlfake.Options{}))
	if r := lib.Init(); r != 0 {
		t.Fatal(r)
	}
	m, err := Replay(record(t, files, nvidia.NVML(lib)))
	if err != nil {
		t.Fatal(err)
	}
	return broken, m
}

// A machine whose GPUs were lost when it was recorded has all of them again, and
// those are lost.
func TestLostGPUsAreLostAgain(t *testing.T) {
	for _, tc := range []struct{ profile, faults, want string }{
		{"dgx-a100", "", ""},
		{"dgx-a100", "off-bus:3", "off-bus:0000:4e:00.0"},
		{"dgx-a100", "off-bus:6 off-bus:3", "off-bus:0000:4e:00.0 off-bus:0000:b7:00.0"},
		{"dgx-a100", "off-bus:3 no-driver:5", "off-bus:0000:4e:00.0"},
		{"dgx-a100", "nvml:*:3=UNKNOWN", "nvml:*:0000:4e:00.0=UNKNOWN"},
		{"dgx-a100", "nvml:DeviceGetUUID:3=RESET_REQUIRED", "nvml:DeviceGetUUID:0000:4e:00.0=RESET_REQUIRED"},
		{"dgx-a100", "off-bus:3 nvml:*:4=UNKNOWN", "off-bus:0000:4e:00.0 nvml:*:0000:87:00.0=UNKNOWN"},
		{"dgx-a100", "off-bus:4 nvml:*:3=IRQ_ISSUE", "off-bus:0000:87:00.0 nvml:*:0000:4e:00.0=IRQ_ISSUE"},
		{"igx-orin", "off-bus:1", "off-bus:0005:09:00.0"},
	} {
		t.Run(tc.profile+" "+tc.faults, func(t *testing.T) {
			broken, m := replayed(t, tc.profile, tc.faults)
			got, faults, err := m.Broken()
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(faults.Texts(), " "); text != tc.want {
				t.Errorf("faults %q, want %q", text, tc.want)
			}
			if tc.want == "" {
				return
			}
			plain := func(gpus []host.GPU, numbered bool) (out []host.GPU) {
				for _, g := range gpus {
					if !numbered && g.UUID != "" { // numbered in NVML's order, as if it had answered
						g.UUID = fmt.Sprintf("GPU-%08x-0000-4000-8000-000000000000", g.Index+1)
					}
					// What is not known of a lost one; its kind is not there twice on every host.
					g.VBIOS, g.PCI = "", nil
					if len(gpus) < 3 {
						g.UUID, g.MemoryMiB, g.ComputeCap = "", 0, ""
					}
					out = append(out, g)
				}
				return out
			}
			if d := cmp.Diff(plain(broken.Model.GPUs, false), plain(got.GPUs, true)); d != "" {
				t.Errorf("recorded (-) and replayed (+):\n%s", d)
			}
		})
	}
}

// A host with a silent GPU and a recording of it differ in nothing that is about the
// GPU, and from the healthy host in the fault alone.
func TestASilentGPUIsComparedAsOne(t *testing.T) {
	for _, tc := range []struct{ host, a, b, want string }{
		{"dgx-a100", "off-bus:0", "off-bus:0", ""},
		{"dgx-a100", "nvml:DeviceGetUUID:2=UNKNOWN", "nvml:DeviceGetUUID:2=UNKNOWN", ""},
		{"dgx-a100", "nvml:*:2=UNKNOWN", "off-bus:0", "nvml:*:0000:47:00.0=UNKNOWN: a has it, b has none; off-bus:0000:07:00.0: b has it, a has none"},
		{"a100-mig-mixed", "", "off-bus:0", "off-bus:0000:01:00.0: b has it, a has none"},
		{"igx-orin", "", "off-bus:1", "off-bus:0005:09:00.0: b has it, a has none"},
	} {
		_, a := replayed(t, tc.host, tc.a)
		_, b := replayed(t, tc.host, tc.b)
		diffs, err := Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, d := range diffs {
			said = append(said, d.Sentence("a", "b"))
		}
		if got := strings.Join(said, "; "); got != tc.want {
			t.Errorf("%s, %s and %s: %s; want %s", tc.host, tc.a, tc.b, got, tc.want)
		}
	}
}
