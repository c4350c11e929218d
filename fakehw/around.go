package fakehw

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/memo"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/tree"
)

// An around is what stands around the functions of a model: the ports that lead to
// them, the chassis's own functions, its processors and memory, and what of the model's
// functions nobody changes. Models that differ in drivers alone share one.
type around struct {
	*topology
	chassis  *catalog.Chassis
	units    string // what the IOMMU's units are called, with a verb for the number
	tree     *tree.Tree
	firstVGA pci.BDF
	cpus     []nearby // by node
}

// arounds keeps them.
var arounds = memo.Map[string, *around]{Limit: 64}

// A place is what a function's surroundings depend on.
type place struct {
	BDF   pci.BDF
	ID    pci.ID
	Class pci.Class
	BARs  []host.BAR
	Board *host.Board
	Node  int
	Total int // virtual functions that there can be
	Gone  bool
}

// surround returns what is around the functions in these places, whose windows end at
// the given ones.
func (b *builder) surround(places []*function, at windows) *around {
	sub := host.Model{Arch: b.m.Arch, Kernel: b.m.Kernel, OS: b.m.OS, Tegra: b.m.Tegra, IOMMU: b.m.IOMMU}
	if strings.Contains(b.m.Cmdline, "amd_iommu=") {
		sub.Cmdline = "amd_iommu="
	}
	physical := slices.DeleteFunc(slices.Clone(places), func(f *function) bool { return f.physfn != nil })
	var gpus []host.GPU
	var list []place
	for _, f := range physical {
		gpus = append(gpus, host.GPU{PCI: &f.PCIFunction})
		p := place{BDF: f.BDF, ID: f.ID, Class: f.Class, BARs: f.BARs, Board: f.Board, Node: f.NUMANode, Gone: f.gone}
		if f.SRIOV != nil {
			p.Total = f.SRIOV.Total
		}
		list = append(list, p)
	}
	key, err := json.Marshal([]any{sub, list})
	b.do(err)
	out, err := arounds.Get(context.Background(), string(key), func() (*around, error) {
		c := catalog.ChassisOf(gpus, sub.Tegra)
		in := &builder{t: tree.New(), m: &sub, functions: map[string]*function{}}
		in.around = &around{chassis: c, topology: in.wire(c, physical), units: unitNames(&sub)}
		in.surroundings(physical, at)
		if in.err != nil {
			return nil, in.err
		}
		in.around.tree = in.t.Freeze()
		return in.around, nil
	})
	if err != nil {
		b.do(err)
		return &around{topology: &topology{}, chassis: &catalog.Chassis{}, tree: tree.New()}
	}
	return out
}

// surroundings makes the tree.
func (b *builder) surroundings(places []*function, at windows) {
	a := b.around
	for n := range a.chassis.Processors.Nodes {
		a.cpus = append(a.cpus, nearbyOf(a.chassis.Processors, n))
	}
	all := slices.Clone(a.own)
	for _, f := range a.own {
		b.assign(f, &at)
	}
	for _, f := range places {
		x := *f // whoever comes next has his own
		x.dir = a.dirs[busOf(f.BDF)] + "/" + f.bdf
		all = append(all, &x)
		if f.Class == pci.ClassVGA && !f.gone && a.firstVGA == (pci.BDF{}) {
			a.firstVGA = f.BDF
		}
	}
	for _, f := range all[len(a.own):] {
		if !f.gone {
			b.fixture(f)
		}
	}
	n := 0
	for _, f := range a.own {
		if f.port != 0 {
			f.lets(all)
			f.subordinate = a.last(f)
		}
		if f.Driver != "" {
			n++
			f.irq = 24 + n
		}
		b.fixture(f)
		b.function(f)
		if b.m.IOMMU {
			b.group(f)
		}
		if f.port != 0 {
			b.bus(f.secondary, f.dir)
			b.attr(f.dir+"/secondary_bus_number", fmt.Sprintf("%d\n", f.secondary&0xff))
			b.attr(f.dir+"/subordinate_bus_number", fmt.Sprintf("%d\n", f.subordinate))
		}
	}
	for _, root := range a.roots {
		b.bus(root, a.dirs[root])
		b.power(a.dirs[root], "auto")
		b.file(a.dirs[root]+"/uevent", "", 0o644)
	}
	if b.m.IOMMU {
		b.dir("/sys/kernel/iommu_groups")
		for i := range max(len(a.roots), 1) {
			unit := "/sys/devices/virtual/iommu/" + fmt.Sprintf(a.units, i)
			b.dir(unit + "/devices")
			b.link("/sys/class/iommu/"+fmt.Sprintf(a.units, i), unit)
		}
	}
	b.adapters()
}

// unitNames says how the units of an IOMMU are called, by number.
func unitNames(m *host.Model) string {
	switch {
	case m.Arch == "aarch64":
		return "smmu3.0x%016x"
	case m.Cmdline != "":
		return "ivhd%d"
	}
	return "dmar%d"
}

// unit is the directory of the IOMMU's unit for a function.
func (a *around) unit(f *function) string {
	bus := busOf(f.BDF)
	if f.physfn != nil {
		bus = busOf(f.physfn.BDF)
	}
	return "/sys/devices/virtual/iommu/" + fmt.Sprintf(a.units, max(slices.Index(a.roots, a.rootOf(bus)), 0))
}

// bus makes a bus in class pci_bus.
func (b *builder) bus(bus uint32, dir string) {
	name := fmt.Sprintf("%04x:%02x", bus>>8, bus&0xff)
	at := dir + "/pci_bus/" + name
	near := b.around.near(-1)
	for _, f := range b.around.own {
		if busOf(f.BDF) == bus || f.port != 0 && f.secondary == bus {
			near = b.around.near(f.NUMANode)
		}
	}
	b.attr(at+"/cpuaffinity", near.mask)
	b.attr(at+"/cpulistaffinity", near.list)
	b.file(at+"/uevent", "", 0o644)
	b.write(at, "rescan")
	b.power(at, "auto")
	b.link(at+"/device", dir)
	b.link(at+"/subsystem", "/sys/class/pci_bus")
	b.link("/sys/class/pci_bus/"+name, at)
}

// last is the last bus behind a port.
func (t *topology) last(f *function) uint8 {
	out := f.secondary
	for bus, dir := range t.dirs {
		if strings.HasPrefix(dir, f.dir+"/") {
			out = max(out, bus)
		}
	}
	return uint8(out)
}

// lets opens a port's windows for what is behind it, in steps of a mebibyte, of I/O of
// four kibibytes.
func (f *function) lets(all []*function) {
	for _, x := range all {
		if x.port != 0 || !strings.HasPrefix(x.dir, f.dir+"/") {
			continue
		}
		for _, r := range slices.Concat(x.resources[:7], x.virtual[:]) {
			line, step, flags := bridgeWindow+1, uint64(1<<20), uint64(0x200)
			switch {
			case r[2] == 0:
				continue
			case r[2]&flagIO != 0:
				line, step, flags = bridgeWindow, 4096, 0x101
			case r[2]&flag64 != 0 && r[2]&flagPref != 0:
				line, flags = bridgeWindow+2, 0x102201
			}
			w := &f.resources[line]
			if w[2] == 0 {
				*w = [3]uint64{r[0], r[1], flags}
			}
			w[0], w[1] = min(w[0], r[0]/step*step), max(w[1], r[1]|(step-1))
		}
	}
}

// A nearby is the processors of a node, as attributes print them.
type nearby struct{ list, mask string }

func nearbyOf(p catalog.Processors, node int) nearby {
	return nearby{p.List(node) + "\n", cpuMask(p.Mask(node)) + "\n"}
}

// near are the processors near a node; all where it is not known.
func (a *around) near(node int) nearby {
	if node >= 0 && node < len(a.cpus) {
		return a.cpus[node]
	}
	return nearbyOf(a.chassis.Processors, max(node, 0))
}

// adapters makes the InfiniBand devices of the adapters, in order of address.
func (b *builder) adapters() {
	n := 0
	for _, f := range b.around.own {
		if f.Driver != "mlx5_core" {
			continue
		}
		at := fmt.Sprintf("%s/infiniband/mlx5_%d", f.dir, n)
		layer, rate := "InfiniBand", map[uint16]string{0x101b: "200 Gb/sec (4X HDR)"}[f.ID.Device]
		if rate == "" {
			rate = "400 Gb/sec (4X NDR)"
		}
		if f.Class == 0x020000 {
			layer, rate = "Ethernet", "100 Gb/sec (4X EDR)"
		}
		guid := fmt.Sprintf("a088:c203:00%02x:%04x", f.BDF.Bus, RoutingID(f.BDF))
		for name, text := range map[string]string{"node_type": "1: CA", "node_guid": guid, "sys_image_guid": guid, "hca_type": fmt.Sprintf("MT%d", f.ID.Device), "hw_rev": "0",
			"ports/1/state": "4: ACTIVE", "ports/1/phys_state": "5: LinkUp", "ports/1/rate": rate, "ports/1/link_layer": layer, "ports/1/lid": fmt.Sprintf("0x%x", n+1), "ports/1/cap_mask": "0xa751e848"} {
			b.attr(at+"/"+name, text+"\n")
		}
		b.file(at+"/uevent", fmt.Sprintf("NAME=mlx5_%d\n", n), 0o644)
		b.link(at+"/device", f.dir)
		b.link(at+"/subsystem", "/sys/class/infiniband")
		b.link(fmt.Sprintf("/sys/class/infiniband/mlx5_%d", n), at)
		n++
	}
}
