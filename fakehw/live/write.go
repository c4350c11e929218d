package live

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// page is how much of one write an attribute gets to see (kernfs_fop_write_iter).
const page = 4096

// Write does what the kernel does when data is written to the file at path, an
// absolute path of the tree without links. It returns when the write has had its
// effect: zero, or the error number with which the write is refused, and then
// nothing has changed.
//
// As in the kernel it waits, and nobody can break it off, while a device that
// has to be let go is open: see Open. A file that is gone (its device was pulled
// out after somebody opened it) is ENODEV; what cannot be opened for writing is
// EACCES; configuration space and windows are EPERM, as on a kernel that is
// locked down, because there is no hardware behind them.
func (h *Host) Write(path string, data []byte) syscall.Errno {
	for {
		no, wait := h.try(path, data)
		if !wait {
			return no
		}
	}
}

// try writes once. If it has to wait, it waits, and wait says to try again.
func (h *Host) try(path string, data []byte) (no syscall.Errno, wait bool) {
	h.mu.Lock()
	news := h.news
	h.mu.Unlock()
	no, wait = h.writeNow(path, data)
	if wait {
		select {
		case <-news:
		case <-time.After(patience): // holders do not tell when they close
		}
	}
	return no, wait
}

// writeNow writes once, unless it would have to wait.
func (h *Host) writeNow(path string, data []byte) (no syscall.Errno, waits bool) {
	h.writing.Lock()
	defer h.writing.Unlock()
	w := &write{m: h.Sound(), mem: h.mem.clone(), h: h}
	no = w.store(path, data)
	if w.waiting {
		return 0, true
	}
	same := no != 0 || reflect.DeepEqual(w.m, h.model) && reflect.DeepEqual(w.mem, h.mem)
	if !same && h.become(w.m, w.mem) != nil {
		return syscall.EIO, false // no such host can be: it is refused
	}
	return no, false
}

// patience is how long a write that waits does so before it looks again.
const patience = 50 * time.Millisecond

// A write is one write while it is carried out.
type write struct {
	h       *Host
	m       host.Model // what becomes of the host
	mem     memory
	waiting bool // it has to wait until a node is closed
}

// inUse reports whether one of the nodes is open.
func (w *write) inUse(nodes ...string) bool {
	return slices.ContainsFunc(nodes, func(p string) bool { return w.h.held(p, 0) })
}

// wait has the write tried again when what inUse found may be closed.
func (w *write) wait() syscall.Errno {
	w.waiting = true
	return syscall.EBUSY
}

// store finds the attribute at p and what writing to it does.
func (w *write) store(p string, data []byte) syscall.Errno {
	w.h.mu.Lock()
	e, err := w.h.tree.Entry(p)
	w.h.mu.Unlock()
	switch {
	case err != nil:
		return syscall.ENODEV
	case e.Mode.IsDir():
		return syscall.EISDIR
	case !e.Mode.IsRegular():
		return syscall.EINVAL
	}
	f := w.attribute(path.Clean(p))
	switch {
	case e.Mode.Perm()&0o222 == 0, f == nil:
		return syscall.EACCES
	case len(data) == 0: // sysfs_kf_write
		return 0
	}
	if no := w.h.withoutDriver(path.Clean(p), text(data[:min(len(data), page)])); no != 0 {
		return no
	}
	return f(text(data[:min(len(data), page)]), len(data))
}

// A storeFunc is what an attribute does with the text that is written: the
// _store function of the kernel's DEVICE_ATTR. Size is that of the data.
type storeFunc func(s string, size int) syscall.Errno

// attribute returns what is behind a path that can be written to.
func (w *write) attribute(p string) storeFunc {
	dir, name := path.Dir(p), path.Base(p)
	switch dir {
	case "/sys/bus/pci":
		return map[string]storeFunc{"drivers_probe": w.driversProbe, "drivers_autoprobe": w.driversAutoprobe, "rescan": w.rescanBus}[name]
	case "/sys/bus/mdev":
		return nil
	}
	if bus, ok := strings.CutPrefix(path.Dir(dir), "/sys/bus/"); ok {
		return w.driverAttribute(strings.TrimSuffix(bus, "/drivers"), path.Base(dir), name)
	}
	if !strings.HasPrefix(dir, "/sys/devices/") {
		return nil
	}
	return w.deviceAttribute(dir, name)
}

func (w *write) driverAttribute(bus, driver, name string) storeFunc {
	with := func(f func(driver, s string) syscall.Errno) storeFunc {
		return func(s string, _ int) syscall.Errno { return f(driver, s) }
	}
	switch bus + " " + name {
	case "pci bind":
		return with(w.bindTo)
	case "pci unbind":
		return with(w.unbindFrom)
	case "pci new_id":
		return with(w.newID)
	case "pci remove_id":
		return with(w.removeID)
	case "mdev bind":
		return with(w.bindMDev)
	case "mdev unbind":
		return with(w.unbindMDev)
	case "pci uevent", "mdev uevent":
		return uevent
	}
	return nil
}

// deviceAttribute finds the device whose directory or folder of attributes dir
// is.
func (w *write) deviceAttribute(dir, name string) storeFunc {
	if f := w.at(path.Base(dir)); f != nil {
		return w.functionAttribute(f.BDF, name)
	}
	if isUUID(path.Base(dir)) {
		return w.mdevAttribute(path.Base(dir), name)
	}
	up := path.Dir(dir)
	if f := w.at(path.Base(up)); f != nil && path.Base(dir) == "nvidia" {
		return w.vgpuAttribute(f.BDF, name)
	}
	if f := w.at(path.Base(path.Dir(up))); f != nil && path.Base(up) == "mdev_supported_types" && name == "create" {
		return func(s string, size int) syscall.Errno { return w.createMDev(f.BDF, path.Base(dir), s, size) }
	}
	return nil
}

func (w *write) functionAttribute(a pci.BDF, name string) storeFunc {
	with := func(f func(a pci.BDF, s string) syscall.Errno) storeFunc {
		return func(s string, _ int) syscall.Errno { return f(a, s) }
	}
	switch name {
	case "driver_override":
		return func(s string, size int) syscall.Errno { return w.override(a, s, size) }
	case "remove":
		return with(w.remove)
	case "rescan":
		return with(w.rescan)
	case "enable":
		return with(w.enable)
	case "reset":
		return with(w.reset)
	case "numa_node":
		return with(w.numaNode)
	case "sriov_numvfs":
		return with(w.numVFs)
	case "sriov_drivers_autoprobe":
		return with(w.vfAutoprobe)
	case "uevent":
		return uevent
	}
	if name == "config" || name == "rom" || strings.HasPrefix(name, "resource") {
		return func(string, int) syscall.Errno { return syscall.EPERM }
	}
	return nil
}

// at returns the function of this name.
func (w *write) at(name string) *host.PCIFunction {
	a, err := pci.ParseBDF(name)
	if err != nil || a.String() != name {
		return nil
	}
	return w.function(a)
}

// function returns the function at a, nil if there is none.
func (w *write) function(a pci.BDF) *host.PCIFunction {
	for _, f := range w.m.Functions() {
		if f.BDF == a {
			return f
		}
	}
	return nil
}

// named returns the function that a text written to a bus's attribute names
// (bus_find_device_by_name).
func (w *write) named(s string) *host.PCIFunction {
	for _, f := range w.m.Functions() {
		if sameName(s, f.BDF.String()) {
			return f
		}
	}
	return nil
}
