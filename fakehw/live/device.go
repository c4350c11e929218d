package live

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
)

// The attributes of PCI functions, after drivers/pci/pci-sysfs.c and
// driver_set_override of drivers/base/driver.c.

type function = host.PCIFunction

// override is driver_override_store: EINVAL for more than a page; a name up to
// the first newline; no name clears it. The name need not be a driver's. One that
// reads as if there were none, "(null)", is taken for none.
func (w *write) override(a pci.BDF, s string, size int) syscall.Errno {
	if size >= page-1 {
		return syscall.EINVAL
	}
	name, _, _ := strings.Cut(s, "\n")
	if name == "(null)" {
		name = ""
	}
	w.function(a).Override = name
	return 0
}

// remove is remove_store: EINVAL for what is no number, nothing happens for 0.
// What is removed comes back with a rescan, as it was when it was plugged in;
// virtual functions do not.
func (w *write) remove(a pci.BDF, s string) syscall.Errno {
	if n, err := kstrtoul(s, 1<<64-1); err != nil {
		return syscall.EINVAL
	} else if n == 0 {
		return 0
	}
	if w.inUse(w.nodes(a)...) {
		return w.wait()
	}
	f := *w.function(a)
	if _, virtual := w.physical(a); !virtual {
		w.mem.gone = append(w.mem.gone, f)
		slices.SortFunc(w.mem.gone, func(x, y function) int { return x.BDF.Compare(y.BDF) })
	}
	m, err := fakehw.WithoutFunctions(w.m, func(b pci.BDF) bool { return a == b })
	if err != nil {
		return syscall.ENODEV
	}
	w.m = m
	for b := range w.mem.enabled {
		if w.function(b) == nil {
			delete(w.mem.enabled, b)
		}
	}
	return 0
}

// rescanBus is rescan_store of the bus: it finds everything again.
func (w *write) rescanBus(s string, _ int) syscall.Errno {
	return w.find(s, func(pci.BDF) bool { return true })
}

// rescan is dev_rescan_store: it finds what is on the function's bus.
func (w *write) rescan(a pci.BDF, s string) syscall.Errno {
	return w.find(s, func(b pci.BDF) bool { return a.Domain == b.Domain && a.Bus == b.Bus })
}

// find is pci_rescan_bus: functions appear, and drivers get them whatever
// drivers_autoprobe says.
func (w *write) find(s string, here func(pci.BDF) bool) syscall.Errno {
	if n, err := kstrtoul(s, 1<<64-1); err != nil {
		return syscall.EINVAL
	} else if n == 0 {
		return 0
	}
	var found []pci.BDF
	for _, f := range w.mem.gone {
		if !here(f.BDF) {
			continue
		}
		m, err := fakehw.WithFunction(w.m, f)
		if err != nil {
			return syscall.EIO // cannot be: gone has nothing that is there
		}
		w.m = m
		found = append(found, f.BDF)
	}
	for _, a := range found {
		w.attach(a)
	}
	return 0
}

// enable is enable_store: EBUSY for a function that has a driver, EIO for one
// that is to be disabled and is not enabled. The kernel counts.
func (w *write) enable(a pci.BDF, s string) syscall.Errno {
	n, err := kstrtoul(s, 1<<64-1)
	switch {
	case err != nil:
		return syscall.EINVAL
	case w.function(a).Driver != "":
		return syscall.EBUSY
	case n != 0:
		w.mem.enabled[a]++
	case w.mem.enabled[a] == 0:
		return syscall.EIO
	default:
		if w.mem.enabled[a]--; w.mem.enabled[a] == 0 {
			delete(w.mem.enabled, a)
		}
	}
	return 0
}

// reset is reset_store: EINVAL for all but 1. A function that is reset looks as
// it did before.
func (w *write) reset(_ pci.BDF, s string) syscall.Errno {
	if n, err := kstrtoul(s, 1<<64-1); err != nil || n != 1 {
		return syscall.EINVAL
	}
	return 0
}

// numaNode is numa_node_store: EINVAL for a node that the machine has not. It has
// those that a function of it is on, and node 0.
func (w *write) numaNode(a pci.BDF, s string) syscall.Errno {
	n, err := kstrtoint(s)
	online := n == -1 || n == 0 || slices.ContainsFunc(w.m.Functions(), func(f *function) bool { return f.NUMANode == n })
	if err != nil || !online {
		return syscall.EINVAL
	}
	w.function(a).NUMANode = n
	return 0
}

// nodes returns the paths of the nodes by which the function at a, or what is
// made of it, is used.
func (w *write) nodes(a pci.BDF) []string {
	var out []string
	f := w.function(a)
	for _, g := range w.m.GPUs {
		if g.PCI != nil && g.PCI.BDF == a && g.Minor >= 0 {
			out = append(out, fmt.Sprintf("/dev/nvidia%d", g.Minor))
		}
	}
	held := f != nil && isVFIO(f.Driver)
	for _, v := range w.m.VFs {
		if v.PF == a {
			out = append(out, w.nodes(v.BDF)...)
		}
		held = held || v.BDF == a && v.VGPU != 0
	}
	if held {
		out = append(out, groupNode(f.IOMMUGroup))
	}
	if f != nil && f.VFIODev != "" {
		out = append(out, "/dev/vfio/devices/"+f.VFIODev)
	}
	for _, d := range w.m.MDevs {
		if d.Parent == a {
			out = append(out, groupNode(d.IOMMUGroup))
		}
	}
	return out
}

func groupNode(group int) string { return fmt.Sprintf("/dev/vfio/%d", group) }
