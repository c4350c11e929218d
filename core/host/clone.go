package host

import "slices"

// Clone returns a copy of m that shares nothing with it.
func (m Model) Clone() Model {
	m.GPUs = slices.Clone(m.GPUs)
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if g.PCI != nil {
			f := cloneFunction(*g.PCI)
			g.PCI = &f
		}
		g.MIG, g.Partitions = g.MIG.clone(), slices.Clone(g.Partitions)
	}
	m.NVSwitches = cloneFunctions(m.NVSwitches)
	m.Companions = cloneFunctions(m.Companions)
	m.VFs = slices.Clone(m.VFs)
	for i := range m.VFs {
		m.VFs[i].PCIFunction = cloneFunction(m.VFs[i].PCIFunction)
	}
	m.MDevs = slices.Clone(m.MDevs)
	m.Drivers = slices.Clone(m.Drivers)
	if m.Driver != nil {
		d := *m.Driver
		d.Modules = slices.Clone(d.Modules)
		m.Driver = &d
	}
	if m.Userspace != nil {
		u := *m.Userspace
		m.Userspace = &u
	}
	if m.Tegra != nil {
		t := *m.Tegra
		t.Compatible, t.CSV = slices.Clone(t.Compatible), slices.Clone(t.CSV)
		m.Tegra = &t
	}
	m.Nodes = slices.Clone(m.Nodes)
	m.Majors = slices.Clone(m.Majors)
	m.Lost, m.Problems = slices.Clone(m.Lost), slices.Clone(m.Problems)
	return m
}

func cloneFunctions(in []PCIFunction) []PCIFunction {
	out := slices.Clone(in)
	for i := range out {
		out[i] = cloneFunction(out[i])
	}
	return out
}

func cloneFunction(f PCIFunction) PCIFunction {
	f.BARs = slices.Clone(f.BARs)
	if f.SRIOV != nil {
		s := *f.SRIOV
		f.SRIOV = &s
	}
	return f
}

func (g *MIG) clone() *MIG {
	if g == nil {
		return nil
	}
	out := &MIG{Instances: slices.Clone(g.Instances)}
	for i := range out.Instances {
		out.Instances[i].Compute = slices.Clone(out.Instances[i].Compute)
	}
	return out
}
