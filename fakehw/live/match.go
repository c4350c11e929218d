package live

import (
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
)

// A dynID is an entry that new_id made (struct pci_device_id).
type dynID struct {
	vendor, device, subVendor, subDevice uint32 // anyID: any
	class, mask                          uint32
}

const anyID = 1<<32 - 1

func idOf(f host.PCIFunction) dynID {
	return dynID{uint32(f.ID.Vendor), uint32(f.ID.Device), uint32(f.ID.SubVendor), uint32(f.ID.SubDevice), uint32(f.Class), 0}
}

// has is pci_match_one_device: f has an id's numbers, and its class.
func (id dynID) has(f dynID) bool {
	same := func(want, have uint32) bool { return want == anyID || want == have }
	return same(id.vendor, f.vendor) && same(id.device, f.device) && same(id.subVendor, f.subVendor) &&
		same(id.subDevice, f.subDevice) && (id.class^f.class)&id.mask == 0
}

// driversOf returns the PCI drivers that are registered, in the order in which
// they are asked. In the kernel that is the order of loading, which a model does
// not tell; by name, NVIDIA's comes before vfio-pci, as it does on a host that
// loads vfio-pci when somebody wants it.
func driversOf(m *host.Model) []string {
	out := fakehw.LoadedDrivers(m)
	for _, f := range m.Functions() {
		if f.Driver != "" {
			out = append(out, f.Driver)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// matches reports whether a driver wants a function: pci_match_device of
// drivers/pci/pci-driver.c. With an override only that driver does, and does
// whatever its tables say; ids of new_id count before the table.
func (w *write) matches(driver string, f host.PCIFunction) bool {
	if f.Override != "" {
		return f.Override == driver
	}
	return w.knows(driver, idOf(f)) || inTable(driver, f)
}

func (w *write) knows(driver string, f dynID) bool {
	return slices.ContainsFunc(w.mem.ids[driver], func(id dynID) bool { return id.has(f) })
}

// inTable reports whether the table that is compiled into a driver has f. The
// vfio drivers' entries count with an override alone (override_only).
func inTable(driver string, f host.PCIFunction) bool {
	nvidia, display := f.ID.Vendor == pci.NVIDIA, f.Class>>16 == 0x03
	switch driver {
	case "nvidia":
		return nvidia && (f.Class == pci.ClassVGA || f.Class == pci.Class3D)
	case "nouveau":
		return nvidia && display
	case "nvidia-nvswitch":
		return nvidia && f.Class == pci.ClassOther
	case "nvidia-gpu": // i2c-nvidia-gpu.c: the Type-C controller
		return nvidia && f.Class>>8 == 0x0c80
	case "snd_hda_intel":
		return f.Class == pci.ClassAudio
	case "xhci_hcd":
		return f.Class == 0x0c0330
	}
	p, ok := catalog.Of(f)
	return ok && p.Driver == driver
}

// probe says with what a driver refuses a function that it was given; zero: it
// takes it. A driver that matched by override or by new_id finds out here that
// it does not know the hardware.
func (w *write) probe(driver string, f host.PCIFunction) syscall.Errno {
	pf, virtual := w.physical(f.BDF)
	// pci_device_can_probe
	if virtual && f.Override == "" && pf != nil && pf.SRIOV != nil && pf.SRIOV.NoProbe {
		return syscall.ENODEV
	}
	if isVFIO(driver) {
		switch { // vfio_pci_core_register_device, vfio_group_find_or_alloc
		case f.SRIOV != nil && f.SRIOV.Num > 0:
			return syscall.EBUSY
		case f.IOMMUGroup < 0:
			return syscall.EINVAL
		}
		return 0
	}
	// iommu_device_use_default_domain: somebody has the group for himself.
	if f.IOMMUGroup >= 0 && w.inUse(groupNode(f.IOMMUGroup)) {
		return syscall.EBUSY
	}
	switch driver {
	case "nvidia":
		// nv_pci_probe answers -1 for what it does not support, and for virtual
		// functions unless it is built for vGPU hosts.
		if _, ok := catalog.Of(f); !ok || !inTable(driver, f) || virtual && w.m.Driver.VGPU == "" {
			return syscall.EPERM
		}
	default:
		if !inTable(driver, f) {
			return syscall.ENODEV
		}
	}
	return 0
}

func isVFIO(driver string) bool { return strings.HasSuffix(driver, "vfio-pci") }

// bind has a driver probe the function at a, which has none.
func (w *write) bind(a pci.BDF, driver string) syscall.Errno {
	f := w.function(a)
	if no := w.probe(driver, *f); no != 0 {
		return no
	}
	m, err := fakehw.Bound(w.m, a, driver, w.mem.before(&w.m, a))
	if err != nil {
		return syscall.ENODEV
	}
	w.m = m
	return 0
}

// attach gives the function at a to the first driver that wants and takes it,
// if it has none: device_attach of drivers/base/dd.c, which passes over drivers
// that fail.
func (w *write) attach(a pci.BDF) {
	f := w.function(a)
	if f == nil || f.Driver != "" {
		return
	}
	for _, driver := range driversOf(&w.m) {
		if w.matches(driver, *f) && w.bind(a, driver) == 0 {
			return
		}
	}
}

// unbind takes its driver away from the function at a. Both nvidia (which says
// "Attempting to remove device with non-zero usage count") and the vfio drivers
// (vfio_unregister_group_dev) wait until nobody has the device open.
func (w *write) unbind(a pci.BDF) syscall.Errno {
	if w.inUse(w.nodes(a)...) {
		return w.wait()
	}
	m, err := fakehw.Unbound(w.m, a)
	if err != nil {
		return syscall.ENODEV
	}
	w.m = m
	return 0
}
