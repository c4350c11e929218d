package fakehw

import (
	"slices"

	"gpurig/core/host"
	"gpurig/core/pci"
)

func find(m *host.Model, a pci.BDF) *host.PCIFunction {
	for _, f := range m.Functions() {
		if f.BDF == a {
			return f
		}
	}
	return nil
}

func noFunction(change string, a pci.BDF) error {
	return impossible(change+" "+a.String(), "there is no such function")
}

func gpuAtBDF(m *host.Model, a pci.BDF) *host.GPU {
	for i := range m.GPUs {
		if m.GPUs[i].PCI != nil && m.GPUs[i].PCI.BDF == a {
			return &m.GPUs[i]
		}
	}
	return nil
}

// WithoutFunctions returns m without the functions that gone names: pulled out.
// Virtual functions go with theirs, and vGPUs with both. A virtual function that
// goes alone leaves sriov_numvfs as it is.
func WithoutFunctions(m host.Model, gone func(pci.BDF) bool) (host.Model, error) {
	out := m.Clone()
	for _, v := range m.VFs {
		if gone(v.PF) {
			inner := gone
			vf := v.BDF
			gone = func(a pci.BDF) bool { return a == vf || inner(a) }
		}
	}
	for _, f := range m.Functions() {
		if gone(f.BDF) {
			next, err := Unbound(out, f.BDF)
			if err != nil {
				return host.Model{}, err
			}
			out = next
		}
	}
	out.GPUs = slices.DeleteFunc(out.GPUs, func(g host.GPU) bool { return g.PCI != nil && gone(g.PCI.BDF) })
	is := func(f host.PCIFunction) bool { return gone(f.BDF) }
	out.NVSwitches = slices.DeleteFunc(out.NVSwitches, is)
	out.Companions = slices.DeleteFunc(out.Companions, is)
	out.VFs = slices.DeleteFunc(out.VFs, func(v host.VF) bool { return is(v.PCIFunction) })
	if len(out.NVSwitches) == 0 {
		out.NVSwitches = nil
	}
	return trimmed(out), nil
}

// WithFunction returns m with a function more, plugged in: without a driver and
// what it is set to. Its IOMMU group is the one that f names, or a new one if a
// vGPU has got that number.
func WithFunction(m host.Model, f host.PCIFunction) (host.Model, error) {
	out := m.Clone()
	if find(&out, f.BDF) != nil {
		return host.Model{}, impossible("function "+f.BDF.String(), "its place is taken")
	}
	f.Driver, f.Override, f.VFIODev = "", "", ""
	if f.SRIOV != nil {
		s := *f.SRIOV
		s.Num, s.NoProbe = 0, false
		f.SRIOV = &s
	}
	taken := func(n int) bool {
		return slices.ContainsFunc(out.VFs, func(v host.VF) bool { return v.IOMMUGroup == n }) ||
			slices.ContainsFunc(out.MDevs, func(d host.MDev) bool { return d.IOMMUGroup == n })
	}
	if f.IOMMUGroup >= 0 && taken(f.IOMMUGroup) {
		f.IOMMUGroup = lastGroup(&out) + 1
	}
	switch {
	case f.Class.Display() || f.Class>>16 == 0x12:
		out.GPUs = append(out.GPUs, host.GPU{PCI: &f, Minor: -1, Index: -1, Card: -1, Render: -1})
	case f.ID.Vendor == pci.NVIDIA && f.Class == pci.ClassOther:
		out.NVSwitches = append(out.NVSwitches, f)
	default:
		out.Companions = append(out.Companions, f)
	}
	normalize(&out)
	return out, nil
}

// WithPCIDriver returns m with one more of the kernel's PCI drivers loaded, as
// modprobe does it before there is anything for it to hold.
func WithPCIDriver(m host.Model, name string, majors map[string]uint32) (host.Model, error) {
	if !host.IsGPUDriver(name) {
		return host.Model{}, impossible("PCI driver "+name, "it is no driver of GPUs")
	}
	out := m.Clone()
	if !used(&out, name) && !slices.Contains(out.Drivers, name) {
		out.Drivers = append(out.Drivers, name)
	}
	if isVFIO(name) {
		addVFIONodes(&out, -1, 0)
		addMajor(&out, "vfio", majors["vfio"])
		if hasNode(&out, "/dev/iommu") {
			addMajor(&out, "vfio-dev", majors["vfio-dev"])
		}
	}
	normalize(&out)
	return out, nil
}
