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
	boards := slices.DeleteFunc(slices.Clone(c.gpus), func(g *host.GPU) bool { return g.PCI == nil || asked(all, g.PCI.BDF) })
	slices.SortStableFunc(boards, func(a, b *host.GPU) int { return d.planned(a.PCI.BDF) - d.planned(b.PCI.BDF) })
	var seen []parent
	for _, g := range boards {
		for _, b := range d.functions(g.PCI.BDF) {
			p, ok, err := parentAt(d.r, b, g.PCI.BDF)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			for _, t := range p.types {
				if t.is(c.ask.Request.MDev) && d.room(p, t) {
					return d.divide(c.ask.Name, p, t)
				}
			}
			seen = append(seen, p)
		}
	}
	return d.noVGPU(c, seen)
}

// functions returns a GPU with its virtual functions, by address.
func (d *making) functions(board pci.BDF) []pci.BDF {
	out := []pci.BDF{board}
	for _, v := range d.m.VFs {
		if v.PF == board {
			out = append(out, v.BDF)
		}
	}
	return out
}

// divide plans a vGPU of type t on p.
func (d *making) divide(name string, p parent, t vgpuType) error {
	d.boards, d.parts = append(d.boards, p.board), append(d.parts, p.bdf)
	if p.mediated {
		return d.mediate(name, p.bdf, t)
	}
	f := d.function(p.bdf)
	id, err := strconv.Atoi(t.id)
	if err != nil || f == nil {
		return badText(at(p.bdf)+"/nvidia/creatable_vgpu_types", t.id)
	}
	d.vgpus = append(d.vgpus, pair{step{kind: vgpu, bdf: p.bdf, n: id}, step{kind: vgpu, bdf: p.bdf}})
	return d.add(name, Device{Name: name, BDF: p.bdf, Type: t.id, Role: GPU, Group: f.IOMMUGroup, Window: ceil(prefetchable(f.BARs))})
}

// mediate plans a mediated device.
func (d *making) mediate(name string, b pci.BDF, t vgpuType) error {
	uuid := uuidOf(d.opts.Instance, name)
	if there, err := host.Exists(d.r, mdevs+uuid); err != nil {
		return err
	} else if there {
		return refuse.New(ReasonLeftOver, "", "the mediated device %s of this machine is there already", uuid).
			WithHint("If no machine of this name runs, remove it with echo 1 > %s%s/remove.", mdevs, uuid)
	}
	d.vgpus = append(d.vgpus, pair{step{kind: create, bdf: b, name: t.id, uuid: uuid}, step{kind: remove, uuid: uuid}})
	return d.add(name, Device{Name: name, BDF: b, MDev: uuid, Type: t.id, Role: GPU, Group: -1})
}

// room reports whether a parent has room for one more vGPU of a type, beside those
// of this plan.
func (d *making) room(p parent, t vgpuType) bool {
	return p.current == 0 && t.left > count(d.parts, p.bdf)
}

// planned counts the vGPUs of this plan on a board.
func (d *making) planned(board pci.BDF) int { return count(d.boards, board) }

func count(all []pci.BDF, b pci.BDF) int {
	n := 0
	for _, o := range all {
		if o == b {
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
		return refuse.New(ReasonNoInstances, "mdev", "no vGPU of type %s is left", asked).
			WithHint("End a virtual machine that has one, or ask for a smaller type.")
	}
	slices.SortFunc(known, func(a, b vgpuType) int { return cmp.Or(len(a.id)-len(b.id), strings.Compare(a.id, b.id)) })
	var names []string
	for _, t := range known {
		names = append(names, t.String())
	}
	return refuse.New(ReasonUnknownType, "mdev", "there is no vGPU type %s", asked).WithHint("The types are %s.", strings.Join(names, ", "))
}

// noParent says why no vGPUs can be made of the GPUs at all.
func (d *making) noParent(c choice) error {
	for _, g := range c.gpus {
		if g.PCI != nil && g.PCI.SRIOV != nil && g.PCI.SRIOV.Num == 0 && d.m.Driver != nil && d.m.Driver.VGPU != "" {
			return refuse.New(ReasonVFsOff, "mdev", "%s has its vGPUs on virtual functions, and none is on", g.PCI.BDF).
				WithHint("Turn them on with /usr/lib/nvidia/sriov-manage -e %s.", g.PCI.BDF)
		}
	}
	return refuse.New(ReasonNoVGPU, "mdev", "the host's driver makes no vGPUs of the GPU").
		WithHint("Install NVIDIA's vGPU host driver, or pass the GPU whole with gputype=physical.")
}
