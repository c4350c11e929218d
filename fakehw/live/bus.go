package live

import (
	"slices"
	"strings"
	"syscall"

	"gpurig/core/pci"
)

// The attributes of /sys/bus/pci and of the drivers below it, after
// drivers/base/bus.c and drivers/pci/pci-driver.c of Linux 5.14 and later.

// bindTo is bind_store: ENODEV for a function that is not there or that the
// driver does not want, EBUSY for one that has a driver, else what the driver's
// probe says.
func (w *write) bindTo(driver, s string) syscall.Errno {
	f := w.named(s)
	switch {
	case f == nil || !w.matches(driver, *f):
		return syscall.ENODEV
	case f.Driver != "":
		return syscall.EBUSY // __driver_probe_device
	}
	return w.bind(f.BDF, driver)
}

// unbindFrom is unbind_store: ENODEV unless this driver has the function.
func (w *write) unbindFrom(driver, s string) syscall.Errno {
	f := w.named(s)
	if f == nil || f.Driver != driver {
		return syscall.ENODEV
	}
	return w.unbind(f.BDF)
}

// driversProbe is drivers_probe_store: ENODEV for a function that is not there.
// That no driver takes it is no error, nor that it has one already.
func (w *write) driversProbe(s string, _ int) syscall.Errno {
	f := w.named(s)
	if f == nil {
		return syscall.ENODEV
	}
	w.attach(f.BDF)
	return 0
}

// driversAutoprobe is drivers_autoprobe_store: "0…" is off, all else is on. It
// counts when a driver is loaded (bus_add_driver), not for functions that are
// plugged in (pci_bus_add_device).
func (w *write) driversAutoprobe(s string, _ int) syscall.Errno {
	w.m.NoProbe = strings.HasPrefix(s, "0")
	return 0
}

// newID is new_id_store: EINVAL for fewer than two numbers or for data that no
// entry of the driver's table has, EEXIST for numbers that match already. The
// driver then takes what it can get (pci_add_dynid).
func (w *write) newID(driver, s string) syscall.Errno {
	n := scanHex(s, 7)
	if len(n) < 2 {
		return syscall.EINVAL
	}
	at := func(i int, otherwise uint32) uint32 {
		if i < len(n) {
			return uint32(n[i])
		}
		return otherwise
	}
	id := dynID{at(0, 0), at(1, 0), at(2, anyID), at(3, anyID), at(4, 0), at(5, 0)}
	// It looks for a device with just these numbers, of 16 bits.
	like := dynID{id.vendor & 0xffff, id.device & 0xffff, id.subVendor & 0xffff, id.subDevice & 0xffff, id.class, 0}
	if len(n) != 7 && w.knows(driver, like) {
		return syscall.EEXIST
	}
	if len(n) == 7 && n[6] != 0 { // the tables of the drivers here have none
		return syscall.EINVAL
	}
	w.mem.ids[driver] = append(w.mem.ids[driver], id)
	for _, f := range w.m.Functions() {
		if f.Driver == "" && w.matches(driver, *f) {
			_ = w.bind(f.BDF, driver) // __driver_attach passes over what fails
		}
	}
	return 0
}

// removeID is remove_id_store: EINVAL for fewer than two numbers, ENODEV for an
// id that new_id has not made. What the driver holds it keeps.
func (w *write) removeID(driver, s string) syscall.Errno {
	n := scanHex(s, 6)
	if len(n) < 2 {
		return syscall.EINVAL
	}
	want := dynID{uint32(n[0]), uint32(n[1]), anyID, anyID, 0, 0}
	for i, to := range []*uint32{&want.subVendor, &want.subDevice, &want.class, &want.mask} {
		if i+2 < len(n) {
			*to = uint32(n[i+2])
		}
	}
	i := slices.IndexFunc(w.mem.ids[driver], func(id dynID) bool {
		return id.vendor == want.vendor && id.device == want.device && (want.subVendor == anyID || id.subVendor == want.subVendor) &&
			(want.subDevice == anyID || id.subDevice == want.subDevice) && (id.class^want.class)&want.mask == 0
	})
	if i < 0 {
		return syscall.ENODEV
	}
	w.mem.ids[driver] = slices.Delete(w.mem.ids[driver], i, i+1)
	if len(w.mem.ids[driver]) == 0 {
		delete(w.mem.ids, driver)
	}
	return 0
}

// uevent is uevent_store, which sends an event: EINVAL for what is no action
// (kobject_action_type). A UUID and variables may follow, and are not looked at.
func uevent(s string, _ int) syscall.Errno {
	action, _, _ := strings.Cut(strings.TrimSuffix(s, "\n"), " ")
	if !slices.Contains([]string{"add", "remove", "change", "move", "online", "offline", "bind", "unbind"}, action) {
		return syscall.EINVAL
	}
	return 0
}

// physical returns whose virtual function the one at a is; virtual says that it
// is one.
func (w *write) physical(a pci.BDF) (pf *function, virtual bool) {
	for _, v := range w.m.VFs {
		if v.BDF == a {
			return w.function(v.PF), true
		}
	}
	return nil, false
}
