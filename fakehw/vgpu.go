package fakehw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// The driver that has mediated devices: the mdev bus's own, of kernels and
// drivers that have the framework at all.
const mdevDriver = "vfio_mdev"

// RoutingID returns bus, device and function as one number (PCI Express Base
// Specification, 2.2.4.2).
func RoutingID(a pci.BDF) int { return int(a.Bus)<<8 | int(a.Device)<<3 | int(a.Function) }

// VirtualFunction returns the address of virtual function k of a physical one;
// false: it would be beyond the last bus.
func VirtualFunction(pf pci.BDF, s host.SRIOV, k int) (pci.BDF, bool) {
	id := RoutingID(pf) + s.Offset + s.Stride*k
	if k < 0 || id > 0xffff {
		return pci.BDF{}, false
	}
	return pci.BDF{Domain: pf.Domain, Bus: uint8(id >> 8), Device: uint8(id >> 3 & 31), Function: uint8(id & 7)}, true
}

// sriov makes the attributes and links of physical and virtual functions.
func (b *builder) sriov() {
	for _, f := range b.all {
		s := f.SRIOV
		if s == nil {
			continue
		}
		b.attr(f.dir+"/sriov_totalvfs", fmt.Sprintf("%d\n", s.Total))
		b.file(f.dir+"/sriov_numvfs", fmt.Sprintf("%d\n", s.Num), 0o644)
		b.attr(f.dir+"/sriov_offset", fmt.Sprintf("%d\n", s.Offset))
		b.attr(f.dir+"/sriov_stride", fmt.Sprintf("%d\n", s.Stride))
		b.attr(f.dir+"/sriov_vf_device", fmt.Sprintf("%x\n", s.Device))
		b.attr(f.dir+"/sriov_vf_total_msix", "0\n")
		b.file(f.dir+"/sriov_drivers_autoprobe", map[bool]string{false: "1\n", true: "0\n"}[s.NoProbe], 0o644)
		for k := range s.Num {
			a, ok := VirtualFunction(f.BDF, *s, k)
			if !ok {
				b.do(fmt.Errorf("PCI function %s: virtual function %d has no address", f.bdf, k))
				return
			}
			v := b.functions[a.String()]
			if v == nil {
				continue // pulled out alone
			}
			b.link(fmt.Sprintf("%s/virtfn%d", f.dir, k), v.dir)
			b.link(v.dir+"/physfn", f.dir)
		}
	}
}

// vgpu makes what the driver shows of vGPUs.
func (b *builder) vgpu() {
	if b.m.Driver == nil {
		return
	}
	switch b.m.Driver.VGPU {
	case host.VGPUMDev:
		b.mdev()
	case host.VGPUVendor:
		b.vendorVGPU()
	}
}

// VGPUParents returns the functions on which vGPUs can be made, by address: the
// virtual functions that NVIDIA's driver holds, and the boards without any.
func VGPUParents(m *host.Model) []pci.BDF {
	if m.Driver == nil || m.Driver.VGPU == "" {
		return nil
	}
	var out []pci.BDF
	for _, g := range m.GPUs {
		if p, ok := productOf(g); ok && driven(g) {
			if v, can := p.Virtual(); can && v.VFs == 0 && m.Driver.VGPU == host.VGPUMDev {
				out = append(out, g.PCI.BDF)
			}
		}
	}
	for _, v := range m.VFs {
		if v.Driver == "nvidia" {
			out = append(out, v.BDF)
		}
	}
	slices.SortFunc(out, pci.BDF.Compare)
	return out
}

// VGPUBoard returns the board that a function is or is a part of, and how it can
// be divided.
func VGPUBoard(m *host.Model, a pci.BDF) (board pci.BDF, how catalog.Virtual, ok bool) {
	board = a
	for _, v := range m.VFs {
		if v.BDF == a {
			board = v.PF
		}
	}
	for _, g := range m.GPUs {
		if g.PCI != nil && g.PCI.BDF == board {
			if p, known := productOf(g); known {
				how, ok = p.Virtual()
			}
		}
	}
	return board, how, ok
}

// A room is what is left on a function for vGPUs.
type room struct {
	how   catalog.Virtual
	mig   *host.MIG // of its board; nil: mode off
	types []int     // ids of the vGPUs on its board
	own   int       // how many of them it has itself
}

// roomOn returns the room on a function; one that can have no vGPU has none.
func roomOn(m *host.Model, function pci.BDF) room {
	board, how, ok := VGPUBoard(m, function)
	if !ok {
		return room{}
	}
	r := room{how: how, mig: migOf(m, board)}
	on := map[pci.BDF]bool{board: true}
	for _, v := range m.VFs {
		on[v.BDF] = v.PF == board
		if v.PF == board && v.VGPU != 0 {
			r.add(v.VGPU, v.BDF == function)
		}
	}
	for _, d := range m.MDevs {
		number, _ := strings.CutPrefix(d.Type, "nvidia-")
		if id, err := strconv.Atoi(number); err == nil && on[d.Parent] {
			r.add(id, d.Parent == function)
		}
	}
	return r
}

func migOf(m *host.Model, board pci.BDF) *host.MIG {
	for _, g := range m.GPUs {
		if g.PCI != nil && g.PCI.BDF == board {
			return g.MIG
		}
	}
	return nil
}

func (r *room) add(id int, own bool) {
	r.types = append(r.types, id)
	if own {
		r.own++
	}
}

// left returns how many vGPUs of a type can be made.
func (r room) left(id int) int {
	t, known := r.how.Type(id)
	if !known {
		return 0
	}
	if (t.MIG != "") != (r.mig != nil) {
		return 0 // a board is shared in time or in space
	}
	if t.MIG != "" {
		return min(r.instancesLeft(t), max(1-r.own, 0))
	}
	for _, other := range r.types {
		if o, ok := r.how.Type(other); ok && o.FramebufferMiB != t.FramebufferMiB {
			return 0
		}
	}
	left := max(t.Max-len(r.types), 0)
	if r.how.VFs > 0 { // the function is one of several
		return min(left, max(1-r.own, 0))
	}
	return left
}

// instancesLeft counts the GPU instances that a MIG-backed type can take: those of
// its profile that no vGPU has (vGPU user guide, "MIG-backed").
func (r room) instancesLeft(t catalog.VGPUType) int {
	n := 0
	for _, gi := range r.mig.Instances {
		if gi.Profile == t.MIG {
			n++
		}
	}
	for _, id := range r.types {
		if id == t.ID {
			n--
		}
	}
	return max(n, 0)
}

// VGPUsLeft returns how many vGPUs of a type can be made on a function now. All
// vGPUs of a board have the same amount of memory (vGPU user guide, "homogeneous"
// placement) unless they are MIG-backed, and a virtual function holds one.
func VGPUsLeft(m *host.Model, function pci.BDF, id int) int { return roomOn(m, function).left(id) }

// mdev makes the class of parents, the types of each, and the devices.
func (b *builder) mdev() {
	b.dir("/sys/class/mdev_bus")
	b.dir("/sys/bus/mdev/devices")
	b.registered("mdev", mdevDriver)
	for _, a := range VGPUParents(b.m) {
		f := b.functions[a.String()]
		r := roomOn(b.m, a)
		if len(r.how.Types) == 0 {
			continue
		}
		b.link("/sys/class/mdev_bus/"+f.bdf, f.dir)
		for _, t := range r.how.Types {
			at := f.dir + "/mdev_supported_types/" + t.Dir()
			b.attr(at+"/name", t.Name+"\n")
			b.attr(at+"/description", t.Description()+"\n")
			b.attr(at+"/available_instances", fmt.Sprintf("%d\n", r.left(t.ID)))
			b.attr(at+"/device_api", "vfio-pci\n")
			b.write(at, "create")
			b.dir(at + "/devices")
		}
	}
	for _, d := range b.m.MDevs {
		b.mdevDevice(d)
	}
}

func (b *builder) mdevDevice(d host.MDev) {
	f := b.functions[d.Parent.String()]
	if f == nil {
		b.do(fmt.Errorf("mediated device %s: its parent %s is not there", d.UUID, d.Parent))
		return
	}
	at := f.dir + "/" + d.UUID
	kind := f.dir + "/mdev_supported_types/" + d.Type
	b.link(at+"/mdev_type", kind)
	b.link(at+"/subsystem", "/sys/bus/mdev")
	b.link(kind+"/devices/"+d.UUID, at)
	b.link("/sys/bus/mdev/devices/"+d.UUID, at)
	b.write(at, "remove")
	driver := ""
	if d.Driver != "" {
		driver = "DRIVER=" + d.Driver + "\n"
		b.driver("mdev", d.Driver, d.UUID, at)
	}
	b.file(at+"/uevent", driver+"MODALIAS=mdev:c*\n", 0o644)
	b.file(at+"/nvidia/vgpu_params", "\n", 0o644)
	b.attr(at+"/nvidia/vm_name", "\n")
	if d.IOMMUGroup >= 0 {
		group := fmt.Sprintf("/sys/kernel/iommu_groups/%d", d.IOMMUGroup)
		b.link(at+"/iommu_group", group)
		b.link(group+"/devices/"+d.UUID, at)
		b.file(group+"/type", "unmanaged\n", 0o644)
		b.attr(group+"/reserved_regions", "")
	}
}

// vendorVGPU makes the attributes of each virtual function (listing of a host
// with an RTX PRO 6000 and driver 580).
func (b *builder) vendorVGPU() {
	for _, v := range b.m.VFs {
		if v.Driver != "nvidia" {
			continue
		}
		at := b.functions[v.BDF.String()].dir + "/nvidia"
		b.attr(at+"/creatable_vgpu_types", creatable(b.m, v.BDF))
		b.file(at+"/current_vgpu_type", fmt.Sprintf("%d\n", v.VGPU), 0o644)
		b.file(at+"/gpu_instance_id", "0\n", 0o644)
		b.file(at+"/placement_id", "0\n", 0o644)
		b.file(at+"/vgpu_params", v.Params+"\n", 0o644)
		b.file(at+"/warm_update", "0\n", 0o644)
	}
}

// creatable is the table of what can be made on a virtual function now.
func creatable(m *host.Model, a pci.BDF) string {
	var s strings.Builder
	s.WriteString("ID    : vGPU Name\n")
	r := roomOn(m, a)
	types := slices.Clone(r.how.Types)
	slices.SortFunc(types, func(x, y catalog.VGPUType) int { return x.ID - y.ID })
	for _, t := range types {
		if r.left(t.ID) > 0 {
			fmt.Fprintf(&s, "%-5d : %s\n", t.ID, t.Name)
		}
	}
	return s.String()
}

// vfioDevices makes the class of iommufd's devices.
func (b *builder) vfioDevices() {
	for _, f := range b.all {
		if f.VFIODev == "" {
			continue
		}
		at := f.dir + "/vfio-dev/" + f.VFIODev
		number := ""
		for _, n := range b.m.Nodes {
			if n.Path == "/dev/vfio/devices/"+f.VFIODev {
				number = n.Num.String()
			}
		}
		if number != "" {
			b.attr(at+"/dev", number+"\n")
			b.link("/sys/dev/char/"+number, at)
		}
		b.link(at+"/device", f.dir)
		b.link(at+"/subsystem", "/sys/class/vfio-dev")
		b.link("/sys/class/vfio-dev/"+f.VFIODev, at)
	}
}
