package vfio

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/request"
)

// Options adjust a plan. The zero value suits a machine without a name on a host
// whose programs cannot be looked at.
type Options struct {
	// Instance is the machine's name. The UUIDs of mediated devices are made of it
	// and of the device's name, so that the same plan has the same ones.
	Instance string `json:"instance,omitempty"`
	// Busy says who has a node of /dev open, "Xorg (pid 812)"; nil: not known. A
	// device that is open is refused: taking it from its driver would wait for
	// the program to end.
	Busy func(node string) []string `json:"-"`
}

// Make decides what a machine gets for what it asks for, on the host m whose files
// are r. It reports every refusal at once, joined, and then there is no plan.
func Make(r host.Root, m host.Model, asks []Ask, opts Options) (Plan, error) {
	d := &making{r: r, m: &m, opts: opts, ports: map[string]int{}}
	var chosen []choice
	for i, a := range asks {
		if slices.ContainsFunc(asks[:i], func(o Ask) bool { return o.Name == a.Name }) {
			d.refuse(refuse.New(ReasonDuplicateName, a.Name, "two devices have this name").WithHint("Give each device a name of its own."))
			continue
		}
		chosen = append(chosen, d.choose(a))
	}
	d.distinct(chosen)
	for _, c := range chosen {
		switch c.ask.Request.Type {
		case request.MDev:
			d.check(c.ask, d.vgpu(c, chosen))
		case request.SRIOV:
			d.check(c.ask, d.virtual(c, chosen))
		default:
			d.check(c.ask, d.whole(c, chosen))
		}
	}
	if d.err != nil || len(d.refusals) > 0 {
		return Plan{}, errors.Join(d.err, refuse.Join(d.refusals...))
	}
	p := d.plan()
	var err error
	if p.Boot, err = bootOf(r); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// A choice is which GPUs one device of the machine may be of.
type choice struct {
	ask  Ask
	gpus []*host.GPU
}

// A making is one run of Make.
type making struct {
	r        host.Root
	m        *host.Model
	opts     Options
	devices  []Device
	notes    []Note
	refusals []*refuse.Error
	err      error          // the host could not be read
	ports    map[string]int // root ports, by what goes below them
	parts    []pci.BDF      // functions that have a vGPU or a virtual function of this plan, one each time
	boards   []pci.BDF      // theirs
	on       []pair         // virtual functions
	cleared  []pair         // of an override that would keep them from coming back
	released []pair         // from the host's drivers
	marked   []pair         // for a VFIO driver
	taken    []pair         // by it
	vgpus    []pair
}

// check keeps an error of one device: its refusals, or that the host could not be
// read.
func (d *making) check(a Ask, err error) {
	all := refuse.As(err)
	if err != nil && len(all) == 0 {
		d.err = errors.Join(d.err, fmt.Errorf("%s: %w", a.Name, err))
	}
	for _, e := range all {
		c := *e
		if c.Where = a.Name; e.Where != "" {
			c.Where += ": " + e.Where
		}
		d.refuse(&c)
	}
}

func (d *making) refuse(e *refuse.Error) { d.refusals = append(d.refusals, e) }

func (d *making) note(device string, reason refuse.Reason, format string, args ...any) {
	d.notes = append(d.notes, Note{Device: device, Reason: string(reason), Detail: fmt.Sprintf(format, args...)})
}

// choose finds the GPUs that an ask selects.
func (d *making) choose(a Ask) choice {
	c := choice{ask: a}
	switch {
	case a.Request.CDI != nil:
		d.check(a, refuse.New(request.ReasonCDIOnVM, "id", "%s: CDI names are for containers only", a.Request.CDI).
			WithHint("Write the DRM card number, or pci=<address>, for a virtual machine."))
		return c
	case a.Request.Type == request.MIG:
		d.check(a, refuse.New(request.ReasonContainersOnly, "gputype", "%q is for containers only", string(request.MIG)).
			WithHint("Write gputype=physical, mdev or sriov for a virtual machine."))
		return c
	}
	req := a.Request
	req.VM = true
	sel, err := request.Select(req, *d.m)
	d.check(a, err)
	for _, w := range sel.Warnings {
		d.note(a.Name, w.Reason, "%s.", w)
	}
	for _, i := range sel.GPUs {
		c.gpus = append(c.gpus, &d.m.GPUs[i])
	}
	return c
}

// distinct refuses whole GPUs that cannot be told which, and those asked for twice.
func (d *making) distinct(all []choice) {
	by := map[pci.BDF]string{}
	for _, c := range all {
		if !c.whole() {
			continue
		}
		if len(c.gpus) > 1 {
			var names []string
			for _, g := range c.gpus {
				names = append(names, cdi.GPUName(*g))
			}
			d.check(c.ask, refuse.New(ReasonSeveral, "", "%d GPUs match, and one device of a virtual machine is one GPU", len(c.gpus)).
				WithHint("Write pci=<address> of one of %s.", strings.Join(names, ", ")))
		}
		for _, g := range c.gpus {
			if g.PCI == nil || len(c.gpus) > 1 {
				continue
			}
			if other, ok := by[g.PCI.BDF]; ok {
				d.check(c.ask, refuse.New(ReasonGiven, "", "%s is the GPU of %s already", g.PCI.BDF, other).WithHint("Ask for another GPU, or for one of the two devices."))
			}
			by[g.PCI.BDF] = c.ask.Name
		}
	}
}

// whole reports whether the choice is of whole GPUs.
func (c choice) whole() bool {
	return c.ask.Request.Type == request.Physical || c.ask.Request.Type == ""
}

// add gives the machine a device below the root port for key: those of one IOMMU
// group share a port, so that the machine sees them in one group too.
func (d *making) add(key string, dev Device) error {
	port, ok := d.ports[key]
	if !ok {
		port = len(d.ports)
		d.ports[key] = port
	}
	dev.Port = port
	slot, err := d.slot(port, int(dev.BDF.Function), dev.MDev == "")
	if err != nil {
		return err
	}
	dev.Slot = slot
	d.devices = append(d.devices, dev)
	return nil
}

// slot returns the function number of one more device at a port: the host's own
// where it can be, and 0 for the first, because a machine looks at no other function
// of a device without function 0.
func (d *making) slot(port, want int, function bool) (int, error) {
	var used [8]bool
	first := true
	for _, o := range d.devices {
		if o.Port == port {
			used[o.Slot], first = true, false
		}
	}
	if first || !function {
		return 0, nil
	}
	if !used[want] {
		return want, nil
	}
	for i, taken := range used {
		if !taken {
			return i, nil
		}
	}
	return 0, refuse.New(ReasonTooMany, "", "its IOMMU group has more than the eight functions that one port can have").
		WithHint("Move the board to a slot with a group of its own.")
}

// plan puts together what was decided: all functions leave their drivers before the
// first gets a new one, since the kernel gives out no group that is held in part.
// They leave in the reverse of the order in which the drivers had found them, so
// that they come back in that order: drivers give out the lowest number that is
// free, and /dev/nvidia0 is to be the same GPU as before.
func (d *making) plan() Plan {
	p := Plan{Devices: d.devices, Notes: d.notes}
	slices.SortStableFunc(d.released, func(a, b pair) int {
		return cmp.Or(cmp.Compare(d.place(b.do.bdf), d.place(a.do.bdf)), b.do.bdf.Compare(a.do.bdf))
	})
	all := slices.Concat(d.on, d.cleared, d.released, d.marked, d.taken, d.vgpus)
	for i, x := range all {
		p.Writes = append(p.Writes, x.do.write())
		p.Undo = append(p.Undo, all[len(all)-1-i].undo.write())
	}
	return p
}

// place returns when the driver of a GPU found it, among the others: its number. What
// has none is found by address.
func (d *making) place(b pci.BDF) int {
	for _, g := range d.m.GPUs {
		if g.PCI != nil && g.PCI.BDF == b {
			return max(g.Card, g.Minor)
		}
	}
	return -1
}
