package nvidia

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/tree"
)

func nodes(paths ...string) specs.ContainerEdits {
	var e specs.ContainerEdits
	mode := fs.FileMode(0o666)
	for _, p := range paths {
		e.DeviceNodes = append(e.DeviceNodes, &specs.DeviceNode{Path: p, Major: 195, FileMode: &mode})
	}
	return e
}

func spec(control specs.ContainerEdits, devices ...specs.Device) *specs.Spec {
	return &specs.Spec{Kind: "nvidia.com/gpu", ContainerEdits: control, Devices: devices}
}

func dev(name string, paths ...string) specs.Device {
	return specs.Device{Name: name, ContainerEdits: nodes(paths...)}
}

// nvcdi only warns where these nodes are missing.
func TestDevicesWithoutTheirNodesAreRefused(t *testing.T) {
	control := nodes("/dev/nvidiactl", "/dev/nvidia-uvm")
	for _, tc := range []struct {
		name string
		spec *specs.Spec
		want refuse.Reason // empty: a good Spec
		says string
	}{
		{"a full GPU and a MIG device", spec(control, dev("0", "/dev/nvidia0", "/dev/dri/card1"),
			dev("1:0", "/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"), dev("all", "/dev/nvidia0")), "", ""},
		{"bug mig-parent-only", spec(control, dev("mig0:0", "/dev/nvidia0")), ReasonMIGNodeMissing, "nvidia.com/gpu=mig0:0: /dev/nvidia-caps/nvidia-cap66, /dev/nvidia-caps/nvidia-cap67 are not there"},
		{"bug mig-parent-only, one of two nodes", spec(control, dev("MIG-00000000-0000-4000-8000-000000000001", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66")), ReasonMIGNodeMissing, "000001: /dev/nvidia-caps/nvidia-cap67 is not there"},
		{"bug modules-loaded-no-nodes", spec(control, dev("1", "/dev/dri/card1"), dev("all", "/dev/dri/card1")), ReasonNodeMissing, "nvidia.com/gpu=1: /dev/nvidia3 is not there"},
		{"neither GPU nor MIG device has its nodes", spec(control, dev("1"), dev("gpu1", "/dev/dri/card1"), dev("0:0", "/dev/nvidia0")), ReasonNodeMissing,
			"nvidia.com/gpu=all: /dev/nvidia-caps/nvidia-cap66, /dev/nvidia-caps/nvidia-cap67, /dev/nvidia3 are not there"},
		{"no control node", spec(nodes("/dev/nvidia-uvm"), dev("0", "/dev/nvidia0")), ReasonNodeMissing, "/dev/nvidiactl"},
		{"nothing but empty devices", spec(control, specs.Device{Name: "all"}), ReasonNoDevices, "nvidia.com/gpu"},
		{"a device that is there twice", spec(control, dev("0", "/dev/nvidia0"), dev("0", "/dev/nvidia0")), ReasonInvalidSpec, `"0"`},
		{"a name that CDI does not allow", spec(control, dev("GPU 0", "/dev/nvidia0")), ReasonInvalidSpec, "GPU 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := oneOfTwo(t).finish(tc.spec)
			if tc.want == "" {
				if err != nil || tc.spec.Version == "" {
					t.Fatalf("finish() = %v, version %q", err, tc.spec.Version)
				}
				return
			}
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("finish() = %v; want %s and %q", err, tc.want, tc.says)
			}
		})
	}
}

// oneOfTwo generates for a host with GPU 0, minor 0, in MIG mode, and a full GPU
// 1, whose minor is 3.
func oneOfTwo(t *testing.T) *generator {
	t.Helper()
	root := tree.New()
	if err := root.WriteFile(migMinors, []byte("config 1\nmonitor 2\ngpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	lib := nvmlfake.New(host.Model{
		Driver: &host.Driver{Version: "550.54.15"}, Userspace: &host.Userspace{Version: "550.54.15"},
		GPUs: []host.GPU{
			{Index: 0, Minor: 0, UUID: "GPU-00000000-0000-4000-8000-000000000000", Name: "NVIDIA A100-PCIE-40GB", MemoryMiB: 40960,
				PCI: &host.PCIFunction{ID: pci.ID{Vendor: pci.NVIDIA}, Driver: "nvidia"},
				MIG: &host.MIG{Instances: []host.GPUInstance{{ID: 7, Profile: "1g.5gb", ProfileID: 19, Start: 6, Size: 1, MemoryMiB: 4864,
					Compute: []host.ComputeInstance{{UUID: "MIG-00000000-0000-4000-8000-000000000001", Profile: "1g.5gb"}}}}}},
			{Index: 1, Minor: 3, UUID: "GPU-00000000-0000-4000-8000-000000000003", Name: "Tesla T4", MemoryMiB: 15360,
				PCI: &host.PCIFunction{BDF: pci.BDF{Bus: 9}, ID: pci.ID{Vendor: pci.NVIDIA}, Driver: "nvidia"}},
		},
	}, nvmlfake.Options{})
	return &generator{mode: nvcdi.ModeNvml, log: &collector{}, root: root, lib: lib, opts: Options{Merged: "all"}}
}

// One device without its nodes keeps neither its neighbours nor the whole host
// from being used; all of them together are not to be had.
func TestDevicesWithoutTheirNodesAreWithheld(t *testing.T) {
	g := oneOfTwo(t)
	const uuid = "GPU-00000000-0000-4000-8000-000000000003"
	s := spec(nodes("/dev/nvidiactl"), dev("0:0", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67"),
		dev("1", "/dev/dri/card1"), dev("gpu1", "/dev/dri/card1"), dev(uuid, "/dev/dri/card1"), dev("all", "/dev/nvidia0", "/dev/dri/card1"))
	if err := g.finish(s); err != nil {
		t.Fatal(err)
	}
	if len(s.Devices) != 1 || s.Devices[0].Name != "0:0" {
		t.Errorf("the Spec has %v, want 0:0 alone", s.Devices)
	}
	for _, name := range []string{"1", "gpu1", uuid, "all"} {
		e := g.withheld[name]
		if e == nil || e.Reason != ReasonNodeMissing || e.Error() != "nvidia.com/gpu="+name+": /dev/nvidia3 is not there" || e.Hint == "" {
			t.Errorf("%s is withheld as %v", name, e)
		}
	}
	if len(g.withheld) != 4 {
		t.Errorf("withheld: %v", g.withheld)
	}
}

func TestWarningsSayWhatIsMissing(t *testing.T) {
	var c collector
	c.Warningf("Could not locate %v: %v", "/dev/nvidia-uvm", "pattern /dev/nvidia-uvm not found\nlast error")
	c.Warningf("Missing %v", "libcuda.so")
	c.Warningf("Could not locate %v: %v", "nvidia-imex", "not found")
	c.Warningf("Could not locate %v: %v", "nvidia-imex", "not found")
	c.Errorf("Ignoring error: %v", "two\nlines")
	c.Infof("nothing to keep")
	got := c.warnings()
	want := []Warning{
		{Reason: ReasonNotFound, Path: "libcuda.so", Msg: "not on this host"},
		{Reason: ReasonNotFound, Path: "nvidia-imex", Msg: "not on this host"},
		{Reason: ReasonGeneratorSays, Msg: "Ignoring error: two; lines"},
		{Reason: ReasonUVMMissing, Path: "/dev/nvidia-uvm", Msg: got[len(got)-1].Msg},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if s := got[0].String(); s != "libcuda.so: not on this host" {
		t.Errorf("String() = %q", s)
	}
}

// Bugs csv-missing-entries and empty-tegra-spec; and the CSV files themselves
// are mounted, in nvcdi's order of mounts.
func TestTegraSpecs(t *testing.T) {
	root := tree.New()
	if err := root.WriteFile(csvDir+"/devices.csv", []byte("dev, /dev/nvmap\n\ndev, /dev/nvidia0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := &generator{mode: nvcdi.ModeCSV, log: &collector{}, root: root, lib: noLibrary{}, opts: Options{Merged: "all"}}
	g.csv = []string{csvDir + "/devices.csv"}
	if err := g.checkCSV(); err != nil {
		t.Fatal(err)
	}
	g.log.Warningf("Could not locate %v: %v", "/dev/nvidia0", "pattern not found")
	s := spec(specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: "/etc/a", ContainerPath: "/etc/a"}, {HostPath: "/a/b/c/d/e", ContainerPath: "/a/b/c/d/e"}}}, dev("0", "/dev/nvmap"))
	if err := g.finish(s); err != nil {
		t.Fatal(err)
	}
	var mounts []string
	for _, m := range s.ContainerEdits.Mounts {
		mounts = append(mounts, m.ContainerPath)
	}
	if diff := cmp.Diff([]string{"/etc/a", csvDir + "/devices.csv", "/a/b/c/d/e"}, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if got := g.log.warnings()[0].String(); got != "/dev/nvidia0: not on this host (devices.csv:3)" {
		t.Errorf("warning %q", got)
	}
	err := g.finish(spec(specs.ContainerEdits{}, specs.Device{Name: "0", ContainerEdits: specs.ContainerEdits{Env: []string{"A=b"}}}))
	if !errors.Is(err, ReasonNodeMissing) || !strings.Contains(err.Error(), "devices.csv") {
		t.Errorf("a Spec without nodes: %v", err)
	}
}

// Bug snap-driver-root: nodes are the host's own, wherever the driver's files are.
func TestNodesAreTheHostsOwnUnlessSaidOtherwise(t *testing.T) {
	for _, tc := range []struct{ in, want Options }{
		{Options{}, Options{DriverRoot: "/", DevRoot: "/"}},
		{Options{DriverRoot: "/var/lib/snapd/hostfs"}, Options{DriverRoot: "/var/lib/snapd/hostfs", DevRoot: "/"}},
		{Options{DriverRoot: "/run/nvidia/driver", DevRoot: "/run/nvidia/driver"}, Options{DriverRoot: "/run/nvidia/driver", DevRoot: "/run/nvidia/driver"}},
	} {
		got, err := tc.in.withDefaults()
		if err != nil || got.DriverRoot != tc.want.DriverRoot || got.DevRoot != tc.want.DevRoot {
			t.Errorf("%+v: driver root %s, dev root %s, %v; want %s and %s", tc.in, got.DriverRoot, got.DevRoot, err, tc.want.DriverRoot, tc.want.DevRoot)
		}
	}
}
