package profiles

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/pci"
	"gpurig/core/strictdoc"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
	"gpurig/fixtures/hosts"
)

// check finds what is wrong with values that are well formed one by one.
func (p *Profile) check(r reader) {
	if _, err := catalog.FindOS(p.OS.ID); err != nil {
		r.failAt("os.id", needed(p.OS.ID, err))
	}
	if p.OS.Version == "" {
		r.failAt("os.version", missing)
	}
	if p.Kernel == "" {
		r.failAt("kernel", missing)
	}
	p.checkProducts(r)
	p.checkDriver(r)
	p.checkTegra(r)
	count, seen := 0, map[pci.BDF]string{}
	for i := range p.GPUs {
		count += p.checkSlots(r, fmt.Sprintf("gpus[%d]", i), &p.GPUs[i], seen)
	}
	if count > maxGPUs {
		r.failAt("gpus", fmt.Errorf("%d GPUs; at most %d are allowed", count, maxGPUs))
	}
	for i := range p.NVSwitches {
		if n := p.checkSlots(r, "nvswitches", &p.NVSwitches[i], seen); n > maxGPUs {
			r.failAt("nvswitches", fmt.Errorf("%d NVSwitches; at most %d are allowed", n, maxGPUs))
		}
	}
	p.checkMajors(r)
	for i, n := range p.Nodes {
		for k, o := range p.Nodes[:i] {
			if o.Path == n.Path {
				r.failAt(fmt.Sprintf("nodes[%d].path", i), fmt.Errorf("%s is nodes[%d] already", n.Path, k))
			}
		}
	}
}

// missing is what is wrong with a value that is needed and empty.
var missing = errors.New("missing")

// needed turns a look-up of nothing into that.
func needed(value string, err error) error {
	if value == "" {
		return missing
	}
	return err
}

func (p *Profile) checkDriver(r reader) {
	if p.Driver != nil {
		if _, err := catalog.FindDriver(p.Driver.Version); err != nil {
			r.failAt("driver.version", needed(p.Driver.Version, err))
		}
		for i, name := range p.Driver.Modules {
			if !strings.HasPrefix(name, "nvidia") && name != "nvgpu" || strings.Contains(name, "-") {
				r.failAt(fmt.Sprintf("driver.modules[%d]", i), fmt.Errorf("%q; want NVIDIA's modules in sysfs spelling, like nvidia_uvm", name))
			}
		}
	}
	if u := p.Userspace; u.Version != "" {
		if _, err := catalog.FindDriver(u.Version); err != nil {
			r.failAt("userspace.version", err)
		}
	} else if r.Has("userspace") && !u.none() && p.Driver == nil {
		r.failAt("userspace", errors.New("without a driver, userspace.version says which libraries there are"))
	}
	if p.Userspace.none() && (p.Userspace.Version != "" || p.Userspace.LibDir != "" || p.Userspace.Root != "") {
		r.failAt("userspace.installed", errors.New("nothing is installed, and yet there is a version or a place"))
	}
}

func (p *Profile) checkTegra(r reader) {
	if p.Tegra == nil {
		return
	}
	if _, err := catalog.FindBoard(p.Tegra.Board); err != nil {
		r.failAt("tegra.board", needed(p.Tegra.Board, err))
	}
	if p.Tegra.Release == "" || p.Tegra.Revision == "" {
		r.failAt("tegra", errors.New("tegra.release and tegra.revision are needed"))
	}
	if p.Arch == "x86_64" {
		r.failAt("arch", errors.New("a Tegra is aarch64"))
	}
}

// checkSlots checks one entry of gpus or nvswitches and returns how many
// functions it stands for.
func (p *Profile) checkSlots(r reader, path string, g *GPU, seen map[pci.BDF]string) int {
	product, _, err := p.product(g.Product)
	if err != nil {
		r.At(strictdoc.Path(path+".product"), "A board that is not in the catalogue is described under products: ids, memory, windows, MIG profiles.", "%s.product: %w", path, needed(g.Product, err))
		return 0
	}
	isSwitch := product.Driver == "nvidia-nvswitch"
	if isSwitch != (path == "nvswitches") {
		r.failAt(path+".product", fmt.Errorf("%s belongs into %s", g.Product, map[bool]string{true: "nvswitches", false: "gpus"}[isSwitch]))
	}
	if product.ID == (pci.ID{}) {
		r.failAt(path+".product", fmt.Errorf("%s is part of an SoC: it comes with tegra.board", g.Product))
	}
	if len(g.At) == 0 {
		r.failAt(path+".at", errors.New("missing: one PCI address or a list"))
	}
	for _, a := range g.At {
		a.Function = 0
		if other, ok := seen[a]; ok {
			r.failAt(path+".at", fmt.Errorf("the slot of %s is taken by %s", a, other))
		}
		seen[a] = path
	}
	g.NUMA = p.perAddress(r, path+".numa", g.NUMA, len(g.At), true)
	g.Groups = p.perAddress(r, path+".iommu-group", g.Groups, len(g.At), true)
	if len(g.Groups) > 0 && !p.IOMMU {
		r.failAt(path+".iommu-group", errors.New("there are no groups without iommu: true"))
	}
	for key, list := range map[string]*[]int{"minor": &g.Minors, "index": &g.Indexes, "card": &g.Cards, "render": &g.Renders} {
		*list = p.perAddress(r, path+"."+key, *list, len(g.At), false)
	}
	p.checkNumbers(r, path, g, product)
	if len(g.UUIDs) > 0 && len(g.UUIDs) != len(g.At) {
		r.failAt(path+".uuid", fmt.Errorf("%d entries for %d addresses", len(g.UUIDs), len(g.At)))
	}
	for i, u := range g.UUIDs {
		if !gpuUUID.MatchString(u) {
			r.failAt(fmt.Sprintf("%s.uuid[%d]", path, i), fmt.Errorf("%q; want GPU- and 8-4-4-4-12 lower-case hex digits", u))
		}
	}
	if g.MIGEnabled {
		if _, err := product.Place(g.MIG); err != nil {
			r.failAt(path+".mig", err)
		} else if p.Driver == nil || g.Driver != "" {
			r.failAt(path+".mig", errors.New("MIG needs NVIDIA's driver on this GPU"))
		}
	}
	return len(g.At)
}

// checkNumbers refuses numbers that this GPU cannot have: only a driver gives
// them, and each driver its own.
func (p *Profile) checkNumbers(r reader, path string, g *GPU, product catalog.Product) {
	nvidia := product.Driver == "nvidia" && g.Driver == "" && p.Driver != nil
	drm := nvidia || product.Driver != "nvidia" && g.Driver == "" || g.Driver == "nouveau"
	for _, x := range []struct {
		key  string
		have bool
		may  bool
		why  string
	}{
		{"minor", len(g.Minors) > 0, nvidia, "only NVIDIA's driver gives minors"},
		{"index", len(g.Indexes) > 0, nvidia, "only NVIDIA's driver gives NVML indexes"},
		{"uuid", len(g.UUIDs) > 0, nvidia, "only NVIDIA's driver tells a UUID"},
		{"card", len(g.Cards) > 0, drm, "without a driver there is no card node"},
		{"render", len(g.Renders) > 0, drm && product.Render, "this GPU has no render node"},
	} {
		if x.have && !x.may {
			r.failAt(path+"."+x.key, errors.New(x.why))
		}
	}
	if g.Partitions != "" && (g.Driver != "" || !fakehw.Partitioned(product.ID)) {
		r.failAt(path+".compute-partition", errors.New("only amdgpu has partitions, of an MI300"))
	}
	if g.Driver == "vfio-pci" && !p.IOMMU {
		r.failAt(path+".driver", errors.New("vfio-pci needs iommu: true"))
	}
}

// perAddress checks that a list has an entry for each address. One number may
// stand for all where they may be equal.
func (p *Profile) perAddress(r reader, path string, list []int, n int, shared bool) []int {
	switch {
	case len(list) == 0 || len(list) == n:
		return list
	case len(list) == 1 && shared:
		return slices.Repeat(list, n)
	}
	r.failAt(path, fmt.Errorf("%d entries for %d addresses", len(list), n))
	return nil
}

// checkMajors refuses numbers that are fixed, or given twice.
func (p *Profile) checkMajors(r reader) {
	names := map[uint32]string{1: "mem", 4: "tty", 5: "tty", 7: "loop", 10: "misc", 13: "input", 29: "fb", 136: "pts", 195: "nvidia", 226: "drm", 259: "blkext"}
	keys := make([]string, 0, len(p.Majors))
	for name := range p.Majors {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	for _, name := range keys {
		n := p.Majors[name]
		if other, ok := names[n]; ok {
			r.failAt("majors."+name, fmt.Errorf("major %d belongs to %s", n, other))
		} else if err := (hosts.Drivers{Majors: map[uint32]bool{n: true}}).Check(n, 0); err != nil {
			r.failAt("majors."+name, err)
		}
		names[n] = name
	}
}
