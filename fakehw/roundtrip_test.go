package fakehw_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
)

// library answers as the management library of a host model would.
type library struct{ m host.Model }

func (l library) CUDAVersion() (string, error) { return l.m.Driver.CUDA, nil }

func (l library) Devices() ([]host.NVMLDevice, error) {
	var out []host.NVMLDevice
	for _, g := range l.m.NVIDIAGPUs() {
		d := host.NVMLDevice{
			Index: g.Index, Minor: g.Minor, UUID: g.UUID, Name: g.Name, MemoryMiB: g.MemoryMiB,
			ComputeCap: g.ComputeCap, VBIOS: g.VBIOS, MIG: g.MIG,
		}
		if g.PCI != nil {
			d.PCI = &g.PCI.BDF
		}
		out = append(out, d)
	}
	return out, nil
}

// nvmlOf returns the library of a host; a host without driver has none.
func nvmlOf(m host.Model) host.NVML {
	if m.Driver == nil {
		return nil
	}
	return library{m}
}

func load(t testing.TB, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameAfterDiscovery builds m and reads it back.
func sameAfterDiscovery(t *testing.T, m host.Model) {
	t.Helper()
	tree, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Discover(tree, nvmlOf(m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("Discover(Build(m)) is not m (-model +discovered):\n%s", diff)
	}
}

// The property that keeps the fake and the reader honest.
func TestDiscoverOfBuildEqualsTheModel(t *testing.T) {
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) { sameAfterDiscovery(t, load(t, name)) })
	}
}

// The same through the library as programs call it: the in-process NVML of the
// fake, read by the product's own adapter.
func TestDiscoverThroughNVMLEqualsTheModel(t *testing.T) {
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := load(t, name)
			if m.Driver == nil {
				return // no driver, no library: the test above has it
			}
			tree, err := fakehw.Build(m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := host.Discover(tree, nvidia.NVML(nvmlfake.New(m, nvmlfake.Options{})))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Errorf("Discover through NVML is not m (-model +discovered):\n%s", diff)
			}
		})
	}
}

// A machine with more GPUs than a bus has devices for ports, and one that cannot be.
func TestManyGPUsAndNone(t *testing.T) {
	m := load(t, "workstation")
	g := m.GPUs[len(m.GPUs)-1]
	for i := range 60 {
		x := g
		f := *g.PCI
		f.BDF.Bus, f.IOMMUGroup = uint8(0x40+i), 100+i
		x.PCI, x.Minor, x.Index, x.Card, x.Render, x.UUID = &f, -1, -1, -1, -1, ""
		f.Driver = ""
		m.GPUs = append(m.GPUs, x)
	}
	if _, err := fakehw.Build(m); err != nil {
		t.Error(err)
	}
	twice := *g.PCI
	m.Companions = append(m.Companions, twice)
	if _, err := fakehw.Build(m); err == nil {
		t.Error("two functions at one address were built")
	}
}
