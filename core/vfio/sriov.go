package vfio

import (
	"fmt"
	"slices"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// virtual gives the machine one virtual function that nobody has. Where there are
// none, it turns them on: all that the GPU can have, because their number can only
// be changed while there are none.
func (d *making) virtual(c choice, all []choice) error {
	var able []*host.GPU
	for _, g := range c.gpus {
		if g.PCI != nil && g.PCI.SRIOV != nil && g.PCI.SRIOV.Total > 0 && !asked(all, g.PCI.BDF) {
			able = append(able, g)
		}
	}
	switch {
	case len(c.gpus) == 0:
		return nil // refused before
	case len(able) == 0:
		return refuse.New(ReasonNoSRIOV, "gputype", "no GPU of these can have virtual functions").
			WithHint("Write gputype=physical to pass a GPU whole; NVIDIA's have virtual functions with its vGPU host driver only.")
	}
	for _, v := range d.m.VFs {
		i := slices.IndexFunc(able, func(g *host.GPU) bool { return g.PCI.BDF == v.PF })
		if i < 0 {
			continue
		}
		if free, err := d.freeVF(v); err != nil {
			return err
		} else if free {
			return d.giveVF(c, all, *able[i], v.PCIFunction)
		}
	}
	for _, g := range able {
		if f, ok, err := d.newVF(c.ask.Name, *g.PCI); err != nil {
			return err
		} else if ok {
			return d.giveVF(c, all, *g, f)
		}
	}
	return refuse.New(ReasonNoFreeVF, "gputype", "every virtual function of %s is in use", able[0].PCI.BDF).
		WithHint("End a virtual machine that has one, or take a driver of the host from one.")
}

// freeVF reports whether nobody has a virtual function: no device of this plan, no
// vGPU, and no VFIO driver, unless the caller can tell that nobody has it open.
func (d *making) freeVF(v host.VF) (bool, error) {
	if slices.Contains(d.parts, v.BDF) || v.IOMMUGroup < 0 {
		return false, nil
	}
	if IsDriver(v.Driver) {
		return d.opts.Busy != nil && d.idle(v.PCIFunction, nil) == nil, nil
	}
	used, err := vfUsed(d.r, v.BDF)
	return !used, err
}

// newVF returns the next virtual function of a GPU that has none yet, and plans to
// turn them on. The host's drivers do not get them, so that it does not depend on
// which those are.
func (d *making) newVF(name string, pf host.PCIFunction) (f host.PCIFunction, ok bool, err error) {
	s := *pf.SRIOV
	if s.Num > 0 || IsDriver(pf.Driver) || pf.Driver == "" {
		return f, false, nil
	}
	n := d.planned(pf.BDF)
	b, ok := virtualFunction(pf.BDF, s, n)
	if !ok || n >= s.Total {
		return f, false, nil
	}
	if n == 0 {
		if !s.NoProbe {
			d.on = append(d.on, pair{step{kind: vfProbe, bdf: pf.BDF}, step{kind: vfProbe, bdf: pf.BDF, n: 1}})
		}
		d.on = append(d.on, pair{step{kind: numVFs, bdf: pf.BDF, n: s.Total}, step{kind: numVFs, bdf: pf.BDF}})
		d.note(name, ReasonTurnedOn, "%s gets its %d virtual functions turned on; they go again when this machine returns its device, unless another has one by then.", pf.BDF, s.Total)
	}
	// It has no more memory than its GPU.
	return host.PCIFunction{BDF: b, ID: pf.ID, IOMMUGroup: -1, BARs: pf.BARs}, true, nil
}

// giveVF gives the machine a virtual function.
func (d *making) giveVF(c choice, all []choice, g host.GPU, f host.PCIFunction) error {
	d.parts, d.boards = append(d.parts, f.BDF), append(d.boards, g.PCI.BDF)
	key := c.ask.Name
	if f.IOMMUGroup >= 0 {
		key = fmt.Sprint("group ", f.IOMMUGroup)
		if err := d.behindIOMMU(f); err != nil {
			return err
		}
		group, err := members(d.r, f.IOMMUGroup)
		if err != nil {
			return err
		}
		if _, err := d.company(c.ask.Name, f, group, all); err != nil {
			return err
		}
	}
	if err := d.take(f.BDF); err != nil {
		return err
	}
	if f.ID.Vendor == pci.NVIDIA {
		d.note(c.ask.Name, ReasonBareVF, "%s is no vGPU: NVIDIA's driver in the machine finds one only on a function that was given a type, with gputype=mdev.", f.BDF)
	}
	return d.add(key, Device{Name: c.ask.Name, BDF: f.BDF, Role: GPU, Group: f.IOMMUGroup, Window: ceil(prefetchable(f.BARs))})
}

// virtualFunction returns the address of virtual function k: the routing id of its
// physical one plus offset plus k strides (Documentation/PCI/pci-iov-howto.rst).
func virtualFunction(pf pci.BDF, s host.SRIOV, k int) (pci.BDF, bool) {
	id := int(pf.Bus)<<8 | int(pf.Device)<<3 | int(pf.Function)
	if id += s.Offset + k*s.Stride; s.Offset <= 0 || k > 0 && s.Stride <= 0 || id > 0xffff {
		return pci.BDF{}, false
	}
	return pci.BDF{Domain: pf.Domain, Bus: uint8(id >> 8), Device: uint8(id >> 3 & 31), Function: uint8(id & 7)}, true
}
