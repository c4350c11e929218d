package fakehw

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/device"
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

// restoreDRM gives g its card and render number again, if they are free.
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

// vfWindows are the windows of a virtual function; their sizes are unverified.
func vfWindows(of []host.BAR) []host.BAR {
	out := slices.Clone(of)
	for i := range out {
		out[i].Size = min(out[i].Size, 2<<30)
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
