package live

import (
	"fmt"
	"maps"
	"slices"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/tree"
)

// A memory is what a machine knows and host.Model does not say: what its kernel
// keeps without showing it, and what boards keep when no driver holds them.
type memory struct {
	boards  map[pci.BDF]host.GPU // each GPU as NVIDIA's driver last knew it, and those that amdgpu has in partitions
	order   []string             // in which NVML numbers GPUs: their addresses or platform names
	numbers map[number]bool      // that GPUs have had
	ids     map[string][]dynID   // by driver, as new_id has got them
	gone    []host.PCIFunction   // pulled out, by address: a rescan finds them
	enabled map[pci.BDF]int      // how often a function was enabled by hand
}

// A number is one that drivers count by themselves: of a minor, a card or a
// render node.
type number struct {
	kind string
	n    int
}

func newMemory(m host.Model) memory {
	out := memory{boards: map[pci.BDF]host.GPU{}, numbers: map[number]bool{}, ids: map[string][]dynID{}, enabled: map[pci.BDF]int{}}
	out.learn(m)
	return out
}

func (m memory) clone() memory {
	m.boards, m.numbers, m.enabled = maps.Clone(m.boards), maps.Clone(m.numbers), maps.Clone(m.enabled)
	m.order, m.gone = slices.Clone(m.order), slices.Clone(m.gone)
	m.ids = maps.Clone(m.ids)
	for name, list := range m.ids {
		m.ids[name] = slices.Clone(list)
	}
	return m
}

// learn takes in what a host is now.
func (m *memory) learn(now host.Model) {
	var current []string
	for _, g := range now.NVIDIAGPUs() {
		current = append(current, nameOf(g))
	}
	m.order = merge(m.order, current)
	drivers := driversOf(&now)
	maps.DeleteFunc(m.ids, func(name string, _ []dynID) bool { return !slices.Contains(drivers, name) })
	for _, f := range now.Functions() {
		m.gone = slices.DeleteFunc(m.gone, func(o host.PCIFunction) bool { return o.BDF == f.BDF })
	}
	for _, g := range now.Clone().GPUs {
		for _, x := range numbersOf(g) {
			if x.n >= 0 {
				m.numbers[x] = true
			}
		}
		if g.PCI != nil && (g.PCI.Driver == "nvidia" || len(g.Partitions) > 0) {
			m.boards[g.PCI.BDF] = g
		}
	}
}

func numbersOf(g host.GPU) []number {
	return []number{{"minor", g.Minor}, {"card", g.Card}, {"render", g.Render}}
}

func nameOf(g host.GPU) string {
	if g.PCI == nil {
		return g.Platform
	}
	return g.PCI.BDF.String()
}

// merge returns an order that has current as it stands, and what else was in old
// where it was.
func merge(old, current []string) []string {
	next, same := 0, true
	for _, name := range current {
		i := slices.Index(old, name)
		same = same && i >= next
		next = i + 1
	}
	if same {
		return old
	}
	out := slices.Clone(current)
	for i, name := range old {
		if slices.Contains(out, name) {
			continue
		}
		at := 0
		if i > 0 {
			at = slices.Index(out, old[i-1]) + 1 // what was before it is in already
		}
		out = slices.Insert(out, at, name)
	}
	return out
}

// before returns the GPU at a as a driver will know it again. Drivers give the
// lowest number that is free, among those that GPUs of this host have had: what
// else is lower belongs to something that the model does not show. NVML numbers
// GPUs in the same order as ever.
func (m *memory) before(now *host.Model, a pci.BDF) *host.GPU {
	g := m.boards[a]
	g.Minor, g.Card, g.Render, g.Index = m.free(now, "minor"), m.free(now, "card"), m.free(now, "render"), -1
	place := slices.Index(m.order, a.String())
	if place < 0 {
		return &g
	}
	g.Index = 0
	for _, o := range now.NVIDIAGPUs() {
		if i := slices.Index(m.order, nameOf(o)); i >= 0 && i < place {
			g.Index++
		}
	}
	return &g
}

func (m *memory) free(now *host.Model, kind string) int {
	lowest := -1
	for x := range m.numbers {
		taken := slices.ContainsFunc(now.GPUs, func(g host.GPU) bool { return slices.Contains(numbersOf(g), x) })
		if x.kind == kind && !taken && (lowest < 0 || x.n < lowest) {
			lowest = x.n
		}
	}
	return lowest
}

// show puts into a tree what its model does not say.
func (m *memory) show(t *tree.Tree, now host.Model) error {
	for _, f := range now.Functions() {
		n := m.enabled[f.BDF]
		if n == 0 {
			continue
		}
		p := devices + f.BDF.String() + "/enable"
		e, err := t.Follow(p)
		if err != nil {
			return err
		}
		if string(e.Data) == "1\n" {
			n++ // the driver's own
		}
		e.SetData(fmt.Appendf(nil, "%d\n", n))
	}
	return nil
}

const devices = "/sys/bus/pci/devices/"
