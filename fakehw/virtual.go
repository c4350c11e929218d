package fakehw

import (
	"fmt"
	"slices"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
)

// dropVGPUs removes the vGPUs on the functions that gone names.
func dropVGPUs(m *host.Model, gone func(parent pci.BDF) bool) {
	var groups []int
	m.MDevs = slices.DeleteFunc(m.MDevs, func(d host.MDev) bool {
		if gone(d.Parent) {
			groups = append(groups, d.IOMMUGroup)
			return true
		}
		return false
	})
	for i := range m.VFs {
		if v := &m.VFs[i]; gone(v.BDF) && v.VGPU != 0 {
			v.VGPU, v.Params = 0, ""
			if v.VFIODev != "" {
				dropNodes(m, func(p string) bool { return p == "/dev/vfio/devices/"+v.VFIODev })
				v.VFIODev = ""
			}
			groups = append(groups, v.IOMMUGroup)
		}
	}
	for _, g := range groups {
		dropGroup(m, g)
	}
}

// WithVFs returns m with so many virtual functions of the GPU at a, which has
// none or is to have none: each in a group of its own and without a driver.
func WithVFs(m host.Model, a pci.BDF, num int) (host.Model, error) {
	change := fmt.Sprintf("%d virtual functions of %s", num, a)
	out := m.Clone()
	f := find(&out, a)
	switch {
	case f == nil:
		return host.Model{}, noFunction(change, a)
	case f.SRIOV == nil || num < 0 || num > f.SRIOV.Total:
		return host.Model{}, impossible(change, "it can have %d", max0(f.SRIOV))
	case num > 0 && f.SRIOV.Num > 0:
		return host.Model{}, impossible(change, "it has %d", f.SRIOV.Num)
	}
	if num == 0 {
		f.SRIOV.Num = 0
		return WithoutFunctions(out, func(x pci.BDF) bool {
			return slices.ContainsFunc(m.VFs, func(v host.VF) bool { return v.BDF == x && v.PF == a })
		})
	}
	s := f.SRIOV
	s.Num = num
	group := lastGroup(&out)
	for k := range num {
		at, ok := VirtualFunction(a, *s, k)
		if !ok || find(&out, at) != nil {
			return host.Model{}, impossible(change, "the address of function %d cannot be had", k)
		}
		v := host.VF{PF: a, PCIFunction: host.PCIFunction{
			BDF: at, ID: f.ID, Class: f.Class, Revision: f.Revision, NUMANode: f.NUMANode, IOMMUGroup: -1, BARs: vfWindows(f.BARs),
		}}
		v.ID.Device = s.Device
		if out.IOMMU {
			group++
			v.IOMMUGroup = group
		}
		out.VFs = append(out.VFs, v)
	}
	normalize(&out)
	return out, nil
}

func max0(s *host.SRIOV) int {
	if s == nil {
		return 0
	}
	return s.Total
}

// vfWindows are the windows of a virtual function; their sizes are unverified, but
// those of 32 bits have to leave room for all functions of many boards.
func vfWindows(of []host.BAR) []host.BAR {
	out := slices.Clone(of)
	for i := range out {
		most := uint64(2 << 30)
		if out[i].Flags&flag64 == 0 {
			most = 256 << 10
		}
		out[i].Size = min(out[i].Size, most)
	}
	return out
}

// lastGroup returns the highest IOMMU group that is taken.
func lastGroup(m *host.Model) int {
	n := 0
	for _, f := range m.Functions() {
		n = max(n, f.IOMMUGroup)
	}
	for _, d := range m.MDevs {
		n = max(n, d.IOMMUGroup)
	}
	return n
}

// WithMDev returns m with a mediated device more.
func WithMDev(m host.Model, uuid string, parent pci.BDF, kind string) (host.Model, error) {
	out := m.Clone()
	d := host.MDev{UUID: uuid, Parent: parent, Type: kind, Driver: mdevDriver, IOMMUGroup: -1}
	if out.IOMMU {
		d.IOMMUGroup = lastGroup(&out) + 1
		addVFIONodes(&out, d.IOMMUGroup, 0)
	}
	out.MDevs = append(out.MDevs, d)
	normalize(&out)
	return out, nil
}

// WithoutMDev returns m without this mediated device.
func WithoutMDev(m host.Model, uuid string) (host.Model, error) {
	out := m.Clone()
	for _, d := range m.MDevs {
		if d.UUID == uuid {
			out.MDevs = slices.DeleteFunc(out.MDevs, func(x host.MDev) bool { return x.UUID == uuid })
			dropGroup(&out, d.IOMMUGroup)
			return trimmed(out), nil
		}
	}
	return host.Model{}, impossible("no mediated device "+uuid, "there is none")
}

// WithMDevDriver returns m with this driver for a mediated device; empty: with
// none, and so without the node of its group.
func WithMDevDriver(m host.Model, uuid, driver string) host.Model {
	out := m.Clone()
	for i := range out.MDevs {
		if d := &out.MDevs[i]; d.UUID == uuid {
			d.Driver = driver
			if driver == "" {
				dropGroup(&out, d.IOMMUGroup)
			} else {
				addVFIONodes(&out, d.IOMMUGroup, 0)
			}
		}
	}
	return trimmed(out)
}

// WithVGPU returns m with a vGPU of this type on a virtual function, in the way
// of drivers with attributes of their own; zero: without one.
func WithVGPU(m host.Model, a pci.BDF, id int) (host.Model, error) {
	out := m.Clone()
	i := slices.IndexFunc(out.VFs, func(v host.VF) bool { return v.BDF == a })
	if i < 0 {
		return host.Model{}, noFunction("vGPU on", a)
	}
	dropVGPUs(&out, func(parent pci.BDF) bool { return parent == a })
	if v := &out.VFs[i]; id != 0 {
		v.VGPU = id
		addVFIO(&out, &v.PCIFunction)
	}
	return trimmed(out), nil
}

// WithVGPUs returns m on a host whose driver makes vGPUs in this way, a value of
// host.Driver.VGPU: its boards can have virtual functions. The driver must be
// loaded.
func WithVGPUs(m host.Model, way string, majors map[string]uint32) (host.Model, error) {
	if m.Driver == nil {
		return host.Model{}, impossible("vGPUs", "NVIDIA's driver is not loaded")
	}
	if !slices.Contains([]string{host.VGPUMDev, host.VGPUVendor}, way) {
		return host.Model{}, impossible("vGPUs", "%q is no way to make them", way)
	}
	out := m.Clone()
	out.Driver.VGPU = way
	if !slices.Contains(out.Driver.Modules, "nvidia_vgpu_vfio") {
		out.Driver.Modules = append(out.Driver.Modules, "nvidia_vgpu_vfio")
	}
	setNode(&out, char("/dev/nvidia-vgpuctl", addMajor(&out, "nvidia-vgpu-vfio", majors["nvidia-vgpu-vfio"]), 0, 0o666, 0))
	addMajor(&out, "misc", majorMisc)
	setNode(&out, device.Node{Path: "/dev/vfio/vfio", Type: device.Char, Num: device.Num{Major: majorMisc, Minor: 196}, Mode: 0o666})
	for i := range out.GPUs {
		g := &out.GPUs[i]
		p, ok := productOf(*g)
		if !ok || !driven(*g) {
			continue
		}
		if v, can := p.Virtual(); can && v.VFs > 0 {
			g.PCI.SRIOV = &host.SRIOV{Total: v.VFs, Offset: v.Offset, Stride: v.Stride, Device: g.PCI.ID.Device}
		}
	}
	normalize(&out)
	return out, nil
}
