package live

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/tree"
)

// Faults returns what is broken on the host.
func (h *Host) Faults() fault.List {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.faults)
}

// Pinned is Faults with GPUs named by address, by which they are told whatever becomes
// of their numbers.
func (h *Host) Pinned() fault.List {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pinned)
}

// SetFaults makes the host have these faults and no others. They lie over it:
// whatever programs change goes on beneath, and comes to light as faults are
// healed. A fault names its GPU by the NVML index of the time when it was set, and
// holds to that board; while the board is out, it waits. The error is a
// *fault.Error, and changes nothing.
func (h *Host) SetFaults(faults fault.List) error {
	return h.ChangeFaults(func(fault.List) (fault.List, error) { return faults, nil })
}

// ChangeFaults is SetFaults with what f makes of the faults that there are.
func (h *Host) ChangeFaults(f func(fault.List) (fault.List, error)) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	faults, err := f(h.Faults())
	if err != nil {
		return err
	}
	m := h.Sound()
	if _, err := fault.Break(m, faults); err != nil {
		return err
	}
	h.mu.Lock()
	was, pinned := h.faults, h.pinned
	h.faults, h.pinned = faults, pin(faults, m, was, pinned)
	h.mu.Unlock()
	err = h.become(m, h.mem.clone())
	if err != nil {
		h.mu.Lock()
		h.faults, h.pinned = was, pinned
		h.mu.Unlock()
	}
	return err
}

// makeNodes ends the faults that say that nothing has asked for the nodes of a
// group, and tells everybody of all nodes in it.
func (h *Host) makeNodes(group string) error {
	faults := h.Faults()
	if made := faults.Made(group, h.Sound()); !slices.Equal(made, faults) {
		if err := h.ChangeFaults(func(now fault.List) (fault.List, error) { return now.Made(group, h.Sound()), nil }); err != nil {
			return err
		}
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	h.mu.Lock()
	m, watches := h.broken.Model.Clone(), h.watches
	h.mu.Unlock()
	var changes []tree.Change
	for _, n := range m.Nodes {
		if fault.InGroup(group, n.Path) {
			changes = append(changes, tree.Change{Path: n.Path, Kind: tree.Added})
		}
	}
	for _, w := range watches {
		w(Event{Model: m.Clone(), Changes: changes})
	}
	return nil
}

// pin names the GPUs of faults by address. Those that were there before keep
// what they had.
func pin(faults fault.List, m host.Model, before, pinned fault.List) fault.List {
	var out fault.List
	for _, f := range faults {
		if i := slices.Index(before, f); i >= 0 {
			out = append(out, pinned[i])
		} else {
			out = append(out, f.Pinned(m))
		}
	}
	return out
}

// withoutDriver refuses to bind and unbind what a fault keeps without a driver:
// unbinding as the kernel does (ENODEV, unbind_store of drivers/base/bus.c),
// binding with what NVIDIA's driver returns when it cannot take a device (-1,
// nv_pci_probe of nv-pci.c).
func (h *Host) withoutDriver(p, text string) syscall.Errno {
	name := path.Base(p)
	if !strings.HasPrefix(p, "/sys/bus/pci/drivers/") || name != "bind" && name != "unbind" {
		return 0
	}
	a, err := pci.ParseBDF(strings.TrimSpace(text))
	if err != nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	driver := func(m host.Model) string {
		for _, f := range m.Functions() {
			if f.BDF == a {
				return f.Driver
			}
		}
		return ""
	}
	switch {
	case driver(h.model) == driver(h.broken.Model):
		return 0
	case name == "unbind":
		return syscall.ENODEV
	}
	return syscall.EPERM
}

// asked returns a command to the driver with its GPU named by address, since NVML
// may number the GPUs of the broken host otherwise; or the refusal of a driver
// that is not there, or whose GPU does not answer.
func (h *Host) asked(c driverctl.Command) (driverctl.Command, driverctl.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.faults) == 0 {
		return c, driverctl.OK()
	}
	m := h.broken.Model
	if m.Driver == nil {
		return c, driverctl.Refuse(nvml.ERROR_DRIVER_NOT_LOADED, "the driver is not loaded")
	}
	for _, g := range m.NVIDIAGPUs() {
		if g.PCI == nil || g.Index != c.GPU.Index && g.PCI.BDF != c.GPU.BDF {
			continue
		}
		if code, lost := h.broken.Lost(g.Index); lost {
			return c, driverctl.Refuse(code, "GPU %s does not answer", g.PCI.BDF)
		}
		c.GPU = driverctl.ByBDF(g.PCI.BDF)
		return c, driverctl.OK()
	}
	return c, driverctl.Refuse(nvml.ERROR_NOT_FOUND, "no GPU %s", fmt.Sprint(c.GPU))
}
