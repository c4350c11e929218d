package fakehw

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// Unbound returns m after the function at a lost its driver: the nodes, names
// and numbers that the driver gave are gone, and so are vGPUs and MIG devices.
// The driver stays loaded. A function without a driver is left as it is.
func Unbound(m host.Model, a pci.BDF) (host.Model, error) {
	out := m.Clone()
	f := find(&out, a)
	if f == nil {
		return host.Model{}, noFunction("no driver for", a)
	}
	driver := f.Driver
	if driver == "" {
		return out, nil
	}
	if f.SRIOV != nil && f.SRIOV.Num > 0 { // its driver takes them away (Documentation/PCI/pci-iov-howto.rst)
		next, err := WithVFs(out, a, 0)
		if err != nil {
			return host.Model{}, err
		}
		out, f = next, find(&next, a)
	}
	f.Driver = ""
	switch {
	case isVFIO(driver):
		dropVFIO(&out, f)
	case driver == "nvidia-nvswitch":
		dropNodes(&out, func(p string) bool { return p == switchNode(&out, a) })
	case gpuAtBDF(&out, a) != nil:
		release(&out, gpuAtBDF(&out, a))
	}
	dropVGPUs(&out, func(parent pci.BDF) bool { return parent == a })
	if host.IsGPUDriver(driver) && !used(&out, driver) {
		out.Drivers = append(out.Drivers, driver)
	}
	return trimmed(out), nil
}

// switchNode is the node of the NVSwitch at a. It is numbered by address, which
// is the order in which the driver finds them when it is loaded.
func switchNode(m *host.Model, a pci.BDF) string {
	i := slices.IndexFunc(m.NVSwitches, func(f host.PCIFunction) bool { return f.BDF == a })
	return fmt.Sprintf("/dev/nvidia-nvswitch%d", i)
}

// Bound returns m after a driver took the function at a, which must have none.
// What the driver gives is as Bind and Load give it; was is the GPU as it may
// have been before, whose numbers and UUID it gets again if they are free.
func Bound(m host.Model, a pci.BDF, driver string, was *host.GPU) (host.Model, error) {
	out := m.Clone()
	f := find(&out, a)
	switch {
	case f == nil:
		return host.Model{}, noFunction("driver "+driver+" for", a)
	case f.Driver != "":
		return host.Model{}, impossible("driver "+driver+" for "+a.String(), "%s has it", f.Driver)
	}
	f.Driver = driver
	out.Drivers = slices.DeleteFunc(out.Drivers, func(name string) bool { return name == driver })
	g := gpuAtBDF(&out, a)
	switch {
	case isVFIO(driver):
		addVFIO(&out, f)
	case g != nil && driver == "nvidia":
		f.Driver = ""
		if err := take(&out, g, was); err != nil {
			return host.Model{}, err
		}
	case g != nil:
		if was != nil {
			restoreDRM(&out, g, *was)
		}
		bindGPU(&out, g, nil)
	case driver == "nvidia-nvswitch":
		if major, ok := majorOf(&out, driver); ok {
			p := switchNode(&out, a)
			var minor uint32
			if _, err := fmt.Sscanf(p, "/dev/nvidia-nvswitch%d", &minor); err == nil {
				setNode(&out, char(p, major, minor, 0o666, 0))
			}
		}
	}
	return trimmed(out), nil
}

func isVFIO(driver string) bool { return strings.HasSuffix(driver, "vfio-pci") }

func used(m *host.Model, driver string) bool {
	return slices.ContainsFunc(m.Functions(), func(f *host.PCIFunction) bool { return f.Driver == driver })
}

// release makes g a GPU without a driver. What the driver registered when it was
// loaded stays: the lines of /proc/devices, /dev/kfd.
func release(m *host.Model, g *host.GPU) {
	dropGPUNodes(m, *g)
	index := g.Index
	*g = host.GPU{PCI: g.PCI, Minor: -1, Index: -1, Card: -1, Render: -1}
	if index >= 0 {
		for i := range m.GPUs {
			if m.GPUs[i].Index > index {
				m.GPUs[i].Index--
			}
		}
	}
}

// take has NVIDIA's driver hold g.
func take(m *host.Model, g *host.GPU, was *host.GPU) error {
	at := g.PCI.BDF
	if m.Driver == nil {
		return impossible("driver nvidia for "+at.String(), "it is not loaded")
	}
	if _, ok := productOf(*g); !ok || g.PCI.ID.Vendor != pci.NVIDIA {
		return impossible("driver nvidia for "+at.String(), "it does not know %s", g.PCI.ID)
	}
	// The library counts GPUs by address, so this one goes between its neighbours.
	index := 0
	for _, o := range m.GPUs {
		if driven(o) && o.PCI.BDF.Compare(at) < 0 {
			index = max(index, o.Index+1)
		}
	}
	if was != nil && was.Index >= 0 {
		index = min(was.Index, len(m.NVIDIAGPUs()))
	}
	for i := range m.GPUs {
		if m.GPUs[i].Index >= index {
			m.GPUs[i].Index++
		}
	}
	g.Index = index
	if was != nil {
		g.UUID = was.UUID
		free := func(n int) bool { return !slices.ContainsFunc(m.GPUs, func(o host.GPU) bool { return o.Minor == n }) }
		if was.Minor >= 0 && free(was.Minor) {
			g.Minor = was.Minor
		}
		if hasModule(m, "nvidia_drm") {
			restoreDRM(m, g, *was)
		}
	}
	p, _ := productOf(*g)
	hold(m, g, p)
	if _, ok := majorOf(m, "nvidia-caps"); !ok && hasDiscrete(m) {
		addCapabilities(m, DriverOptions{})
	}
	if was != nil {
		restoreMIG(g, *was)
		if was.VBIOS != "" {
			g.VBIOS = was.VBIOS
		}
	}
	setNode(m, frontendNode(m, g.Minor))
	addDRMNodes(m, *g)
	return nil
}

// restoreMIG gives g back the mode that its board keeps. Instances do not outlive
// the driver.
func restoreMIG(g *host.GPU, was host.GPU) {
	if p, ok := productOf(*g); ok && p.Persistent && was.MIG != nil {
		g.MIG = &host.MIG{}
	}
}

// restoreDRM gives g its card and render number again, if they are free, and those of
// its partitions: the board keeps its mode.
func restoreDRM(m *host.Model, g *host.GPU, was host.GPU) {
	p, ok := productOf(*g)
	if !ok {
		return
	}
	if was.Card >= 0 && !slices.ContainsFunc(m.GPUs, func(o host.GPU) bool { return o.Card == was.Card }) {
		g.Card = was.Card
	}
	if was.Render >= 0 && p.Render && !slices.ContainsFunc(m.GPUs, func(o host.GPU) bool { return o.Render == was.Render }) {
		g.Render = was.Render
	}
	for _, part := range was.Partitions {
		taken := func(is func(host.Partition) bool) bool {
			return slices.ContainsFunc(m.GPUs, func(o host.GPU) bool { return slices.ContainsFunc(drmDevices(o), is) })
		}
		if taken(func(o host.Partition) bool { return o.Card == part.Card }) {
			part.Card = -1
		}
		if taken(func(o host.Partition) bool { return o.Render == part.Render }) {
			part.Render = -1
		}
		g.Partitions = append(g.Partitions, part)
	}
}

// addVFIO makes the nodes by which a program has the function f.
func addVFIO(m *host.Model, f *host.PCIFunction) {
	addVFIONodes(m, f.IOMMUGroup, 0)
	if !hasNode(m, "/dev/iommu") {
		return
	}
	n := 0
	for hasNode(m, vfioDevice(n)) {
		n++
	}
	f.VFIODev = fmt.Sprintf("vfio%d", n)
	setNode(m, char(vfioDevice(n), addMajor(m, "vfio-dev", 0), uint32(n), 0o600, 0))
}

func vfioDevice(n int) string { return fmt.Sprintf("/dev/vfio/devices/vfio%d", n) }

// dropVFIO takes f's nodes away; that of the group stays while another function
// of it is held so.
func dropVFIO(m *host.Model, f *host.PCIFunction) {
	if f.VFIODev != "" {
		dropNodes(m, func(p string) bool { return p == "/dev/vfio/devices/"+f.VFIODev })
		f.VFIODev = ""
	}
	dropGroup(m, f.IOMMUGroup)
}

// dropGroup removes the node of a group that nothing holds any more.
func dropGroup(m *host.Model, group int) {
	if slices.ContainsFunc(m.Functions(), func(f *host.PCIFunction) bool {
		return f.IOMMUGroup == group && (isVFIO(f.Driver) || f.VFIODev != "")
	}) || slices.ContainsFunc(m.MDevs, func(d host.MDev) bool { return d.IOMMUGroup == group && d.Driver != "" }) ||
		slices.ContainsFunc(m.VFs, func(v host.VF) bool { return v.IOMMUGroup == group && v.VGPU != 0 }) {
		return
	}
	dropNodes(m, func(p string) bool { return p == fmt.Sprintf("/dev/vfio/%d", group) })
}
