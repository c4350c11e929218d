package vfio

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// vgpu gives the machine one vGPU of the type that it asks for: on the board that
// this plan has divided least, at its first function with room.
func (d *making) vgpu(c choice, all []choice) error {
	asked := c.ask.Request.MDev
	parents, err := d.parents(c, all)
	if err != nil {
		return err
	}
	var best *parent
	var kind vgpuType
	for i := range parents {
		p := &parents[i]
		for _, t := range p.types {
			if t.is(asked) && d.room(*p, t) && (best == nil || d.planned(p.board) < d.planned(best.board)) {
				best, kind = p, t
			}
		}
	}
	if best == nil {
		return d.noVGPU(c, parents)
	}
	d.boards = append(d.boards, best.board)
	d.parts = append(d.parts, best.bdf)
	if best.mediated {
		return d.mediate(c.ask.Name, best.bdf, kind)
	}
	id, _ := strconv.Atoi(kind.id)
	d.vgpus = append(d.vgpus, pair{step{kind: vgpu, bdf: best.bdf, n: id}, step{kind: vgpu, bdf: best.bdf}})
	f := d.function(best.bdf)
	return d.add(c.ask.Name, Device{Name: c.ask.Name, BDF: best.bdf, Type: kind.id, Role: GPU, Group: f.IOMMUGroup, Window: ceil(prefetchable(f.BARs))})
}

// mediate plans a mediated device.
func (d *making) mediate(name string, b pci.BDF, t vgpuType) error {
	uuid := uuidOf(d.opts.Instance, name)
	if there, err := host.Exists(d.r, mdevs+uuid); err != nil {
		return err
	} else if there {
		return refuse.New(LeftOver, "", "the mediated device %s of this machine is there already", uuid).
			WithHint("If no machine of this name runs, remove it with echo 1 > %s%s/remove.", mdevs, uuid)
	}
	d.vgpus = append(d.vgpus, pair{step{kind: create, bdf: b, name: t.id, uuid: uuid}, step{kind: remove, uuid: uuid}})
	return d.add(name, Device{Name: name, BDF: b, MDev: uuid, Type: t.id, Role: GPU, Group: -1})
}

// parents reads where vGPUs of the chosen GPUs can be made: on their virtual
// functions, or on GPUs that have none. A GPU that the machine gets whole is no
// parent.
func (d *making) parents(c choice, all []choice) ([]parent, error) {
	var out []parent
	for _, g := range c.gpus {
		if g.PCI == nil || asked(all, g.PCI.BDF) {
			continue
		}
		at := []pci.BDF{g.PCI.BDF}
		for _, v := range d.m.VFs {
			if v.PF == g.PCI.BDF {
				at = append(at, v.BDF)
			}
		}
		for _, b := range at {
			p, ok, err := parentAt(d.r, b, g.PCI.BDF)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// room reports whether a parent has room for one more vGPU of a type, beside those
// of this plan. A virtual function holds one.
func (d *making) room(p parent, t vgpuType) bool {
	mine := 0
	for _, b := range d.parts {
		if b == p.bdf {
			mine++
		}
	}
	if p.bdf != p.board && mine > 0 {
		return false
	}
	return p.current == 0 && t.left > mine
}

// planned counts the vGPUs of this plan on a board.
func (d *making) planned(board pci.BDF) int {
	n := 0
	for _, b := range d.boards {
		if b == board {
			n++
		}
	}
	return n
}

// noVGPU says why there is no vGPU of the type.
func (d *making) noVGPU(c choice, parents []parent) error {
	asked := c.ask.Request.MDev
	if len(c.gpus) == 0 {
		return nil // refused before
	}
	if len(parents) == 0 {
		return d.noParent(c)
	}
	var known []vgpuType
	exhausted, can := true, false
	for _, p := range parents {
		for _, t := range p.types {
			can = can || t.is(asked)
			exhausted = false
			if !slices.ContainsFunc(known, func(o vgpuType) bool { return o.id == t.id }) {
				known = append(known, t)
			}
		}
		// Of NVIDIA's own attributes the list shrinks: what is there was a type.
		can = can || p.current > 0 && vgpuType{id: strconv.Itoa(p.current)}.is(asked)
	}
	if can || exhausted {
		return refuse.New(NoInstances, "mdev", "no vGPU of type %s is left", asked).
			WithHint("End a virtual machine that has one, or ask for a smaller type.")
	}
	slices.SortFunc(known, func(a, b vgpuType) int { return cmp.Or(len(a.id)-len(b.id), strings.Compare(a.id, b.id)) })
	var names []string
	for _, t := range known {
		names = append(names, t.String())
	}
	return refuse.New(UnknownType, "mdev", "there is no vGPU type %s", asked).WithHint("The types are %s.", strings.Join(names, ", "))
}

// noParent says why no vGPUs can be made of the GPUs at all.
func (d *making) noParent(c choice) error {
	for _, g := range c.gpus {
		if g.PCI != nil && g.PCI.SRIOV != nil && g.PCI.SRIOV.Num == 0 && d.m.Driver != nil && d.m.Driver.VGPU != "" {
			return refuse.New(VFsOff, "mdev", "%s has its vGPUs on virtual functions, and none is on", g.PCI.BDF).
				WithHint("Turn them on with /usr/lib/nvidia/sriov-manage -e %s.", g.PCI.BDF)
		}
	}
	return refuse.New(NoVGPU, "mdev", "the host's driver makes no vGPUs of the GPU").
		WithHint("Install NVIDIA's vGPU host driver, or pass the GPU whole with gputype=physical.")
}
