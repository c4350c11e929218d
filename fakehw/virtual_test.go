package fakehw_test

import (
	"errors"
	"fmt"
	"testing"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
)

// steps makes a model by several changes.
func steps(t *testing.T, m host.Model, changes ...func(host.Model) (host.Model, error)) host.Model {
	t.Helper()
	for i, f := range changes {
		next, err := f(m)
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		m = next
	}
	return m
}

func address(t *testing.T, s string) pci.BDF {
	t.Helper()
	a, err := pci.ParseBDF(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type step = func(host.Model) (host.Model, error)

func vfs(pf pci.BDF, n int) step {
	return func(m host.Model) (host.Model, error) { return fakehw.WithVFs(m, pf, n) }
}

func bound(a pci.BDF, driver string) step {
	return func(m host.Model) (host.Model, error) { return fakehw.Bound(m, a, driver, nil) }
}

func unbound(a pci.BDF) step {
	return func(m host.Model) (host.Model, error) { return fakehw.Unbound(m, a) }
}

func mdev(uuid string, a pci.BDF, kind string) step {
	return func(m host.Model) (host.Model, error) { return fakehw.WithMDev(m, uuid, a, kind) }
}

func vgpu(a pci.BDF, id int) step {
	return func(m host.Model) (host.Model, error) { return fakehw.WithVGPU(m, a, id) }
}

// Hosts with virtual functions, mediated devices and vGPUs are read as what they
// are, through every state.
func TestDiscoverOfVirtualFunctionsAndVGPUs(t *testing.T) {
	const uuid = "aa618089-8b16-4d01-a136-25a0f3c73123"
	a40, l40s := address(t, "0000:e8:00.0"), address(t, "0000:61:00.0")
	vf := address(t, "0000:e8:00.4")
	board := address(t, "0000:3b:00.0")
	t4 := func(m host.Model) (host.Model, error) { return fakehw.WithVGPUs(m, host.VGPUMDev, nil) }
	for _, tc := range []struct {
		name, profile string
		changes       []step
	}{
		{"A40 with 32 virtual functions", "vgpu-a40", []step{vfs(a40, 32)}},
		{"and mediated devices", "vgpu-a40", []step{vfs(a40, 32), bound(vf, "nvidia"), mdev(uuid, vf, "nvidia-558")}},
		{"and none of them", "vgpu-a40", []step{vfs(a40, 4), bound(vf, "nvidia"), mdev(uuid, vf, "nvidia-558"), vfs(a40, 0)}},
		{"the function unbound", "vgpu-a40", []step{vfs(a40, 4), bound(vf, "nvidia"), mdev(uuid, vf, "nvidia-558"), unbound(a40)}},
		{"a virtual function with vfio-pci", "vgpu-a40", []step{vfs(a40, 2), bound(vf, "vfio-pci")}},
		{"one pulled out", "vgpu-a40", []step{vfs(a40, 4), func(m host.Model) (host.Model, error) {
			return fakehw.WithoutFunctions(m, func(a pci.BDF) bool { return a == vf })
		}}},
		{"L40S with a vGPU", "vgpu-l40s", []step{vfs(l40s, 32), bound(address(t, "0000:61:00.5"), "nvidia"), vgpu(address(t, "0000:61:00.5"), 1148)}},
		{"and without it", "vgpu-l40s", []step{vfs(l40s, 32), bound(address(t, "0000:61:00.5"), "nvidia"), vgpu(address(t, "0000:61:00.5"), 1148), vgpu(address(t, "0000:61:00.5"), 0)}},
		{"T4, mediated devices on the board", "t4-server", []step{t4, mdev(uuid, board, "nvidia-231")}},
		{"iommufd", "vgpu-l40s", []step{unbound(l40s), bound(l40s, "vfio-pci")}},
		{"all pulled out", "dgx-a100", []step{func(m host.Model) (host.Model, error) {
			return fakehw.WithoutFunctions(m, func(pci.BDF) bool { return true })
		}}},
		{"a board's audio function left alone", "workstation", []step{func(m host.Model) (host.Model, error) {
			return fakehw.WithoutFunctions(m, func(a pci.BDF) bool { return a == address(t, "0000:0a:00.0") })
		}}},
		{"a switch unbound", "dgx-a100", []step{func(m host.Model) (host.Model, error) { return fakehw.Unbound(m, m.NVSwitches[1].BDF) }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := steps(t, load(t, tc.profile), tc.changes...)
			sameAfterDiscovery(t, m)
			everyLinkLeadsSomewhere(t, build(t, m))
		})
	}
}

// Addresses of virtual functions, from a listing of a host with an A40 at e8:00.0.
func TestVirtualFunctionsHaveTheListedAddresses(t *testing.T) {
	pf := address(t, "0000:e8:00.0")
	s := host.SRIOV{Total: 32, Offset: 4, Stride: 1}
	for k, want := range map[int]string{0: "0000:e8:00.4", 3: "0000:e8:00.7", 4: "0000:e8:01.0", 31: "0000:e8:04.3"} {
		if got, ok := fakehw.VirtualFunction(pf, s, k); !ok || got.String() != want {
			t.Errorf("function %d at %s, %v; want %s", k, got, ok, want)
		}
	}
	if got, ok := fakehw.VirtualFunction(address(t, "0000:ff:1f.7"), s, 0); ok {
		t.Errorf("beyond the last bus: %s", got)
	}
}

// What is left of each type counts down for all: a board's vGPUs are of one
// size, and a virtual function has one.
func TestAvailableInstancesCountDownAcrossTypes(t *testing.T) {
	m := steps(t, load(t, "t4-server"), func(m host.Model) (host.Model, error) { return fakehw.WithVGPUs(m, host.VGPUMDev, nil) })
	board := m.GPUs[0].PCI.BDF
	left := func(id int) int { return fakehw.VGPUsLeft(&m, board, id) }
	if left(230) != 16 || left(232) != 4 {
		t.Fatalf("%d of 1 GiB, %d of 4 GiB; want 16 and 4", left(230), left(232))
	}
	for i := range 4 {
		m = steps(t, m, mdev(fmt.Sprintf("aa618089-8b16-4d01-a136-25a0f3c7312%d", i), board, "nvidia-232"))
		if left(230) != 0 || left(232) != 3-i {
			t.Errorf("after %d: %d of 1 GiB, %d of 4 GiB; want 0 and %d", i+1, left(230), left(232), 3-i)
		}
	}
	m = steps(t, load(t, "vgpu-a40"), vfs(address(t, "0000:e8:00.0"), 32), bound(address(t, "0000:e8:00.4"), "nvidia"), bound(address(t, "0000:e8:00.5"), "nvidia"),
		mdev("aa618089-8b16-4d01-a136-25a0f3c73120", address(t, "0000:e8:00.4"), "nvidia-558"))
	one, other := address(t, "0000:e8:00.4"), address(t, "0000:e8:00.5")
	for _, x := range []struct {
		at       pci.BDF
		id, want int
	}{{one, 558, 0}, {one, 557, 0}, {other, 558, 1}, {other, 557, 0}} {
		if got := fakehw.VGPUsLeft(&m, x.at, x.id); got != x.want {
			t.Errorf("%d of type %d on %s; want %d", got, x.id, x.at, x.want)
		}
	}
}

func TestImpossibleVirtualFunctions(t *testing.T) {
	m := load(t, "vgpu-a40")
	pf := address(t, "0000:e8:00.0")
	for name, f := range map[string]step{
		"too many":           vfs(pf, 33),
		"fewer than none":    vfs(pf, -1),
		"of nothing":         vfs(address(t, "0000:01:00.0"), 1),
		"driver for nothing": bound(address(t, "0000:01:00.0"), "nvidia"),
		"a driver is there":  bound(pf, "vfio-pci"),
		"vGPU on the board":  vgpu(pf, 557),
		"no mediated device": func(m host.Model) (host.Model, error) { return fakehw.WithoutMDev(m, "none") },
		"the place is taken": func(m host.Model) (host.Model, error) { return fakehw.WithFunction(m, *m.GPUs[0].PCI) },
		"an unknown driver":  func(m host.Model) (host.Model, error) { return fakehw.WithPCIDriver(m, "e1000", nil) },
		"an unknown way":     func(m host.Model) (host.Model, error) { return fakehw.WithVGPUs(m, "grid", nil) },
		"vGPUs with no driver": func(m host.Model) (host.Model, error) {
			return fakehw.WithVGPUs(fakehw.Unloaded(m), host.VGPUMDev, nil)
		},
	} {
		if got, err := f(m); !errors.Is(err, fakehw.ErrImpossible) || len(got.GPUs) != 0 {
			t.Errorf("%s: %d GPUs, %v; want ErrImpossible and nothing else", name, len(got.GPUs), err)
		}
	}
}
