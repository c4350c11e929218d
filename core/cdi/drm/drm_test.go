package drm_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/drm"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/tree"
)

func gpu(bus uint8, driver string, card, render int) host.GPU {
	return host.GPU{PCI: &host.PCIFunction{BDF: pci.BDF{Bus: bus}, ID: pci.ID{Vendor: pci.AMD, Device: 0x744c}, Driver: driver},
		Card: card, Render: render, Minor: -1, Index: -1}
}

func nodes(t *testing.T, ns ...device.Node) *tree.Tree {
	t.Helper()
	root := tree.New()
	for _, n := range ns {
		n.Type = device.Char
		if err := root.Mknod(n); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

var (
	kfd   = device.Node{Path: "/dev/kfd", Num: device.Num{Major: 509}, Mode: 0o660, GID: 109}
	card1 = device.Node{Path: "/dev/dri/card1", Num: device.Num{Major: 226, Minor: 1}, Mode: 0o660, GID: 44}
	rend0 = device.Node{Path: "/dev/dri/renderD128", Num: device.Num{Major: 226, Minor: 128}, Mode: 0o666, GID: 109}
	card2 = device.Node{Path: "/dev/dri/card2", Num: device.Num{Major: 226, Minor: 2}, Mode: 0o660, GID: 44}
	rend1 = device.Node{Path: "/dev/dri/renderD129", Num: device.Num{Major: 226, Minor: 129}, Mode: 0o660, GID: 109}
)

// Bugs kfd-missing and kfd-gid: each device has /dev/kfd once, and groups are
// the numbers of the host's nodes, mode by mode.
func TestTwoGPUsShareKFDAndKeepTheHostsGroups(t *testing.T) {
	m := host.Model{GPUs: []host.GPU{gpu(3, "amdgpu", 1, 128), gpu(4, "vfio-pci", -1, -1), gpu(5, "amdgpu", 2, 129)}}
	made, err := drm.Generate(nodes(t, kfd, card1, rend0, card2, rend1), m, drm.Vendors()[0])
	if err != nil || made.Withheld != nil {
		t.Fatal(made, err)
	}
	spec := made.Spec
	type dev struct {
		Name  string
		Nodes []string
		GIDs  []uint32
	}
	var got []dev
	for _, d := range spec.Devices {
		x := dev{Name: d.Name, GIDs: d.ContainerEdits.AdditionalGIDs}
		for _, n := range d.ContainerEdits.DeviceNodes {
			text, _ := json.Marshal(n)
			x.Nodes = append(x.Nodes, string(text))
		}
		got = append(got, x)
	}
	const (
		k  = `{"path":"/dev/kfd","type":"c","major":509,"fileMode":432,"permissions":"rwm","gid":109}`
		c1 = `{"path":"/dev/dri/card1","type":"c","major":226,"minor":1,"fileMode":432,"permissions":"rwm","gid":44}`
		r0 = `{"path":"/dev/dri/renderD128","type":"c","major":226,"minor":128,"fileMode":438,"permissions":"rwm","gid":109}`
		c2 = `{"path":"/dev/dri/card2","type":"c","major":226,"minor":2,"fileMode":432,"permissions":"rwm","gid":44}`
		r1 = `{"path":"/dev/dri/renderD129","type":"c","major":226,"minor":129,"fileMode":432,"permissions":"rwm","gid":109}`
	)
	want := []dev{
		{"0", []string{k, c1, r0}, []uint32{44, 109}},
		{"1", []string{k, c2, r1}, []uint32{44, 109}},
		{"all", []string{k, c1, r0, c2, r1}, []uint32{44, 109}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if spec.Kind != "amd.com/gpu" || spec.Version != "0.7.0" {
		t.Errorf("kind %s, version %s: additional groups need 0.7.0", spec.Kind, spec.Version)
	}
}

func TestNoAMDGPUNoSpec(t *testing.T) {
	m := host.Model{GPUs: []host.GPU{gpu(4, "vfio-pci", -1, -1), {PCI: &host.PCIFunction{ID: pci.ID{Vendor: pci.NVIDIA}, Driver: "amdgpu"}}}}
	if spec, err := drm.Generate(nodes(t), m, drm.Vendors()[0]); spec != nil || err != nil {
		t.Errorf("Generate() = %v, %v", spec, err)
	}
}

// Bug kfd-missing.
func TestAMissingNodeIsRefusedByName(t *testing.T) {
	m := host.Model{GPUs: []host.GPU{gpu(3, "amdgpu", 1, 128)}}
	for _, tc := range []struct {
		name string
		root *tree.Tree
		want string
	}{
		{"no /dev/kfd", nodes(t, card1, rend0), "/dev/kfd"},
		{"no render node", nodes(t, kfd, card1), "/dev/dri/renderD128"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec, err := drm.Generate(tc.root, m, drm.Vendors()[0])
			if spec != nil || !errors.Is(err, drm.ReasonNodeMissing) || !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("Generate() = %v, %v", spec, err)
			}
			if got := err.Error(); len(got) < len(tc.want) || got[:len(tc.want)] != tc.want {
				t.Errorf("error %q does not start with %s", got, tc.want)
			}
		})
	}
	root := nodes(t, card1, rend0)
	if err := root.WriteFile("/dev/kfd", nil, 0o660); err != nil {
		t.Fatal(err)
	}
	if _, err := drm.Generate(root, m, drm.Vendors()[0]); !errors.Is(err, drm.ReasonNodeMissing) {
		t.Errorf("a file in place of /dev/kfd: %v", err)
	}
}

// Bug dri-node-absent: a GPU without its render node does not take its
// neighbours along, and is still refused by name, as are all of them together.
func TestAGPUWithoutItsNodeIsWithheld(t *testing.T) {
	m := host.Model{GPUs: []host.GPU{gpu(3, "amdgpu", 1, 128), gpu(5, "amdgpu", 2, 129)}}
	made, err := drm.Generate(nodes(t, kfd, card1, rend0, card2), m, drm.Vendors()[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Spec.Devices) != 1 || made.Spec.Devices[0].Name != "0" {
		t.Errorf("devices %v, want 0 alone", made.Spec.Devices)
	}
	for _, name := range []string{"1", "all"} {
		if e := made.Withheld[name]; e == nil || e.Reason != drm.ReasonNodeMissing || e.Where != "/dev/dri/renderD129" {
			t.Errorf("%s is withheld as %v", name, e)
		}
	}
	if len(made.Withheld) != 2 {
		t.Errorf("withheld: %v", made.Withheld)
	}
}
