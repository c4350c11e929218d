package cudalib_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
)

func TestEveryProfileShowsItsDevices(t *testing.T) {
	for _, tc := range []struct{ profile, want string }{
		{"dgx-a100", "CUDA 12020, 8 devices"},
		{"hgx-h200", "8 devices\n0: NVIDIA H200"},
		{"jetson-agx-orin", "CUDA 12060, 1 devices\n0: Orin 20d87f82-200a-32e3-ab10-6b4c4eab9eca 0000:00:00.0 cc 8.7, 16 SMs, integrated\n"},
		{"jetson-thor", "CUDA 13000, 1 devices\n0: NVIDIA Thor e7c9c854-62ff-aca7-da6c-7928f75bc944 0000:01:00.0 cc 11.0, 20 SMs, integrated\n"},
		{"igx-orin", "2 devices\n0: NVIDIA RTX A6000"},
		{"no-gpu", "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"},
		{"no-driver", "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"},
		{"amd-mi300x", "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"},
		{"a100-mig-empty", "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"}, // MIG mode without an instance
		{"rhel-t4", "1 devices\n0: Tesla T4"},
	} {
		t.Run(tc.profile, func(t *testing.T) {
			x := onHost(t, tc.profile)
			if got := x.run(t, nil, "devices"); !strings.Contains(got, tc.want) {
				t.Errorf("devices:\n%swant:\n%s\n%s", got, tc.want, x.log(t))
			}
		})
	}
}

// One process gets one MIG device and no full GPU beside it, unless it asks for the
// full GPU alone.
func TestVisibleDevices(t *testing.T) {
	const (
		mig   = "MIG-04116b7a-34b0-542d-b807-d1070f777d56"
		small = "MIG-08793888-85ca-5a45-a538-802c3ac009ed"
		full  = "GPU-68af03e9-1176-b94e-7299-a148a7cd2d3f"
	)
	for _, tc := range []struct {
		profile, name, list string
		want                []string // UUIDs without their prefix; none: no device
	}{
		{"a100-mig-mixed", "nothing asked", "", []string{mig[4:]}},
		{"a100-mig-mixed", "a MIG device", small, []string{small[4:]}},
		{"a100-mig-mixed", "two MIG devices", small + "," + mig, []string{small[4:]}},
		{"a100-mig-mixed", "the index of a full GPU", "1", []string{full[4:]}},
		{"a100-mig-mixed", "the index of a GPU in MIG mode", "0", []string{mig[4:]}},
		{"a100-mig-mixed", "a full GPU by UUID", full, []string{full[4:]}},
		{"a100-mig-mixed", "a full GPU and a MIG device", full + "," + mig, []string{mig[4:]}},
		{"a100-mig-mixed", "a UUID that does not exist", "MIG-00000000", nil},
		{"workstation-intel", "an empty list", "-", nil},
		{"t4-server", "all", "", []string{"0", "1"}},
		{"t4-server", "the second", "1", []string{"1"}},
		{"t4-server", "turned over", "1,0", []string{"1", "0"}},
		{"t4-server", "up to the first that is wrong", "1,-1,0", []string{"1"}},
		{"t4-server", "an index that does not exist", "7,0", nil},
		{"t4-server", "no number", "x", nil},
		{"t4-server", "twice the same", "0,0", nil},
		{"t4-server", "a prefix that two have", "GPU-", nil},
		{"t4-server", "blanks", " 1 , 0", []string{"1", "0"}},
	} {
		t.Run(tc.profile+" "+tc.name, func(t *testing.T) {
			x := onHost(t, tc.profile)
			var env []string
			if tc.list != "" {
				env = []string{"CUDA_VISIBLE_DEVICES=" + strings.TrimPrefix(tc.list, "-")}
			}
			got := x.run(t, env, "devices")
			want := "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"
			if len(tc.want) > 0 {
				want = fmt.Sprintf("%d devices", len(tc.want))
			}
			if !strings.Contains(got, want) {
				t.Fatalf("devices:\n%swant %q", got, want)
			}
			m := model(t, tc.profile)
			gpus := m.NVIDIAGPUs()
			for i, w := range tc.want {
				if len(w) == 1 {
					w = strings.TrimPrefix(gpus[w[0]-'0'].UUID, "GPU-")
				}
				line := strings.Split(got, "\n")[i+1]
				if !strings.Contains(strings.Split(line, " of ")[0], w) {
					t.Errorf("device %d is %q; want %s", i, line, w)
				}
			}
		})
	}
}

// A MIG device has the UUID of its own, its GPU's by the older call, and its share.
func TestAMIGDeviceIsWhatItsInstanceIs(t *testing.T) {
	x := onHost(t, "a100-mig-mixed")
	got := x.run(t, []string{"CUDA_VISIBLE_DEVICES=MIG-99c0aef9-f291-5df1-bc56-f8a1346f85dd"}, "devices")
	want := "0: NVIDIA A100-SXM4-80GB MIG 2c.3g.40gb 99c0aef9-f291-5df1-bc56-f8a1346f85dd of c3213f5e-64f7-04ce-fad0-f3d6a896650e 0000:81:00.0 cc 8.0, 28 SMs, 40192 MiB\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("devices:\n%swant:\n%s", got, want)
	}
}

// Bugs uvm-after-boot and cgroup-lost-device: what is missing decides the code.
func TestMissingNodes(t *testing.T) {
	for _, tc := range []struct {
		name, profile string
		without       []string
		want          string
	}{
		{"control node", "dgx-a100", []string{"/dev/nvidiactl"}, "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"},
		{"uvm", "dgx-a100", []string{"/dev/nvidia-uvm"}, "cuInit: 999 CUDA_ERROR_UNKNOWN\n"},
		{"uvm's tools, which nobody opens", "dgx-a100", []string{"/dev/nvidia-uvm-tools"}, "8 devices"},
		{"two GPUs", "dgx-a100", []string{"/dev/nvidia0", "/dev/nvidia3"}, "6 devices"},
		{"the only GPU", "rhel-t4", []string{"/dev/nvidia0"}, "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"},
		{"an Orin's memory node", "jetson-agx-orin", []string{"/dev/nvmap"}, "cuInit: 801 CUDA_ERROR_NOT_SUPPORTED\n"},
		{"an Orin's display nodes", "jetson-agx-orin", []string{"/dev/nvidiactl"}, "1 devices"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := onHost(t, tc.profile)
			x.remove(t, tc.without...)
			if got := x.run(t, nil, "devices"); !strings.Contains(got, tc.want) {
				t.Errorf("devices:\n%swant %q\n%s", got, tc.want, x.log(t))
			}
		})
	}
}

// Bug jetson-no-render-nodes.
func TestAnOrinNeedsRenderNodes(t *testing.T) {
	m := model(t, "jetson-agx-orin")
	var nodes []string
	for _, n := range m.Nodes {
		if !strings.HasPrefix(n.Path, "/dev/dri/render") {
			nodes = append(nodes, n.Path)
		}
	}
	x := withNodes(t, nvmllib.State(m), nodes...)
	if got := x.run(t, nil, "devices"); got != "cuInit: 801 CUDA_ERROR_NOT_SUPPORTED\n" {
		t.Errorf("devices: %s", got)
	}
}

// Bug mig-caps-missing-in-mount-namespace: a MIG device needs both of its nodes.
func TestMIGDevicesNeedTheirCapabilityNodes(t *testing.T) {
	// GPU 0 has minor 2; instances 2 and 3 come first.
	access := func(gi, ci int) (string, string) {
		base := 3 + 135*2 + 9*gi
		return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", base), fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", base+1+ci)
	}
	gi2, ci2 := access(2, 0)
	gi3, _ := access(3, 0)
	for _, tc := range []struct {
		name    string
		without []string
		want    string
	}{
		{"all", nil, "MIG 3g.40gb"},
		{"the first GPU instance", []string{gi2}, "MIG 2g.20gb"},
		{"the first compute instance", []string{ci2}, "MIG 2g.20gb"},
		{"two", []string{ci2, gi3}, "MIG 1g.10gb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := onHost(t, "a100-mig-mixed")
			x.remove(t, tc.without...)
			if got := x.run(t, nil, "devices"); !strings.Contains(got, tc.want) {
				t.Errorf("devices:\n%swant %q\n%s", got, tc.want, x.log(t))
			}
		})
	}
}

// A GPU that fell off the bus is none of a new program's devices; one that has it
// hears so of every call about it, also when it is back, and others go on.
func TestAGPUFallsOffTheBus(t *testing.T) {
	m := model(t, "t4-server")
	state := func(lost ...int) []byte { return nvmllib.StateWith(m, nvmlfake.Options{OffBus: lost}) }
	x := onHost(t, "t4-server")
	for _, tc := range []struct {
		lost []int
		want string
	}{{[]int{0}, "CUDA 12020, 1 devices\n"}, {[]int{0, 1}, "cuInit: 100 CUDA_ERROR_NO_DEVICE\n"}} {
		x.write(t, "nvml.state", state(tc.lost...))
		if got := x.run(t, nil, "devices"); !strings.HasPrefix(got, tc.want) || strings.Contains(got, "0000:3b:00.0") {
			t.Errorf("without %v: devices:\n%swant %q", tc.lost, got, tc.want)
		}
	}
	x.write(t, "nvml.state", state())
	cmd := x.command(t, []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID"}, "lost")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for _, step := range []struct {
		lost []int
		want string
	}{
		{nil, "0: 0 0 0, new 0 0; 1: 0 0 0, new 0 0\n"},
		{[]int{0}, "0: 999 999 999, new 999 999; 1: 0 0 0, new 0 0\n"},
		{nil, "0: 999 999 999, new 0 0; 1: 0 0 0, new 0 0\n"}, // what it had is lost
	} {
		x.write(t, "nvml.state", state(step.lost...))
		fmt.Fprintln(in)
		if got, err := lines.ReadString('\n'); got != step.want {
			t.Errorf("without %v: %q, %v; want %q", step.lost, got, err, step.want)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// What the state file says of the driver, and faults that it asks for.
func TestTheStateFileDecides(t *testing.T) {
	good := string(nvmllib.State(model(t, "rhel-t4")))
	for _, tc := range []struct{ name, state, want string }{
		{"driver not loaded", "gpurig-nvml 1\ninit 9\nend\n", "cuInit: 100 "},
		{"library and module differ", "gpurig-nvml 1\ninit 18\nend\n", "cuInit: 803 "},
		{"unknown", "gpurig-nvml 1\ninit 999\nend\n", "cuInit: 999 "},
		{"cut short", strings.TrimSuffix(good, "end\n"), "cuInit: 100 "},
		{"a fault of cuInit", strings.Replace(good, "init 0\n", "init 0\nfail cuInit 802\n", 1), "cuInit: 802 "},
		{"a fault of another call", strings.Replace(good, "init 0\n", "init 0\nfail cuDeviceGetCount 46\n", 1), "cuDeviceGetCount(&n): 46 CUDA_ERROR_DEVICE_UNAVAILABLE\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := onHost(t, "rhel-t4")
			x.write(t, "nvml.state", []byte(tc.state))
			if got := x.run(t, nil, "devices"); !strings.HasPrefix(got, tc.want) {
				t.Errorf("devices: %swant %q", got, tc.want)
			}
		})
	}
}
