package specgen

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/refuse"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
)

func file(s string) *string { return &s }

const csvDir = "/etc/nvidia-container-runtime/host-files-for-container.d/"

// F21: hosts that are not ready, from the bug corpus: a Spec that is half a Spec must
// say so or not be made.
func TestSpecsMadeTooEarly(t *testing.T) {
	g := shared(t)
	for _, tc := range []struct {
		name, host string
		changes    []FileChange
		nvml       nvmlfake.Options
		opts       nvidia.Options
		refused    refuse.Reason
		says       string // in the refusal, or in a warning
	}{
		{name: "bug uvm-missing-at-boot", host: "t4-server", says: "uvm-missing /dev/nvidia-uvm",
			changes: []FileChange{{Path: "/dev/nvidia-uvm", Remove: true}, {Path: "/dev/nvidia-uvm-tools", Remove: true}}},
		{name: "bug modules-loaded-no-nodes", host: "t4-server", refused: nvidia.ReasonNodeMissing, says: "/dev/nvidia0, /dev/nvidia1 are not there",
			changes: []FileChange{{Path: "/dev/nvidia0", Remove: true}, {Path: "/dev/nvidia1", Remove: true}}},
		{name: "bug modules-loaded-no-nodes, the control node", host: "t4-server", refused: nvidia.ReasonNodeMissing, says: "/dev/nvidiactl",
			changes: []FileChange{{Path: "/dev/nvidiactl", Remove: true}}},
		{name: "bug mig-enabled-empty", host: "a100-mig-empty", refused: nvidia.ReasonMIGEmpty, says: "GPU 0"},
		{name: "bug csv-missing-entries", host: "jetson-agx-orin", says: "/dev/nvidiactl: not on this host (devices.csv:2)",
			changes: []FileChange{{Path: csvDir + "devices.csv", File: file("dev, /dev/nvmap\ndev, /dev/nvidiactl\n")}, {Path: "/dev/nvidiactl", Remove: true}}},
		{name: "bug empty-tegra-spec", host: "jetson-agx-orin", refused: nvidia.ReasonNoCSV, says: "devices.csv",
			changes: []FileChange{{Path: strings.TrimSuffix(csvDir, "/"), Remove: true}}},
		{name: "bug empty-tegra-spec, no node of the list", host: "jetson-agx-orin", refused: nvidia.ReasonNodeMissing, says: "none of the device nodes in devices.csv",
			changes: []FileChange{{Path: csvDir + "devices.csv", File: file("dev, /dev/nothing\n")}}},
		{name: "a driver without a userspace file", host: "t4-server", refused: nvidia.ReasonNoLibrary, says: "no libraries of the driver below the driver root /nowhere",
			opts: nvidia.Options{DriverRoot: "/nowhere", DevRoot: "/"}},
		{name: "B45: every GPU is lost", host: "t4-server", refused: nvidia.ReasonNVML, says: "GPU 0: NVML DeviceGetHandleByIndex: the GPU has fallen off the bus: ERROR_GPU_IS_LOST",
			nvml: nvmlfake.Options{Fail: map[string]nvml.Return{"*:0": nvml.ERROR_GPU_IS_LOST, "*:1": nvml.ERROR_GPU_IS_LOST}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := g.Generate(t.Context(), Request{Model: profile(t, tc.host), Changes: tc.changes, NVML: tc.nvml, Options: tc.opts})
			if tc.refused != "" {
				if !errors.Is(err, tc.refused) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("Generate() = %v; want %s and %q", err, tc.refused, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !warned(res, tc.says) {
				t.Errorf("no warning %q in %v", tc.says, res.Warnings)
			}
		})
	}
}

// A host on which all is well gives the generator nothing to complain of beside
// files that are optional.
func TestAHealthyServerIsNoReasonToWarn(t *testing.T) {
	for _, name := range []string{"t4-server", "dgx-h100", "snap-t4"} {
		for _, w := range generate(t, shared(t), Request{Model: profile(t, name)}).Warnings {
			if w.Reason != nvidia.ReasonNotFound {
				t.Errorf("%s: %s: %s", name, w.Reason, w)
			}
		}
	}
}

// What lacks a node is withheld with its own refusal, through the child, the
// cache and the reply; what is beside it is in the Spec.
func TestDevicesWithoutTheirNodesAreWithheld(t *testing.T) {
	for _, tc := range []struct {
		name, host, node string
		withheld         []string // without UUIDs
		says             string
		left             string
	}{
		{"bug modules-loaded-no-nodes", "t4-server", "/dev/nvidia1", []string{"1", "all", "gpu1"}, "nvidia.com/gpu=1: /dev/nvidia1 is not there", "0"},
		{"bug mig-parent-only", "a100-mig-2g-3g", "/dev/nvidia-caps/nvidia-cap22", []string{"0:1", "all", "mig0:1"}, "nvidia.com/gpu=0:1: /dev/nvidia-caps/nvidia-cap22 is not there", "0:0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Request{Model: profile(t, tc.host), Changes: []FileChange{{Path: tc.node, Remove: true}}}
			dir := t.TempDir()
			for _, opts := range []Options{{CacheDir: dir}, {CacheDir: dir, NoChild: true}} { // made, then kept
				res := generate(t, generator(t, opts), r)
				var withheld []string
				for name, e := range res.Withheld {
					if len(name) < 36 {
						withheld = append(withheld, name)
					}
					if e.Hint == "" || !strings.HasSuffix(e.Error(), tc.node+" is not there") {
						t.Errorf("%s: %v, hint %q", name, e, e.Hint)
					}
				}
				slices.Sort(withheld)
				if !slices.Equal(withheld, tc.withheld) || len(res.Withheld) != 4 {
					t.Errorf("withheld %v, %d in all; want %v and a UUID", withheld, len(res.Withheld), tc.withheld)
				}
				if e := res.Withheld[tc.withheld[0]]; e == nil || e.Error() != tc.says {
					t.Errorf("%s: %v; want %q", tc.withheld[0], e, tc.says)
				}
				for _, d := range res.Spec.Devices {
					if res.Withheld[d.Name] != nil {
						t.Errorf("%s is withheld and offered", d.Name)
					}
				}
				if !slices.Contains(strings.Fields(names(res)), tc.left) {
					t.Errorf("the Spec has %s, not %s", names(res), tc.left)
				}
			}
		})
	}
}

// A MIG device has its GPU's node and its own two capability nodes, and nothing
// of its neighbour; cap1 and cap2 are for management alone (bug
// mig-caps-permissions).
func TestMIGNodes(t *testing.T) {
	g := shared(t)
	r := Request{Model: profile(t, "a100-mig-2g-3g")}
	res := generate(t, g, r)
	for i, gi := range r.Model.NVIDIAGPUs()[0].MIG.Instances {
		got := strings.Fields(paths(res, gi.Compute[0].UUID))
		if len(got) != 3 || got[0] != "/dev/nvidia0" || !strings.Contains(got[1], "nvidia-cap") || !strings.Contains(got[2], "nvidia-cap") {
			t.Errorf("MIG device %d has %v", i, got)
		}
	}
	for _, d := range res.Spec.Devices {
		if got := " " + paths(res, d.Name) + " "; strings.Contains(got, "nvidia-cap1 ") || strings.Contains(got, "nvidia-cap2 ") {
			t.Errorf("%s has %s", d.Name, got)
		}
	}
	r.Options.Mode = "management"
	res = generate(t, g, r)
	if got := paths(res, "all"); res.Spec.Kind != "management.nvidia.com/gpu" || !strings.Contains(got, "nvidia-cap1 ") || !strings.Contains(got, "nvidia-cap2") {
		t.Errorf("management Spec of %s has %s", res.Spec.Kind, got)
	}
}

func TestModes(t *testing.T) {
	g := shared(t)
	for _, tc := range []struct {
		host, mode, kind, devices, node string
		refused                         refuse.Reason
	}{
		{host: "dgx-a100", mode: "nvswitch", kind: "nvidia.com/nvswitch", devices: "all", node: "/dev/nvidia-nvswitchctl"},
		{host: "dgx-a100", mode: "management", kind: "management.nvidia.com/gpu", devices: "all", node: "/dev/nvidia7"},
		{host: "gb200", mode: "imex", kind: "nvidia.com/imex-channel", devices: "0 1 2 3 all", node: "/dev/nvidia-caps-imex-channels/channel3"},
		{host: "a100-mig-2g-3g", mode: "mig-caps", kind: "nvidia.com/mig-caps", devices: "config monitor"},
		{host: "jetson-agx-orin", mode: "auto", kind: "nvidia.com/gpu", devices: "0 all gpu0", node: "/dev/nvmap"},
		{host: "t4-server", mode: "gds", refused: nvidia.ReasonNoDevices},
		{host: "t4-server", mode: "gdrcopy", refused: nvidia.ReasonNoDevices},
		{host: "t4-server", mode: "mofed", refused: nvidia.ReasonNoDevices},
		{host: "t4-server", mode: "imex", refused: nvidia.ReasonNoDevices},
		{host: "t4-server", mode: "nvswitch", refused: nvidia.ReasonNoDevices},
		{host: "t4-server", mode: "csv", refused: nvidia.ReasonNoCSV},
	} {
		t.Run(tc.host+" "+tc.mode, func(t *testing.T) {
			res, err := g.Generate(t.Context(), Request{Model: profile(t, tc.host), Options: nvidia.Options{Mode: tc.mode}})
			if tc.refused != "" {
				if !errors.Is(err, tc.refused) {
					t.Errorf("Generate() = %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if res.Spec.Kind != tc.kind || names(res) != tc.devices {
				t.Errorf("kind %s, devices %s", res.Spec.Kind, names(res))
			}
			if tc.node != "" && !strings.Contains(paths(res, "all"), tc.node) {
				t.Errorf("all has %s, not %s", paths(res, "all"), tc.node)
			}
		})
	}
}

// Layouts where the driver is not at the usual place (bug snap-driver-root).
func TestDriverRoots(t *testing.T) {
	g := shared(t)
	for name, want := range map[string][2]string{ // prefixes of a library's path on the host and in the container
		"snap-t4":    {"/var/lib/snapd/hostfs/usr/lib/", "/usr/lib/"},
		"nixos-4090": {"/nix/store/", "/nix/store/"},
		"rhel-t4":    {"/usr/lib64/", "/usr/lib64/"},
	} {
		res := generate(t, g, Request{Model: profile(t, name)})
		for _, d := range res.Spec.Devices {
			for _, n := range d.ContainerEdits.DeviceNodes {
				if n.HostPath != "" {
					t.Errorf("%s: %s is %s on the host; nodes are the host's own", name, n.Path, n.HostPath)
				}
			}
		}
		found := false
		for _, m := range res.Spec.ContainerEdits.Mounts {
			if strings.Contains(m.HostPath, "libcuda.so.") {
				found = true
				if !strings.HasPrefix(m.HostPath, want[0]) || !strings.HasPrefix(m.ContainerPath, want[1]) {
					t.Errorf("%s: libcuda is %s on the host, %s in the container", name, m.HostPath, m.ContainerPath)
				}
			}
		}
		if !found {
			t.Errorf("%s: no libcuda", name)
		}
	}
}

// The package of the vGPU manager has no CUDA: nvcdi makes a Spec all the same, and
// one line says what it is good for, in place of what to do about missing nodes.
func TestHostsOfVGPUsHaveNoCUDA(t *testing.T) {
	g := shared(t)
	for _, name := range []string{"vgpu-a100", "vgpu-a40", "vgpu-l40s"} {
		res := generate(t, g, Request{Model: profile(t, name)})
		var libraries []string
		for _, m := range res.Spec.ContainerEdits.Mounts {
			if base, _, ok := strings.Cut(path.Base(m.HostPath), ".so."); ok {
				libraries = append(libraries, base)
			}
		}
		slices.Sort(libraries)
		if got := strings.Join(libraries, " "); got != "libnvidia-ml libnvidia-vgpu libnvidia-vgxcfg" {
			t.Errorf("%s: libraries %s", name, got)
		}
		if !warned(res, "no-cuda libcuda.so.1") || warned(res, "uvm-missing") {
			t.Errorf("%s: warnings %v", name, res.Warnings)
		}
	}
}

// Bug uvm-missing-at-boot, the second half: once the nodes are there, the Spec
// has them. And the numbers are those of the host after a reboot (bug
// dynamic-major-after-reboot).
func TestAnotherHostAnotherSpec(t *testing.T) {
	g := generator(t, Options{Children: 1})
	m := profile(t, "t4-server")
	for _, major := range []uint32{511, 234} {
		changed, err := fakehw.WithMajors(m, map[string]uint32{"nvidia-uvm": major})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range generate(t, g, Request{Model: changed}).Spec.ContainerEdits.DeviceNodes {
			if n.Path == "/dev/nvidia-uvm" && n.Major != int64(major) {
				t.Errorf("/dev/nvidia-uvm has major %d, the host %d", n.Major, major)
			}
		}
	}
}

// B45: a GPU that is lost is withheld by each of its names, with those of all that say
// "all"; the others' devices are what they are on the healthy host. That it is the
// only one is refused: TestSpecsMadeTooEarly.
func TestALostGPUIsWithheldAlone(t *testing.T) {
	m := profile(t, "dgx-a100")
	healthy := generate(t, shared(t), Request{Model: m})
	uuids := map[int]string{}
	for _, g := range m.GPUs {
		uuids[g.Index] = g.UUID
	}
	for _, tc := range []struct {
		name string
		fail map[string]nvml.Return
		lost []int
		says map[string]string // name: words of its refusal
	}{
		{"no handle", map[string]nvml.Return{"*:3": nvml.ERROR_GPU_IS_LOST}, []int{3}, map[string]string{
			"3":      "nvidia.com/gpu=3: GPU 3: NVML DeviceGetHandleByIndex: the GPU has fallen off the bus: ERROR_GPU_IS_LOST",
			"all":    "nvidia.com/gpu=all: GPU 3: NVML DeviceGetHandleByIndex",
			uuids[3]: "nvidia.com/gpu=" + uuids[3] + ": GPU 3: NVML",
		}},
		{"two, of which NVML says no UUID", map[string]nvml.Return{"*:0": nvml.ERROR_GPU_IS_LOST, "*:7": nvml.ERROR_UNKNOWN}, []int{0, 7}, map[string]string{
			"0": "GPU 0: NVML DeviceGetHandleByIndex", "gpu7": "GPU 7: NVML DeviceGetHandleByIndex: the management library failed: ERROR_UNKNOWN",
			"all": "GPU 0", uuids[7]: "does not answer",
		}},
		{"no name", map[string]nvml.Return{"DeviceGetName:1": nvml.ERROR_UNKNOWN}, []int{1}, map[string]string{"1": "DeviceGetName"}},
		{"no handle by its UUID", map[string]nvml.Return{"DeviceGetHandleByUUID:1": nvml.ERROR_UNKNOWN}, []int{1}, map[string]string{"1": "DeviceGetHandleByUUID"}},
		{"no minor", map[string]nvml.Return{"DeviceGetMinorNumber:1": nvml.ERROR_UNKNOWN}, []int{1}, map[string]string{"1": "DeviceGetMinorNumber"}},
		{"no address", map[string]nvml.Return{"DeviceGetPciInfo:1": nvml.ERROR_UNKNOWN}, []int{1}, map[string]string{"1": "DeviceGetPciInfo"}},
		{"no MIG mode", map[string]nvml.Return{"DeviceGetMigMode:1": nvml.ERROR_UNKNOWN}, []int{1}, map[string]string{"1": "DeviceGetMigMode"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := generate(t, shared(t), Request{Model: m, NVML: nvmlfake.Options{Fail: tc.fail}})
			gone := map[string]bool{"all": true}
			for _, i := range tc.lost {
				gone[strconv.Itoa(i)], gone["gpu"+strconv.Itoa(i)], gone[uuids[i]] = true, true, true
			}
			var want, withheld []string
			for _, d := range healthy.Spec.Devices {
				if !gone[d.Name] {
					want = append(want, d.Name)
				}
			}
			if got := strings.Fields(names(res)); !slices.Equal(got, want) {
				t.Errorf("the Spec has %v, want %v", got, want)
			}
			for name, e := range res.Withheld {
				withheld = append(withheld, name)
				if e.Reason != nvidia.ReasonNVML || e.Hint == "" {
					t.Errorf("%s: %v, reason %s, hint %q", name, e, e.Reason, e.Hint)
				}
			}
			if slices.Sort(withheld); !slices.Equal(withheld, slices.Sorted(maps.Keys(gone))) {
				t.Errorf("withheld %v, want %v", withheld, slices.Sorted(maps.Keys(gone)))
			}
			for name, says := range tc.says {
				if e := res.Withheld[name]; e == nil || !strings.Contains(e.Error(), says) {
					t.Errorf("%s: %v; want %q", name, e, says)
				}
			}
			for _, d := range res.Spec.Devices {
				at := slices.IndexFunc(healthy.Spec.Devices, func(h specs.Device) bool { return h.Name == d.Name })
				if diff := cmp.Diff(healthy.Spec.Devices[at], d); diff != "" {
					t.Errorf("%s (-healthy +beside a lost one):\n%s", d.Name, diff)
				}
			}
			if diff := cmp.Diff(healthy.Spec.ContainerEdits, res.Spec.ContainerEdits); diff != "" {
				t.Errorf("edits of all (-healthy +beside a lost one):\n%s", diff)
			}
		})
	}
}

// A host with a lost GPU and another without its node says both.
func TestALostGPUAndAMissingNode(t *testing.T) {
	res := generate(t, shared(t), Request{Model: profile(t, "dgx-a100"), Changes: []FileChange{{Path: "/dev/nvidia2", Remove: true}},
		NVML: nvmlfake.Options{Fail: map[string]nvml.Return{"*:3": nvml.ERROR_GPU_IS_LOST}}})
	for name, says := range map[string]string{"2": "/dev/nvidia2 is not there", "3": "fallen off the bus", "all": "fallen off the bus"} {
		if e := res.Withheld[name]; e == nil || !strings.Contains(e.Error(), says) {
			t.Errorf("%s: %v; want %q", name, e, says)
		}
	}
	if got := len(res.Withheld); got != 7 {
		t.Errorf("%d names are withheld: %v", got, res.Withheld)
	}
}
