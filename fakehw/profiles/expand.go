package profiles

import (
	"fmt"
	"regexp"
	"slices"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
	"gpurig/fixtures/hosts"
)

var gpuUUID = regexp.MustCompile(`^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Model returns the flat description of the host. The error says that the profile
// was not loaded.
func (p Profile) Model() (host.Model, error) {
	if p.model == nil {
		return host.Model{}, fmt.Errorf("profile %q was not loaded", p.Name)
	}
	return p.model.Clone(), nil
}

// expand makes the model: hardware, then the kernel's own drivers, then
// NVIDIA's, then MIG. Fail notes a mistake at a path of the file.
func (p *Profile) expand(fail func(path string, err error)) (host.Model, error) {
	m := host.Model{Arch: p.arch(), Kernel: p.Kernel, Cmdline: p.cmdline(), OS: p.os(), IOMMU: p.IOMMU}
	p.tegra(&m)
	p.hardware(&m)
	p.userspace(&m)
	for _, n := range p.Nodes {
		m.Nodes = append(m.Nodes, n)
	}
	m = fakehw.Bind(m, p.Majors)
	if p.Driver != nil {
		loaded, err := fakehw.Load(m, fakehw.DriverOptions{
			Version: p.Driver.Version, Open: p.Driver.Open, Modules: p.Driver.Modules, Majors: p.Majors, IMEXChannels: p.IMEX,
		})
		if err != nil {
			fail("driver", err)
			return host.Model{}, nil
		}
		m = loaded
	}
	if p.Driver != nil && p.Driver.VGPU != "" {
		next, err := fakehw.WithVGPUs(m, p.Driver.VGPU, p.Majors)
		if err != nil {
			fail("driver.vgpu", err)
			return host.Model{}, nil
		}
		m = next
	}
	for i, name := range p.Drivers {
		next, err := fakehw.WithPCIDriver(m, name, p.Majors)
		if err != nil {
			fail(fmt.Sprintf("drivers[%d]", i), err)
			return host.Model{}, nil
		}
		m = next
	}
	m, err := fakehw.WithGPUDirect(m, p.GPUDirect, p.Majors)
	if err != nil {
		fail("gpudirect", err)
		return host.Model{}, nil
	}
	p.unique(&m, fail)
	m = p.mig(m, fail)
	for i, path := range p.Without {
		next, err := fakehw.WithoutNode(m, path)
		if err != nil {
			fail(fmt.Sprintf("without[%d]", i), err)
			continue
		}
		m = next
	}
	p.nodeMajors(&m, fail)
	return m, nil
}

func (p *Profile) arch() string {
	switch {
	case p.Arch != "":
		return p.Arch
	case p.Tegra != nil:
		return "aarch64"
	}
	return "x86_64"
}

func (p *Profile) cmdline() string {
	if p.Cmdline != "" {
		return p.Cmdline
	}
	line := "BOOT_IMAGE=/boot/vmlinuz-" + p.Kernel + " root=/dev/sda2 ro"
	if p.IOMMU && p.arch() == "x86_64" {
		line += " intel_iommu=on iommu=pt"
	}
	return line
}

func (p *Profile) os() host.OS {
	o := host.OS{ID: p.OS.ID, VersionID: p.OS.Version}
	if known, err := catalog.FindOS(p.OS.ID); err == nil {
		o.MergedUsr = known.MergedUsr
	}
	if p.OS.MergedUsr != nil {
		o.MergedUsr = *p.OS.MergedUsr
	}
	return o
}

func (p *Profile) tegra(m *host.Model) {
	if p.Tegra == nil {
		return
	}
	b, err := catalog.FindBoard(p.Tegra.Board)
	if err != nil {
		return // check has said so
	}
	csv := slices.Clone(p.Tegra.CSV)
	slices.Sort(csv)
	m.Tegra = &host.Tegra{
		Chip: b.Chip, Model: b.Model, Compatible: slices.Clone(b.Compatible),
		Release: p.Tegra.Release, Revision: p.Tegra.Revision, CSV: csv,
	}
	if b.Platform != "" {
		m.GPUs = append(m.GPUs, host.GPU{Platform: b.Platform, Minor: -1, Index: -1, Card: -1, Render: -1})
	}
}

// hardware adds the PCI functions as they are before any driver.
func (p *Profile) hardware(m *host.Model) {
	group := p.freeGroups()
	for _, e := range p.GPUs {
		product, board, err := p.product(e.Product)
		if err != nil {
			continue
		}
		for i, a := range e.At {
			f := p.function(product, e, i, a, group)
			f.Board = board
			f.Driver = e.Driver
			switch {
			case e.Driver == "none":
				f.Driver = ""
			case e.Driver == "vfio-pci":
				f.Override = e.Driver
			case e.Driver == "" && product.Driver != "nvidia":
				f.Driver = product.Driver
			}
			g := host.GPU{PCI: &f, Minor: or(e.Minors, i), Index: or(e.Indexes, i), Card: or(e.Cards, i), Render: or(e.Renders, i)}
			if len(e.UUIDs) > 0 {
				g.UUID = e.UUIDs[i]
			}
			if n := map[string]int{"DPX": 2, "QPX": 4, "CPX": 8}[e.Partitions]; n > 0 {
				g.Partitions = slices.Repeat([]host.Partition{{Card: -1, Render: -1}}, n-1) // Bind numbers them
			}
			m.GPUs = append(m.GPUs, g)
			for _, c := range product.Companions {
				b := a
				b.Function = c.Function
				m.Companions = append(m.Companions, host.PCIFunction{
					BDF: b, ID: c.ID, Class: c.Class, Revision: 0xa1, Driver: c.Driver,
					NUMANode: f.NUMANode, IOMMUGroup: f.IOMMUGroup, BARs: slices.Clone(c.BARs),
				})
			}
		}
	}
	for _, e := range p.NVSwitches {
		product, err := catalog.Find(e.Product)
		if err != nil {
			continue
		}
		for i, a := range e.At {
			m.NVSwitches = append(m.NVSwitches, p.function(product, e, i, a, group))
		}
	}
}

func or(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return -1
}

func (p *Profile) function(product catalog.Product, e GPU, i int, a pci.BDF, group func() int) host.PCIFunction {
	f := host.PCIFunction{
		BDF: a, ID: product.ID, Class: product.Class, Revision: product.Revision,
		NUMANode: or(e.NUMA, i), IOMMUGroup: -1, BARs: slices.Clone(product.BARs),
	}
	if p.IOMMU {
		if f.IOMMUGroup = or(e.Groups, i); f.IOMMUGroup < 0 {
			f.IOMMUGroup = group()
		}
	}
	return f
}

// freeGroups returns a counter over group numbers that the file does not use.
func (p *Profile) freeGroups() func() int {
	used := map[int]bool{}
	for _, e := range slices.Concat(p.GPUs, p.NVSwitches) {
		for _, g := range e.Groups {
			used[g] = true
		}
	}
	next := 15
	return func() int {
		next++
		for used[next] {
			next++
		}
		return next
	}
}

func (p *Profile) userspace(m *host.Model) {
	u := p.Userspace
	if u.none() || p.Driver == nil && u.Version == "" {
		return
	}
	version := u.Version
	if version == "" {
		version = p.Driver.Version
	}
	if d, err := catalog.FindDriver(version); err == nil {
		version = d.Version
	}
	m.Userspace = &host.Userspace{
		Version: version, DriverRoot: u.Root, LibDir: u.LibDir, StorePath: u.StorePath,
		Persist: u.Persist, Fabric: u.FabricMgr, MPS: u.MPS, VGPU: p.Driver != nil && p.Driver.VGPU != "",
	}
	if u.LibDir == "" {
		if o, err := catalog.FindOS(p.OS.ID); err == nil {
			m.Userspace.LibDir = o.LibDir(m.Arch)
		}
		if m.Tegra != nil {
			m.Userspace.LibDir = "/usr/lib/aarch64-linux-gnu/nvidia"
		}
	}
}

// unique refuses numbers that two GPUs share.
func (p *Profile) unique(m *host.Model, fail func(string, error)) {
	type key struct {
		kind string
		n    int
	}
	seen := map[key]string{}
	for _, g := range m.GPUs {
		name := g.Platform
		if g.PCI != nil {
			name = g.PCI.BDF.String()
		}
		for _, k := range []key{{"minor", g.Minor}, {"NVML index", g.Index}, {"card", g.Card}, {"render node", g.Render}} {
			if other, ok := seen[k]; ok && k.n >= 0 {
				fail("gpus", fmt.Errorf("%s %d is given to %s and to %s", k.kind, k.n, other, name))
			}
			seen[k] = name
		}
	}
	n := len(m.NVIDIAGPUs())
	for _, g := range m.GPUs {
		if g.Index >= n {
			fail("gpus", fmt.Errorf("NVML index %d with %d NVIDIA GPUs: indexes leave no gap", g.Index, n))
		}
	}
}

// mig gives the GPUs of each entry its geometry.
func (p *Profile) mig(m host.Model, fail func(string, error)) host.Model {
	for i, e := range p.GPUs {
		if !e.MIGEnabled {
			continue
		}
		var indexes []int
		for _, g := range m.GPUs {
			if g.PCI != nil && slices.Contains(e.At, g.PCI.BDF) {
				indexes = append(indexes, g.Index)
			}
		}
		next, err := fakehw.WithMIGs(m, indexes, e.MIG, false)
		if err != nil {
			fail(fmt.Sprintf("gpus[%d].mig", i), err)
			continue
		}
		m = next
	}
	return m
}

// nodeMajors checks that /proc/devices has a line for every node, also for those
// that the file adds by hand.
func (p *Profile) nodeMajors(m *host.Model, fail func(string, error)) {
	for i, n := range p.Nodes {
		// Its own line is looked for below, and a misc driver comes with its node.
		own := hosts.Drivers{Majors: map[uint32]bool{n.Num.Major: true}, Misc: map[uint32]bool{n.Num.Minor: true}}
		err := own.Check(n.Num.Major, n.Num.Minor)
		if n.Type != device.Char {
			err = hosts.ErrBlock
		}
		if err != nil {
			fail(fmt.Sprintf("nodes[%d].number", i), err)
			continue
		}
		line := func(x host.Major) bool { return x.Major == n.Num.Major && x.Type == n.Type }
		if slices.ContainsFunc(m.Majors, line) {
			continue
		}
		name := standardMajor(n)
		for k, v := range p.Majors {
			if v == n.Num.Major {
				name = k
			}
		}
		if name == "" {
			fail(fmt.Sprintf("nodes[%d].number", i), fmt.Errorf("nothing has major %d; name it in majors", n.Num.Major))
			continue
		}
		m.Majors = append(m.Majors, host.Major{Major: n.Num.Major, Name: name, Type: n.Type})
	}
	slices.SortFunc(m.Majors, func(a, b host.Major) int {
		if a.Major != b.Major {
			return int(a.Major) - int(b.Major)
		}
		return slices.Compare([]byte(a.Name), []byte(b.Name))
	})
}

// standardMajor names the fixed majors that nodes made by hand may have.
func standardMajor(n device.Node) string {
	return map[uint32]string{1: "mem", 10: "misc"}[n.Num.Major]
}
