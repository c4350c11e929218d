package nvidia

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/refuse"
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
		{"bug mig-parent-only", spec(control, dev("mig0:1", "/dev/nvidia0")), ReasonMIGNodeMissing, "nvidia.com/gpu=mig0:1: /dev/nvidia-caps/nvidia-cap67 is not there"},
		{"bug mig-parent-only, one of two nodes", spec(control, dev("MIG-x", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap66")), ReasonMIGNodeMissing, "nvidia-cap67"},
		{"bug modules-loaded-no-nodes", spec(control, dev("0", "/dev/dri/card1")), ReasonNodeMissing, "nvidia.com/gpu=0"},
		{"no control node", spec(nodes("/dev/nvidia-uvm"), dev("0", "/dev/nvidia0")), ReasonNodeMissing, "/dev/nvidiactl"},
		{"nothing but empty devices", spec(control, specs.Device{Name: "all"}), ReasonNoDevices, "nvidia.com/gpu"},
		{"a device that is there twice", spec(control, dev("0", "/dev/nvidia0"), dev("0", "/dev/nvidia0")), ReasonInvalidSpec, `"0"`},
		{"a name that CDI does not allow", spec(control, dev("GPU 0", "/dev/nvidia0")), ReasonInvalidSpec, "GPU 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &generator{mode: nvcdi.ModeNvml, log: &collector{}, opts: Options{Merged: "all"}}
			g.log.Warningf("Could not locate %v: %v", "/dev/nvidia-caps/nvidia-cap67", "pattern not found")
			g.log.Warningf("Could not locate %v: %v", "/dev/nvidia-modeset", "pattern not found")
			err := g.finish(tc.spec)
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
	g := &generator{mode: nvcdi.ModeCSV, log: &collector{}, root: root, lib: nil, opts: Options{Merged: "all"}}
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
