package fakehw

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// A topology is how the functions of a machine are reached.
type topology struct {
	dirs  map[uint32]string // directory of what is on a bus, by domain and bus
	roots []uint32          // root buses, ascending
	own   []*function       // ports, adapters and what else is the chassis's own, by address
	taken map[string]bool   // addresses
}

func busOf(a pci.BDF) uint32 { return a.Domain<<8 | uint32(a.Bus) }

// The kinds of port that a bridge is (PCI Express Base Specification, Device/Port Type).
const (
	rootPort       = 4
	upstreamPort   = 5
	downstreamPort = 6
	toPCI          = 7 // a bridge to a bus that is not PCI Express
)

// chassisGroups is where IOMMU groups of the chassis's own functions count from, so
// that nothing that is made later, as a mediated device is, gets the number of one.
const chassisGroups = 512

// wire finds how all functions are reached: by the chassis's ways if they lead to all of
// them, else each by a root port of its own.
func (b *builder) wire(c *catalog.Chassis, places []*function) *topology {
	t := &topology{dirs: map[uint32]string{}, taken: map[string]bool{}}
	usual := len(c.Ways) > 0
	for _, f := range places {
		t.taken[f.bdf] = true
		usual = usual && (f.physfn != nil || f.BDF.Function > 0 || c.Reaches(f.BDF))
	}
	if usual {
		for _, way := range c.Ways {
			b.way(t, c, way)
		}
	}
	var last, root uint32 // the bus that got a root port last, and its root bus
	for _, f := range places {
		bus := busOf(f.BDF)
		switch {
		case f.physfn != nil || t.dirs[bus] != "":
			continue
		case f.BDF.Bus == 0:
			b.root(t, bus)
			continue
		case f.NUMANode < 0 || b.m.Tegra != nil:
			root = bus &^ 0xff
		case last != bus-1: // a server has a root bus for each slot
			root = bus - 1
		}
		last = bus
		way := b.freePort(t, root) + " "
		if f.ID.Vendor == pci.AMD && f.Class == pci.ClassVGA && f.BDF.Bus > 2 { // such boards have a switch
			way += fmt.Sprintf("%04x:%02x:00.0=radeon %04x:%02x:00.0=radeon ", f.BDF.Domain, f.BDF.Bus-2, f.BDF.Domain, f.BDF.Bus-1)
		}
		b.way(t, c, way+f.bdf)
	}
	for bus := range t.dirs {
		if bus == t.rootOf(bus) {
			t.roots = append(t.roots, bus)
		}
	}
	slices.Sort(t.roots)
	for _, bus := range t.roots {
		a := pci.BDF{Domain: bus >> 8, Bus: uint8(bus)}
		b.chassisFunction(t, a, catalog.Part{ID: c.Host, Class: c.HostClass}, bus)
		a.Function = 2
		b.chassisFunction(t, a, catalog.Part{ID: c.Unit, Class: 0x080600}, bus)
	}
	slices.SortFunc(t.own, func(x, y *function) int { return x.BDF.Compare(y.BDF) })
	nodes := maps.Clone(c.RootNodes)
	if nodes == nil {
		nodes = map[uint32]int{}
	}
	for _, f := range places {
		if _, known := nodes[t.rootOf(busOf(f.BDF))]; !known && f.physfn == nil {
			nodes[t.rootOf(busOf(f.BDF))] = f.NUMANode
		}
	}
	for i, f := range t.own {
		if node, known := nodes[t.rootOf(busOf(f.BDF))]; known {
			f.NUMANode = node
		}
		if b.m.IOMMU && f.Class>>8 != 0x0806 {
			f.IOMMUGroup = chassisGroups + i
		}
	}
	return t
}

// freePort is the address of the next root port on a root bus: one a device, and then
// further functions of the devices. There is room for 248, and no host has as many GPUs.
func (b *builder) freePort(t *topology, root uint32) string {
	n := 1
	if b.m.Tegra != nil {
		n = 0
	}
	for ; ; n++ {
		at := fmt.Sprintf("%04x:%02x:%02x.%d", root>>8, root&0xff, n%32, n/32)
		if !t.taken[at] || n == 255 {
			return at
		}
	}
}

// rootOf is the root bus of a bus.
func (t *topology) rootOf(bus uint32) uint32 {
	var domain, root uint32
	name := t.dirs[bus]
	fmt.Sscanf(name[strings.Index(name, "/pci")+1:], "pci%x:%x", &domain, &root)
	return domain<<8 | root
}

// root returns the directory of a root bus. On a Tegra it is below a platform device,
// whose address on Orin is unverified.
func (b *builder) root(t *topology, bus uint32) string {
	if t.dirs[bus] == "" {
		top := "/sys/devices"
		switch {
		case b.m.Tegra == nil:
		case b.m.Tegra.Chip == "tegra264":
			top += "/platform/bus@0/d0b0000000.pcie"
		default:
			top += "/platform/bus@0/141a0000.pcie"
		}
		t.dirs[bus] = fmt.Sprintf("%s/pci%04x:%02x", top, bus>>8, bus&0xff)
	}
	return t.dirs[bus]
}

// chassisFunction adds a function of the chassis's own, if there is such a part and its
// place is free.
func (b *builder) chassisFunction(t *topology, a pci.BDF, p catalog.Part, bus uint32) *function {
	f := &function{bdf: a.String(), gen: p.Gen, linkless: p.Gen == 0, PCIFunction: host.PCIFunction{BDF: a, ID: p.ID, Class: p.Class, Driver: p.Driver, NUMANode: -1, IOMMUGroup: -1}}
	f.dir = t.dirs[bus] + "/" + f.bdf
	if p.ID != (pci.ID{}) && !t.taken[f.bdf] {
		t.taken[f.bdf] = true
		t.own = append(t.own, f)
	}
	return f
}

// way makes the ports on one way that are not there yet, and the adapter at its end.
func (b *builder) way(t *topology, c *catalog.Chassis, way string) {
	hops := strings.Fields(way)
	for i, hop := range hops {
		name, kind, named := strings.Cut(hop, "=")
		a, err := pci.ParseBDF(name)
		b.do(err)
		if i == 0 {
			b.root(t, busOf(a))
		}
		part := catalog.Parts[kind]
		switch {
		case i == len(hops)-1 && !named:
			return
		case i == len(hops)-1:
			f := b.chassisFunction(t, a, part, busOf(a))
			f.BARs = []host.BAR{{Index: 0, Size: 32 << 20, Flags: 0x14220c}}
			return
		case i == 0:
			part = catalog.Part{ID: c.Port, Class: pci.ClassBridge, Driver: "pcieport", Gen: c.Gen}
		case !named:
			part = catalog.Part{ID: c.Switch, Class: pci.ClassBridge, Driver: "pcieport", Gen: c.Gen}
		case i%2 == 0 && kind != "hgx":
			part.ID.Device++
			if part.ID.SubDevice != 0 {
				part.ID.SubDevice++
			}
		}
		next, _, _ := strings.Cut(hops[i+1], "=")
		to, err := pci.ParseBDF(next)
		b.do(err)
		f := b.chassisFunction(t, a, part, busOf(a))
		f.secondary = busOf(to)
		switch {
		case part.Driver == "":
			f.port = toPCI
		case i == 0:
			f.port = rootPort
		default:
			f.port = upstreamPort + (i-1)%2
		}
		if t.dirs[f.secondary] == "" {
			t.dirs[f.secondary] = f.dir
		}
	}
}
