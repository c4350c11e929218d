package pgpu_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/cdi/pgpu"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/vfio"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// held returns a profile's host on which vfio-pci has these functions.
func held(t *testing.T, profile string, change func(*host.Model), functions ...string) (*tree.Tree, host.Model) {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&m)
	}
	for _, f := range functions {
		b, err := pci.ParseBDF(f)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = fakehw.Unbound(m, b); err != nil {
			t.Fatal(err)
		}
		if m, err = fakehw.Bound(m, b, "vfio-pci", nil); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	return tr, m
}

func TestGenerate(t *testing.T) {
	for _, tc := range []struct {
		name, profile string
		change        func(*host.Model)
		functions     []string
		opts          pgpu.Options
		want          string // name=node …
		withheld      string
	}{
		{name: "Kata's guide: group 192", profile: "vgpu-a100", functions: []string{"d0:00.0"}, want: "nvidia.com/pgpu 1=/dev/vfio/192 192=/dev/vfio/192"},
		{name: "iommufd: the device's own node and never its group's", profile: "vgpu-l40s", functions: []string{"61:00.0", "c1:00.0"},
			want: "nvidia.com/pgpu 0=/dev/vfio/devices/vfio0 1=/dev/vfio/devices/vfio1 35=/dev/vfio/devices/vfio0 80=/dev/vfio/devices/vfio1 vfio0=/dev/vfio/devices/vfio0 vfio1=/dev/vfio/devices/vfio1"},
		{name: "a GPU with its sound", profile: "workstation", functions: []string{"0a:00.0", "0a:00.1"}, want: "nvidia.com/pgpu 0=/dev/vfio/14 14=/dev/vfio/14"},
		{name: "a vendor asked for", profile: "workstation", functions: []string{"03:00.0", "03:00.1"}, opts: pgpu.Options{Vendor: "amd.com"}, want: "amd.com/pgpu 0=/dev/vfio/20 20=/dev/vfio/20"},
		{name: "a vGPU", profile: "vgpu-a40", change: func(m *host.Model) {
			gpu := m.GPUs[0].PCI.BDF
			m.MDevs = []host.MDev{{UUID: "11111111-2222-3333-4444-555555555555", Parent: gpu, Type: "nvidia-558", Driver: "vfio_mdev", IOMMUGroup: 200}}
			m.Nodes = append(m.Nodes, device.Node{Path: "/dev/vfio/200", Type: device.Char, Num: device.Num{Major: 240, Minor: 7}, Mode: 0o600})
		}, want: "nvidia.com/pgpu 11111111-2222-3333-4444-555555555555=/dev/vfio/200"},
		{name: "a vGPU that is a virtual function", profile: "vgpu-l40s", change: func(m *host.Model) {
			f := *m.GPUs[0].PCI
			f.BDF.Function, f.Driver, f.IOMMUGroup, f.VFIODev, f.SRIOV = 4, "nvidia", 150, "vfio9", nil
			m.VFs = []host.VF{{PCIFunction: f, PF: m.GPUs[0].PCI.BDF, VGPU: 1150}}
			m.GPUs[0].PCI.SRIOV.Num = 1
			m.Nodes = append(m.Nodes, device.Node{Path: "/dev/vfio/devices/vfio9", Type: device.Char, Num: device.Num{Major: 511, Minor: 9}, Mode: 0o600})
		}, want: "nvidia.com/pgpu 0000:61:00.4=/dev/vfio/devices/vfio9"},
		{name: "another class", profile: "vgpu-a100", functions: []string{"d0:00.0"}, opts: pgpu.Options{Class: "GA100"}, want: "nvidia.com/GA100 1=/dev/vfio/192 192=/dev/vfio/192"},
		{name: "a group whose number is another GPU's index", profile: "vgpu-a100", functions: []string{"d0:00.0"},
			change: func(m *host.Model) { m.GPUs[1].PCI.IOMMUGroup = 0 }, want: "nvidia.com/pgpu 1=/dev/vfio/0", withheld: "nvidia.com/pgpu=0 ambiguous-device-name"},
		{name: "a group whose number is the GPU's own index", profile: "vgpu-a100", functions: []string{"d0:00.0"},
			change: func(m *host.Model) { m.GPUs[1].PCI.IOMMUGroup = 1 }, want: "nvidia.com/pgpu 1=/dev/vfio/1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, m := held(t, tc.profile, tc.change, tc.functions...)
			made, err := pgpu.Generate(root, m, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{made.Spec.Kind}
			for _, d := range made.Spec.Devices {
				for _, n := range d.ContainerEdits.DeviceNodes {
					got = append(got, d.Name+"="+n.Path)
					if vfio.KindOf(n.Path) == vfio.ControlNode || len(d.ContainerEdits.DeviceNodes) != 1 {
						t.Errorf("device %s has %d nodes, %s among them", d.Name, len(d.ContainerEdits.DeviceNodes), n.Path)
					}
				}
			}
			var withheld []string
			for _, e := range made.Withheld {
				withheld = append(withheld, e.Where+" "+string(e.Reason))
			}
			if strings.Join(got, " ") != tc.want || strings.Join(withheld, " ") != tc.withheld {
				t.Errorf("Generate = %q, withheld %q;\nwant %q, %q", got, withheld, tc.want, tc.withheld)
			}
			if made.Spec.Version != "0.5.0" {
				t.Errorf("version %s; want 0.5.0, since names begin with a digit", made.Spec.Version)
			}
			if err := cdi.Validate(made.Spec); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, profile string
		functions     []string
		opts          pgpu.Options
		want          refuse.Reason
	}{
		{"nothing is held", "workstation", nil, pgpu.Options{}, pgpu.ReasonNotHeld},
		{"the other vendor's is held", "workstation", []string{"03:00.0", "03:00.1"}, pgpu.Options{}, pgpu.ReasonNotHeld},
		{"the sound is the host's", "workstation", []string{"0a:00.0"}, pgpu.Options{}, vfio.ReasonNotViable},
		{"no vendor of GPUs", "workstation", nil, pgpu.Options{Vendor: "example.com"}, pgpu.ReasonBadVendor},
		{"no GPU", "no-gpu", nil, pgpu.Options{}, pgpu.ReasonNotHeld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, m := held(t, tc.profile, nil, tc.functions...)
			made, err := pgpu.Generate(root, m, tc.opts)
			if es := refuse.As(err); made != nil || len(es) != 1 || es[0].Reason != tc.want || es[0].Hint == "" {
				t.Errorf("Generate = %v, %v; want one refusal for %s, with a hint", made, err, tc.want)
			}
		})
	}
}

// Bug guest-cdi-mismatch: what is asked for by index on the host is one device there,
// and each GPU has exactly one.
func TestEveryIndexIsOneDevice148(t *testing.T) {
	root, m := held(t, "vgpu-l40s", nil, "61:00.0", "c1:00.0")
	made, err := pgpu.Generate(root, m, pgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]string{}
	for _, d := range made.Spec.Devices {
		nodes[d.Name] = d.ContainerEdits.DeviceNodes[0].Path
	}
	seen := map[string]bool{}
	for i, g := range m.GPUs {
		n := nodes[fmt.Sprint(i)]
		if path.Base(n) != g.PCI.VFIODev || seen[n] {
			t.Errorf("device %d is %s; want the node of %s, which no other has", i, n, g.PCI.BDF)
		}
		seen[n] = true
	}
}
