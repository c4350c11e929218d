package vfio

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/request"
)

// Whole functions: a GPU and what goes with it.

// whole gives the machine a GPU with the rest of its board, if nothing is in the
// way.
func (d *making) whole(c choice, all []choice) error {
	if len(c.gpus) != 1 {
		return nil // refused before
	}
	g := c.gpus[0]
	if g.PCI == nil {
		return refuse.New(request.ReasonIGPUOnVM, "", "%s is no PCI function", cdi.GPUName(*g)).WithHint("Give it to a container.")
	}
	f := *g.PCI
	if err := d.behindIOMMU(f); err != nil {
		return err
	}
	group, err := members(d.r, f.IOMMUGroup)
	if err != nil {
		return err
	}
	along, err := d.company(c.ask.Name, f, group, all)
	if err != nil {
		return err
	}
	if err := d.free(*g); err != nil {
		return err
	}
	key := fmt.Sprint("group ", f.IOMMUGroup)
	window := d.window(group, all)
	for i, b := range append([]pci.BDF{f.BDF}, along...) {
		dev := Device{Name: c.ask.Name, BDF: b, Role: GPU, Group: f.IOMMUGroup}
		if i > 0 {
			dev.Role = Companion
		}
		if _, ok := d.ports[key]; !ok {
			dev.Window = window
		}
		if err := d.add(key, dev); err != nil {
			return err
		}
		if err := d.take(b); err != nil {
			return err
		}
	}
	return d.remarks(c.ask.Name, *g)
}

// behindIOMMU refuses a function whose memory accesses nothing keeps inside the
// machine: without an IOMMU, or in a group that VFIO made up for want of one
// (enable_unsafe_noiommu_mode).
func (d *making) behindIOMMU(f host.PCIFunction) error {
	const hint = "Turn the IOMMU on: VT-d or AMD-Vi in the firmware, and intel_iommu=on on the kernel's command line where it is Intel's."
	if f.IOMMUGroup < 0 {
		return refuse.New(ReasonNoIOMMU, "", "%s is in no IOMMU group", f.BDF).WithHint(hint)
	}
	name, _, err := attribute(d.r, groups+strconv.Itoa(f.IOMMUGroup)+"/name")
	if err == nil && name == "vfio-noiommu" {
		err = refuse.New(ReasonNoIOMMU, "", "the group of %s is VFIO's own and has no IOMMU behind it", f.BDF).WithHint(hint)
	}
	return err
}

// company returns the functions of f's board that are in its group and go with it,
// and refuses a group that has what cannot go.
func (d *making) company(name string, f host.PCIFunction, group []member, all []choice) ([]pci.BDF, error) {
	var along []pci.BDF
	var refusals []*refuse.Error
	for _, o := range group {
		// Of two GPUs of one group, each takes its own board along.
		i := slices.IndexFunc(all, func(c choice) bool { return c.carries(o) })
		switch {
		case o.bdf == f.BDF, o.bridge(), asked(all, o.bdf):
		case d.isGPU(o.bdf):
			refusals = append(refusals, refuse.New(ReasonGroupShared, "", "IOMMU group %d has another GPU, %s, and a group goes as a whole: %s", f.IOMMUGroup, o.bdf, some(group)).
				WithHint("Ask for each GPU of the group, or move one of them to a slot with a group of its own."))
		case i >= 0 && all[i].ask.Name != name: // goes with that one
		case i >= 0:
			along = append(along, o.bdf)
			d.note(name, ReasonGoesAlong, "%s is in the GPU's IOMMU group and goes with it.", o)
		case o.driver == "" || IsDriver(o.driver):
			d.note(name, ReasonStaysUnder, "%s is in the GPU's IOMMU group, has no driver of the host, and stays as it is.", o)
		case slices.ContainsFunc(d.m.GPUs, func(g host.GPU) bool {
			return onBoard(g, o.bdf) && g.PCI.IOMMUGroup == f.IOMMUGroup && g.PCI.BDF != f.BDF
		}):
			// refused with the GPU that it is beside
		default:
			refusals = append(refusals, refuse.New(ReasonGroupForeign, "", "IOMMU group %d has %s, which the host uses, and a group goes as a whole: %s", f.IOMMUGroup, o, some(group)).
				WithHint("Move the GPU to a slot with a group of its own, or take the driver from %s if the host can do without it.", o.bdf))
		}
	}
	return along, refuse.Join(refusals...)
}

// some lists the members of a group, at most ten.
func some(group []member) string {
	var out []string
	for i, f := range group {
		if i == 10 {
			out = append(out, "…")
			break
		}
		out = append(out, f.String())
	}
	return strings.Join(out, ", ")
}

// asked reports whether a device of the machine is the GPU at b, whole.
func asked(all []choice, b pci.BDF) bool {
	return slices.ContainsFunc(all, func(c choice) bool {
		return c.whole() && len(c.gpus) == 1 && c.gpus[0].PCI != nil && c.gpus[0].PCI.BDF == b
	})
}

// carries reports whether o is a function of the board of a whole GPU that goes with
// it. Storage and network of the host never do.
func (c choice) carries(o member) bool {
	return c.whole() && len(c.gpus) == 1 && onBoard(*c.gpus[0], o.bdf) && o.class>>16 != 0x01 && o.class>>16 != 0x02
}

// onBoard reports whether b is a function of the GPU's board: in its slot.
func onBoard(g host.GPU, b pci.BDF) bool {
	if g.PCI == nil {
		return false
	}
	b.Function = g.PCI.BDF.Function
	return b == g.PCI.BDF
}

// isGPU reports whether b is a GPU or a virtual function of one: only those can be
// asked for, and whatever else is on a board goes along (sibling-audio-counted).
func (d *making) isGPU(b pci.BDF) bool {
	return slices.ContainsFunc(d.m.GPUs, func(g host.GPU) bool { return g.PCI != nil && g.PCI.BDF == b }) ||
		slices.ContainsFunc(d.m.VFs, func(v host.VF) bool { return v.BDF == b })
}

// function returns the model's function at b, nil if it has none.
func (d *making) function(b pci.BDF) *host.PCIFunction {
	for _, f := range d.m.Functions() {
		if f.BDF == b {
			return f
		}
	}
	return nil
}

// take plans that a VFIO driver gets the function at b, wherever it is now.
func (d *making) take(b pci.BDF) error {
	driver, _, err := driverOf(d.r, b)
	if err != nil || IsDriver(driver) {
		return err
	}
	was, err := overrideOf(d.r, b)
	if err != nil {
		return err
	}
	to, err := d.vfioDriver(b)
	if err != nil {
		return err
	}
	// By an override for another driver than the one that has it, which does not
	// count while it has it, it could not come back: it is without one meanwhile.
	if driver != "" && was != "" && was != driver {
		d.cleared = append(d.cleared, pair{step{kind: override, bdf: b}, step{kind: override, bdf: b, name: was}})
		was = ""
	}
	if driver != "" {
		d.released = append(d.released, pair{step{kind: unbind, bdf: b, name: driver}, step{kind: bind, bdf: b, name: driver}})
	}
	if was != to {
		d.marked = append(d.marked, pair{step{kind: override, bdf: b, name: to}, step{kind: override, bdf: b, name: was}})
	}
	d.taken = append(d.taken, pair{step{kind: probe, bdf: b}, step{kind: unbind, bdf: b, name: to}})
	return nil
}

// vfioDriver returns the VFIO driver that the function at b needs, which must be
// loaded.
func (d *making) vfioDriver(b pci.BDF) (string, error) {
	name := "vfio-pci"
	if f := d.function(b); f != nil && f.ID.Vendor == pci.NVIDIA && slices.Contains(grace, f.ID.Device) {
		name = "nvgrace-gpu-vfio-pci"
	}
	ok, err := host.Exists(d.r, busDrivers+name)
	if err != nil || ok {
		return name, err
	}
	return "", refuse.New(ReasonNotLoaded, "", "%s needs the driver %s, which is not loaded", b, name).WithHint("Load it with modprobe %s.", name)
}

// grace are the GPUs beside a Grace processor, whose memory vfio-pci alone does not
// pass (drivers/vfio/pci/nvgrace-gpu).
var grace = []uint16{0x2342, 0x2345, 0x2348, 0x2941, 0x31c2}

// free refuses a GPU whose driver would not let it go, or that gives the host more
// than itself.
func (d *making) free(g host.GPU) error {
	f := *g.PCI
	if f.SRIOV != nil && f.SRIOV.Num > 0 {
		return refuse.New(ReasonHasVFs, "", "%s has %d virtual functions on", f.BDF, f.SRIOV.Num).
			WithHint("Take them off when nothing uses them, for NVIDIA with /usr/lib/nvidia/sriov-manage -d %s, or ask with gputype=sriov or mdev.", f.BDF)
	}
	for _, v := range d.m.MDevs {
		if v.Parent == f.BDF {
			return refuse.New(ReasonHasVFs, "", "%s carries the mediated device %s", f.BDF, v.UUID).
				WithHint("Remove it when nothing uses it, with echo 1 > %s%s/remove, or ask with gputype=mdev.", mdevs, v.UUID)
		}
	}
	return d.idle(f, gpuNodes(g))
}

// idle refuses a function that a program has open by one of the nodes, or by those
// of its group.
func (d *making) idle(f host.PCIFunction, nodes []string) error {
	if d.opts.Busy == nil {
		return nil
	}
	if IsDriver(f.Driver) {
		nodes = append(nodes, groupNode(f.IOMMUGroup))
	}
	if f.VFIODev != "" {
		nodes = append(nodes, deviceNode(f.VFIODev))
	}
	var who []string
	for _, n := range nodes {
		for _, w := range d.opts.Busy(n) {
			if text := w + " has " + n; !slices.Contains(who, text) {
				who = append(who, text)
			}
		}
	}
	if len(who) == 0 {
		return nil
	}
	return refuse.New(ReasonInUse, "", "%s is in use: %s", f.BDF, strings.Join(who, ", ")).WithHint("End these programs first.")
}

// gpuNodes are the nodes by which programs of the host have a GPU open.
func gpuNodes(g host.GPU) []string {
	var out []string
	for _, n := range []struct {
		form   string
		number int
	}{{"/dev/nvidia%d", g.Minor}, {"/dev/dri/card%d", g.Card}, {"/dev/dri/renderD%d", g.Render}} {
		if n.number >= 0 {
			out = append(out, fmt.Sprintf(n.form, n.number))
		}
	}
	return out
}

// remarks notes what giving a GPU away does beside.
func (d *making) remarks(name string, g host.GPU) error {
	if g.MIG != nil {
		d.note(name, ReasonMIGLost, "%s is in MIG mode: its %d GPU instances are gone when the machine has it, and do not come back with it.", g.PCI.BDF, len(g.MIG.Instances))
	}
	if d.opts.Busy == nil && g.PCI.Driver == "nvidia" && d.m.Userspace != nil && d.m.Userspace.Persist {
		d.note(name, ReasonPersist, "nvidia-persistenced may have %s open; while it does, taking the GPU from its driver waits. Free it with nvidia-smi -i %s -pm 0.", g.PCI.BDF, g.PCI.BDF)
	}
	first, _, err := number(d.r, at(g.PCI.BDF)+"/boot_vga")
	if first == 1 {
		d.note(name, ReasonConsole, "%s is the GPU that the firmware shows the host's console on: the screen goes dark, and a frame buffer of the firmware's that the kernel still holds (efifb, simplefb) keeps the machine from its memory.", g.PCI.BDF)
	}
	return err
}

// window returns how much prefetchable memory the port of a group must reserve: the
// sum of its functions' windows, rounded up to a power of two, as a bridge's are
// (large-bar).
func (d *making) window(group []member, all []choice) uint64 {
	var sum uint64
	for _, o := range group {
		if f := d.function(o.bdf); f != nil && !o.bridge() && slices.ContainsFunc(all, func(c choice) bool { return c.carries(o) }) {
			sum += prefetchable(f.BARs)
		}
	}
	return ceil(sum)
}

// prefetchable sums the windows of a function that are prefetchable memory; those of
// its virtual functions, from line 7 of the file on, are not its own.
func prefetchable(bars []host.BAR) uint64 {
	const prefetch = 0x2000 // IORESOURCE_PREFETCH
	var sum uint64
	for _, b := range bars {
		if b.Index < 6 && b.Flags&prefetch != 0 {
			sum += b.Size
		}
	}
	return sum
}

// ceil rounds up to a power of two; 0 stays.
func ceil(n uint64) uint64 {
	if n == 0 || n&(n-1) == 0 || n > 1<<63 {
		return n
	}
	return 1 << bits.Len64(n)
}
