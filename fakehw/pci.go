package fakehw

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// A function is a PCI function with what the machine gave it.
type function struct {
	host.PCIFunction
	bdf       string
	dir       string // below /sys/devices
	irq       int
	resources [13][3]uint64 // start, end, flags by line
	multi     bool          // other functions share its slot
	physfn    *function     // of a virtual function
	virtual   [6][3]uint64  // the first virtual function's windows, by index
}

// Windows are handed out from these addresses up, aligned to their size.
const (
	base32 = 0x9000_0000
	base64 = 0x2000_0000_0000
	baseIO = 0x2000
)

// collect gathers all functions and gives each its addresses and interrupt.
func (b *builder) collect(gone []host.PCIFunction) {
	add := func(f host.PCIFunction) {
		bdf := f.BDF.String()
		x := &function{PCIFunction: f, bdf: bdf, dir: b.bridge(f.BDF) + "/" + bdf}
		if b.functions[bdf] != nil {
			b.do(fmt.Errorf("two PCI functions at %s", bdf))
		}
		b.functions[bdf] = x
		b.all = append(b.all, x)
	}
	for _, g := range b.m.GPUs {
		if g.PCI != nil {
			add(*g.PCI)
		}
	}
	for _, f := range b.m.NVSwitches {
		add(f)
	}
	for _, f := range b.m.Companions {
		add(f)
	}
	for _, v := range b.m.VFs {
		add(v.PCIFunction)
		b.all[len(b.all)-1].physfn = b.functions[v.PF.String()]
	}
	slices.SortFunc(b.all, func(x, y *function) int { return x.BDF.Compare(y.BDF) })
	at := windows{base32, base64, baseIO}
	places := slices.Clone(b.all)
	for _, f := range gone {
		if b.functions[f.BDF.String()] == nil {
			places = append(places, &function{PCIFunction: f, bdf: f.BDF.String()})
		}
	}
	slices.SortFunc(places, func(x, y *function) int { return x.BDF.Compare(y.BDF) })
	n := 0
	for _, f := range places {
		f.multi = slices.ContainsFunc(places, func(o *function) bool { return o != f && sameSlot(o.BDF, f.BDF) })
		if f.physfn != nil {
			continue
		}
		if n++; f.Driver != "" {
			f.irq = 28 + 4*n
		}
		// The largest window first leaves no gaps.
		bars := slices.Clone(f.BARs)
		slices.SortStableFunc(bars, func(x, y host.BAR) int { return cmp.Compare(y.Size, x.Size) })
		for _, bar := range bars {
			if bar.Index < 0 || bar.Index >= len(f.resources) || bar.Size == 0 {
				b.do(fmt.Errorf("PCI function %s: window %d of %d bytes cannot be", f.bdf, bar.Index, bar.Size))
				continue
			}
			f.resources[bar.Index] = at.take(bar, 1)
		}
	}
	collectVirtual(places, &at)
}

// collectVirtual sets room aside for the virtual functions that there can be, as
// the kernel does, so that making them moves nobody's windows; the windows of one
// index lie side by side (PCI Express Base Specification, VF BARs). A virtual
// function has no interrupt but by messages.
func collectVirtual(places []*function, at *windows) {
	for _, f := range places {
		if f.SRIOV == nil {
			continue
		}
		mine := slices.DeleteFunc(slices.Clone(places), func(v *function) bool { return v.physfn != f })
		bars := vfWindows(f.BARs)
		if len(mine) > 0 {
			bars = mine[0].BARs // a recording has its own
		}
		for _, bar := range bars {
			if bar.Index < len(f.virtual) && bar.Size > 0 {
				f.virtual[bar.Index] = at.take(bar, f.SRIOV.Total)
			}
		}
		for _, v := range mine {
			k := RoutingID(v.BDF) - RoutingID(f.BDF) - f.SRIOV.Offset
			if f.SRIOV.Stride > 0 {
				k /= f.SRIOV.Stride
			}
			for i, first := range f.virtual {
				if first[2] != 0 {
					move := uint64(k) * (first[1] - first[0] + 1)
					v.resources[i] = [3]uint64{first[0] + move, first[1] + move, first[2]}
				}
			}
		}
	}
}

// windows hands out addresses.
type windows struct{ at32, at64, atIO uint64 }

// take returns the first of n windows side by side.
func (w *windows) take(bar host.BAR, n int) [3]uint64 {
	next := &w.at32
	switch {
	case bar.Flags&flagIO != 0:
		next = &w.atIO
	case bar.Flags&flag64 != 0:
		next = &w.at64
	}
	start := (*next + bar.Size - 1) / bar.Size * bar.Size
	*next = start + uint64(n)*bar.Size
	return [3]uint64{start, start + bar.Size - 1, bar.Flags}
}

// Bits of resource flags (include/linux/ioport.h).
const (
	flagIO   = 0x100
	flagPref = 0x2000
	flag64   = 0x100000
)

// bridge returns the directory of the host bridge that a function hangs under.
// On a Tegra it is a platform device; its address on Orin is unverified.
func (b *builder) bridge(a pci.BDF) string {
	root := fmt.Sprintf("pci%04x:%02x", a.Domain, a.Bus)
	switch {
	case b.m.Tegra == nil:
		return "/sys/devices/" + root
	case b.m.Tegra.Chip == "tegra264":
		return "/sys/devices/platform/bus@0/d0b0000000.pcie/" + root
	}
	return "/sys/devices/platform/bus@0/141a0000.pcie/" + root
}

// pci makes the functions, the bus and its drivers.
func (b *builder) pci() {
	for _, d := range []string{"/sys/bus/pci/devices", "/sys/bus/pci/drivers", "/sys/devices"} {
		b.dir(d)
	}
	b.write("/sys/bus/pci", "drivers_probe", "rescan")
	b.file("/sys/bus/pci/drivers_autoprobe", map[bool]string{false: "1\n", true: "0\n"}[b.m.NoProbe], 0o644)
	for _, f := range b.all {
		b.function(f)
	}
	for _, name := range LoadedDrivers(b.m) {
		b.registered("pci", name)
	}
}

func (b *builder) function(f *function) {
	d := f.dir
	b.link("/sys/bus/pci/devices/"+f.bdf, d)
	b.link(d+"/subsystem", "/sys/bus/pci")
	hex := func(name string, v uint16) { b.attr(d+"/"+name, fmt.Sprintf("0x%04x\n", v)) }
	hex("vendor", f.ID.Vendor)
	hex("device", f.ID.Device)
	hex("subsystem_vendor", f.ID.SubVendor)
	hex("subsystem_device", f.ID.SubDevice)
	b.attr(d+"/class", f.Class.String()+"\n")
	b.attr(d+"/revision", fmt.Sprintf("0x%02x\n", f.Revision))
	b.attr(d+"/modalias", f.modalias()+"\n")
	b.file(d+"/uevent", f.uevent(), 0o644)
	b.attr(d+"/resource", f.resourceText())
	for i, r := range f.resources[:6] {
		if r[2] != 0 {
			b.window(fmt.Sprintf("%s/resource%d", d, i), r, 0o600)
			if r[2]&flagPref != 0 {
				b.window(fmt.Sprintf("%s/resource%d_wc", d, i), r, 0o600)
			}
		}
	}
	if r := f.resources[6]; r[2] != 0 {
		b.window(d+"/rom", r, 0o600)
	}
	b.data(d+"/config", f.config(), 0o644)
	b.file(d+"/numa_node", fmt.Sprintf("%d\n", f.NUMANode), 0o644)
	cpus := catalog.ProcessorsOf(b.m.GPUs)
	b.attr(d+"/local_cpulist", cpus.List(max(f.NUMANode, 0))+"\n")
	b.attr(d+"/local_cpus", cpuMask(cpus.Mask(max(f.NUMANode, 0)))+"\n")
	b.attr(d+"/irq", fmt.Sprintf("%d\n", f.irq))
	// vfio-pci enables a function when somebody opens it.
	b.file(d+"/enable", map[bool]string{true: "1\n", false: "0\n"}[f.Driver != "" && !isVFIO(f.Driver)], 0o644)
	b.file(d+"/driver_override", orElse(f.Override, "(null)")+"\n", 0o644)
	b.file(d+"/remove", "", 0o220) // the only one with the group, in pci-sysfs.c
	b.write(d, "rescan", "reset")
	b.attr(d+"/power_state", "D0\n")
	now, most := linkGenerations(f.PCIFunction)
	b.attr(d+"/max_link_speed", linkSpeed(most)+"\n")
	b.attr(d+"/current_link_speed", linkSpeed(now)+"\n")
	b.attr(d+"/max_link_width", "16\n")
	b.attr(d+"/current_link_width", "16\n")
	if f.Class == pci.ClassVGA {
		b.attr(d+"/boot_vga", map[bool]string{true: "1\n", false: "0\n"}[b.firstVGA() == f])
	}
	if f.Driver != "" {
		b.driver("pci", f.Driver, f.bdf, d)
	}
}

// cpuMask prints a bitmap as the kernel does: words of 32 bits, the highest first.
func cpuMask(mask *big.Int) string {
	word := new(big.Int)
	out := ""
	for i := 0; i == 0 || mask.Sign() > 0; i++ {
		word.And(mask, big.NewInt(0xffffffff))
		mask.Rsh(mask, 32)
		if out != "" {
			out = "," + out
		}
		out = fmt.Sprintf("%08x", word) + out
	}
	return out
}

// linkGenerations are those of PCIe on a function's link: at rest, and the highest.
func linkGenerations(f host.PCIFunction) (now, most int) {
	if p, ok := catalog.Of(f); ok {
		if s, ok := p.Readings(); ok {
			if s.PState >= 8 {
				return 1, s.Link
			}
			return s.Link, s.Link
		}
	}
	return 4, 4
}

// linkSpeed names a generation of PCIe as sysfs does.
func linkSpeed(generation int) string {
	return []string{"Unknown", "2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"}[generation]
}

func (b *builder) firstVGA() *function {
	for _, f := range b.all {
		if f.Class == pci.ClassVGA {
			return f
		}
	}
	return nil
}

// driver binds the device in dir to a driver of a bus.
func (b *builder) driver(bus, name, device, dir string) {
	at := b.registered(bus, name)
	b.link(at+"/"+device, dir)
	b.link(dir+"/driver", at)
}

// registered makes the folder of a driver of a bus.
func (b *builder) registered(bus, name string) string {
	at := "/sys/bus/" + bus + "/drivers/" + name
	if _, err := b.t.Lstat(at + "/uevent"); err == nil {
		return at
	}
	b.write(at, "bind", "unbind", "uevent")
	if bus == "pci" {
		b.write(at, "new_id", "remove_id")
	}
	if module := moduleOf(name); module != "" {
		b.link(at+"/module", "/sys/module/"+module)
		b.link("/sys/module/"+module+"/drivers/"+bus+":"+name, at)
	}
	return at
}

// LoadedDrivers returns the PCI drivers that are loaded whether or not they hold
// a function, sorted: those that the model names, and those of NVIDIA's module.
func LoadedDrivers(m *host.Model) []string {
	out := slices.Clone(m.Drivers)
	if hasModule(m, "nvidia") {
		out = append(out, "nvidia")
		if len(m.NVSwitches) > 0 {
			out = append(out, "nvidia-nvswitch")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// window makes the file through which a window is mapped: it has the window's
// size and no content of its own.
func (b *builder) window(p string, r [3]uint64, perm fs.FileMode) {
	b.file(p, "", perm)
	if b.err == nil {
		e, err := b.t.Entry(p)
		b.do(err)
		if err == nil {
			e.Size = int64(r[1] - r[0] + 1)
		}
	}
}

// moduleOf returns the module that a driver is in; empty for built-in ones.
func moduleOf(driver string) string {
	switch driver {
	case "nvidia-nvswitch":
		return "nvidia"
	case "gk20a":
		return "nvgpu"
	case "nvidia-gpu":
		return "i2c_nvidia_gpu"
	case "pcieport", "xhci_hcd", "tegra-host1x", "tegra-display":
		return ""
	}
	return strings.ReplaceAll(driver, "-", "_")
}

// modalias as in file2alias.c: every number at full width, in upper case.
func (f *function) modalias() string {
	c := uint32(f.Class)
	return fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X",
		f.ID.Vendor, f.ID.Device, f.ID.SubVendor, f.ID.SubDevice, c>>16&0xff, c>>8&0xff, c&0xff)
}

func (f *function) uevent() string {
	var s strings.Builder
	if f.Driver != "" {
		fmt.Fprintf(&s, "DRIVER=%s\n", f.Driver)
	}
	fmt.Fprintf(&s, "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n",
		uint32(f.Class), f.ID.Vendor, f.ID.Device, f.ID.SubVendor, f.ID.SubDevice, f.bdf, f.modalias())
	return s.String()
}

const noResource = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"

func (f *function) resourceText() string {
	var s strings.Builder
	s.Grow(len(f.resources) * len(noResource))
	for _, r := range f.resources {
		if r == [3]uint64{} { // most of them
			s.WriteString(noResource)
			continue
		}
		fmt.Fprintf(&s, "0x%016x 0x%016x 0x%016x\n", r[0], r[1], r[2])
	}
	return s.String()
}

// iommu makes the groups and the units that translate for them.
func (b *builder) iommu() {
	if !b.m.IOMMU {
		return
	}
	unit := "dmar0"
	switch {
	case b.m.Arch == "aarch64":
		unit = "smmu3.0x0000000005000000"
	case strings.Contains(b.m.Cmdline, "amd_iommu="):
		unit = "ivhd0"
	}
	b.link("/sys/class/iommu/"+unit, "/sys/devices/virtual/iommu/"+unit)
	b.dir("/sys/devices/virtual/iommu/" + unit + "/devices")
	b.dir("/sys/kernel/iommu_groups")
	for _, f := range b.all {
		if f.IOMMUGroup < 0 {
			continue
		}
		group := fmt.Sprintf("/sys/kernel/iommu_groups/%d", f.IOMMUGroup)
		b.link(f.dir+"/iommu_group", group)
		b.link(f.dir+"/iommu", "/sys/devices/virtual/iommu/"+unit)
		b.link("/sys/devices/virtual/iommu/"+unit+"/devices/"+f.bdf, f.dir)
		b.link(group+"/devices/"+f.bdf, f.dir)
		b.file(group+"/type", "DMA-FQ\n", 0o644)
		b.attr(group+"/reserved_regions", "0x00000000fee00000 0x00000000feefffff msi\n")
	}
}
