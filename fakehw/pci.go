package fakehw

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/big"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// A function is a PCI function with what the machine gave it.
type function struct {
	host.PCIFunction
	bdf         string
	dir         string // below /sys/devices
	irq         int
	resources   [17][3]uint64 // start, end, flags by line; from bridgeWindow on, what a port lets through
	port        int           // which kind of port it is; 0: none
	secondary   uint32        // the bus behind it
	subordinate uint8         // the last one
	gen         int           // of PCIe, of the chassis's own; 0: as the catalogue has it
	linkless    bool          // it is a part of the processor
	multi       bool          // other functions share its slot
	physfn      *function     // of a virtual function
	virtual     [6][3]uint64  // the first virtual function's windows, by index
	gone        bool          // it was pulled out
}

// Windows are handed out from these addresses up, aligned to their size.
const (
	base32 = 0x9000_0000
	base64 = 0x2000_0000_0000
	baseIO = 0x2000
)

// collect gathers all functions and gives each its place, addresses and interrupt.
func (b *builder) collect(gone []host.PCIFunction) {
	add := func(f host.PCIFunction) {
		x := &function{PCIFunction: f, bdf: f.BDF.String()}
		if b.functions[x.bdf] != nil {
			b.do(fmt.Errorf("two PCI functions at %s", x.bdf))
		}
		b.functions[x.bdf] = x
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
	places := slices.Clone(b.all)
	for _, f := range gone {
		if b.functions[f.BDF.String()] == nil {
			places = append(places, &function{PCIFunction: f, bdf: f.BDF.String(), gone: true})
		}
	}
	slices.SortFunc(places, func(x, y *function) int { return x.BDF.Compare(y.BDF) })
	at := windows{base32, base64, baseIO}
	n := 0
	for _, f := range places {
		f.multi = slices.ContainsFunc(places, func(o *function) bool { return o != f && sameSlot(o.BDF, f.BDF) })
		if f.physfn != nil {
			continue
		}
		if n++; f.Driver != "" {
			f.irq = 28 + 4*n
		}
		b.assign(f, &at)
	}
	collectVirtual(places, &at)
	b.around = b.surround(places, at)
	for _, f := range places {
		if f.physfn == nil {
			f.dir = b.around.dirs[busOf(f.BDF)] + "/" + f.bdf
		}
	}
	for _, f := range places {
		if f.physfn != nil {
			f.dir = path.Dir(f.physfn.dir) + "/" + f.bdf
		}
	}
}

// assign gives a function its windows, the largest first, which leaves no gaps.
func (b *builder) assign(f *function, at *windows) {
	bars := slices.Clone(f.BARs)
	slices.SortStableFunc(bars, func(x, y host.BAR) int { return cmp.Compare(y.Size, x.Size) })
	for _, bar := range bars {
		if bar.Index < 0 || bar.Index >= bridgeWindow || bar.Size == 0 {
			b.do(fmt.Errorf("PCI function %s: window %d of %d bytes cannot be", f.bdf, bar.Index, bar.Size))
			continue
		}
		f.resources[bar.Index] = at.take(bar, 1)
	}
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

// bridgeWindow is the first line of "resource" that is a port's: what of I/O, memory and
// prefetchable memory it lets through (PCI_BRIDGE_RESOURCES, include/linux/pci.h).
const bridgeWindow = 13

// Bits of resource flags (include/linux/ioport.h).
const (
	flagIO   = 0x100
	flagPref = 0x2000
	flag64   = 0x100000
)

// pci makes the functions, the bus and its drivers.
func (b *builder) pci() {
	for _, d := range []string{"/sys/bus/pci/devices", "/sys/bus/pci/drivers", "/sys/devices"} {
		b.dir(d)
	}
	b.write("/sys/bus/pci", "drivers_probe", "rescan")
	b.file("/sys/bus/pci/drivers_autoprobe", map[bool]string{false: "1\n", true: "0\n"}[b.m.NoProbe], 0o644)
	for _, f := range b.all {
		if f.physfn != nil {
			b.fixture(f) // others' are in what is around
		}
		b.function(f)
	}
	for _, name := range LoadedDrivers(b.m) {
		b.registered("pci", name)
	}
}

// function makes the attributes that follow what is done with a function.
func (b *builder) function(f *function) {
	d := f.dir
	b.file(d+"/uevent", f.uevent(), 0o644)
	b.data(d+"/config", f.config(), 0o644)
	b.file(d+"/numa_node", strconv.Itoa(f.NUMANode)+"\n", 0o644)
	b.attr(d+"/irq", strconv.Itoa(f.irq)+"\n")
	// vfio-pci enables a function when somebody opens it.
	bound := f.Driver != "" && !isVFIO(f.Driver)
	b.file(d+"/enable", map[bool]string{true: "1\n", false: "0\n"}[bound], 0o644)
	b.file(d+"/driver_override", orElse(f.Override, "(null)")+"\n", 0o644)
	if bound && f.irq > 0 {
		b.file(d+"/msi_irqs/"+strconv.Itoa(f.irq), "msi\n", 0o444)
	}
	if f.Driver != "" {
		b.driver("pci", f.Driver, f.bdf, d)
	}
}

// fixture makes what of a function stays as it is whoever drives it.
func (b *builder) fixture(f *function) {
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
	near := b.around.near(f.NUMANode)
	b.attr(d+"/local_cpulist", near.list)
	b.attr(d+"/local_cpus", near.mask)
	b.file(d+"/remove", "", 0o220) // the only one with the group, in pci-sysfs.c
	b.write(d, "rescan", "reset")
	b.file(d+"/reset_method", "flr bus\n", 0o644)
	b.file(d+"/broken_parity_status", "0\n", 0o644)
	b.file(d+"/msi_bus", "1\n", 0o644)
	b.file(d+"/d3cold_allowed", "1\n", 0o644)
	b.attr(d+"/ari_enabled", "0\n")
	p, _ := catalog.Of(f.PCIFunction)
	b.attr(d+"/consistent_dma_mask_bits", strconv.Itoa(cmp.Or(p.DMABits, 64))+"\n")
	b.attr(d+"/dma_mask_bits", strconv.Itoa(cmp.Or(p.DMABits, 64))+"\n")
	b.attr(d+"/power_state", "D0\n")
	b.power(d, "on")
	if !f.linkless {
		now, most := f.linkGenerations()
		b.attr(d+"/max_link_speed", linkSpeed(most)+"\n")
		b.attr(d+"/current_link_speed", linkSpeed(now)+"\n")
		b.attr(d+"/max_link_width", "16\n")
		b.attr(d+"/current_link_width", "16\n")
	}
	if f.Class == pci.ClassVGA {
		b.attr(d+"/boot_vga", map[bool]string{true: "1\n", false: "0\n"}[b.around.firstVGA == f.BDF])
	}
}

// power makes the attributes of a device's runtime power management
// (Documentation/ABI/testing/sysfs-devices-power).
func (b *builder) power(dir, control string) {
	status := map[string]string{"on": "active", "auto": "suspended"}[control]
	b.file(dir+"/power/control", control+"\n", 0o644)
	b.attr(dir+"/power/runtime_status", status+"\n")
	b.attr(dir+"/power/runtime_enabled", "forbidden\n")
	for _, name := range []string{"runtime_active_time", "runtime_suspended_time", "runtime_usage"} {
		b.attr(dir+"/power/"+name, "0\n")
	}
	b.file(dir+"/power/wakeup", "disabled\n", 0o644)
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
func (f *function) linkGenerations() (now, most int) {
	if f.gen > 0 {
		return f.gen, f.gen
	}
	if p, ok := catalog.Of(f.PCIFunction); ok {
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
	lines := bridgeWindow
	if f.port != 0 {
		lines = len(f.resources)
	}
	for _, r := range f.resources[:lines] {
		if r == [3]uint64{} { // most of them
			s.WriteString(noResource)
			continue
		}
		fmt.Fprintf(&s, "0x%016x 0x%016x 0x%016x\n", r[0], r[1], r[2])
	}
	return s.String()
}

// iommu makes the groups, in which the units of what is around translate.
func (b *builder) iommu() {
	if b.m.IOMMU {
		for _, f := range b.all {
			b.group(f)
		}
	}
}

func (b *builder) group(f *function) {
	if f.IOMMUGroup < 0 {
		return
	}
	group := "/sys/kernel/iommu_groups/" + strconv.Itoa(f.IOMMUGroup)
	unit := b.around.unit(f)
	b.link(f.dir+"/iommu_group", group)
	b.link(f.dir+"/iommu", unit)
	b.link(unit+"/devices/"+f.bdf, f.dir)
	b.link(group+"/devices/"+f.bdf, f.dir)
	b.file(group+"/type", "DMA-FQ\n", 0o644)
	b.attr(group+"/reserved_regions", "0x00000000fee00000 0x00000000feefffff msi\n")
}
