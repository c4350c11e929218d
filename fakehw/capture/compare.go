package capture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/fault"
)

// A Difference is one thing that two machines do not have in common.
type Difference struct {
	Area string `json:"area"`        // "system", "driver", "gpus", …
	What string `json:"what"`        // "0000:07:00.0: minor"
	A    string `json:"a,omitempty"` // what the first machine has; empty: it has no such thing
	B    string `json:"b,omitempty"`
}

// Sentence says the difference in words. The two machines are called a and b.
func (d Difference) Sentence(a, b string) string {
	switch {
	case d.A == "":
		return fmt.Sprintf("%s: %s has %s, %s has none", d.What, b, d.B, a)
	case d.B == "":
		return fmt.Sprintf("%s: %s has %s, %s has none", d.What, a, d.A, b)
	}
	return fmt.Sprintf("%s: %s has %s, %s has %s", d.What, a, d.A, b, d.B)
}

// Compare lists what differs between two machines: system, driver, PCI
// functions, GPUs with their MIG instances, vGPUs, device nodes, majors, and the
// files of the driver. Attributes in /sys and /proc count as far as a model has them,
// and the parameters of the driver's modules. Of a host that is played, what belongs to
// the machine that plays it is no difference. The error says which of the two is
// no machine that can be described.
func Compare(a, b Machine) ([]Difference, error) {
	x, failsInA, err := a.Broken()
	if err != nil {
		return nil, fmt.Errorf("the first machine: %w", err)
	}
	y, failsInB, err := b.Broken()
	if err != nil {
		return nil, fmt.Errorf("the second machine: %w", err)
	}
	played := a.Played || b.Played
	if played {
		x.OS.MergedUsr = y.OS.MergedUsr
	}
	c := &comparison{}
	c.broken(&x, &y, failsInA, failsInB)
	c.software(x, y)
	libs, links, files := fileThings(a, x, played)
	libs2, links2, files2 := fileThings(b, y, played)
	c.things("libraries", libs, libs2)
	c.hardware(x, y)
	c.things("links", links, links2)
	c.things("files", files, files2)
	return c.out, nil
}

// broken compares what does not answer NVML, and lets what NVML would have told of it
// be what the other machine has: it is not known, and so nothing that differs.
func (c *comparison) broken(x, y *host.Model, inX, inY fault.List) {
	faults := func(l fault.List) map[string]thing {
		out := map[string]thing{}
		for _, text := range l.Texts() {
			out[text] = thing{is: "it"}
		}
		return out
	}
	c.things("faults", faults(inX), faults(inY))
	unknown := func(of, as *host.Model, l fault.List) {
		for i := range of.GPUs {
			g := &of.GPUs[i]
			if g.PCI == nil || !slices.ContainsFunc(l.Texts(), func(text string) bool { return strings.Contains(text, g.PCI.BDF.String()) }) {
				continue
			}
			for _, o := range as.GPUs {
				if o.PCI != nil && o.PCI.BDF == g.PCI.BDF {
					g.MemoryMiB, g.ComputeCap, g.VBIOS, g.MIG = o.MemoryMiB, o.ComputeCap, o.VBIOS, o.MIG
				}
			}
		}
	}
	unknown(x, y, inX)
	unknown(y, x, inY)
	if len(inX)+len(inY) == 0 {
		return
	}
	// Stand-ins for UUIDs are numbered, and of a silent GPU it is not known how many
	// MIG devices it has: whoever comes behind has other numbers.
	for _, m := range []*host.Model{x, y} {
		for i := range m.GPUs {
			g := &m.GPUs[i]
			g.UUID = ""
			if g.MIG == nil {
				continue
			}
			for _, gi := range g.MIG.Instances {
				for j := range gi.Compute {
					gi.Compute[j].UUID = ""
				}
			}
		}
	}
}

// CompareModels is Compare without files.
func CompareModels(x, y host.Model) []Difference {
	c := &comparison{}
	c.software(x, y)
	c.hardware(x, y)
	return c.out
}

func (c *comparison) software(x, y host.Model) {
	c.facts("system", systemFacts(x), systemFacts(y))
	c.facts("driver", driverFacts(x), driverFacts(y))
	c.facts("tegra", tegraFacts(x), tegraFacts(y))
	c.facts("libraries", userspaceFacts(x), userspaceFacts(y))
}

func (c *comparison) hardware(x, y host.Model) {
	c.things("gpus", gpuThings(x), gpuThings(y))
	c.things("mig", migThings(x), migThings(y))
	c.things("nvswitches", functionThings(x.NVSwitches), functionThings(y.NVSwitches))
	c.things("companions", functionThings(x.Companions), functionThings(y.Companions))
	c.things("virtual functions", virtualThings(x), virtualThings(y))
	c.things("mediated devices", mediatedThings(x), mediatedThings(y))
	c.things("nodes", nodeThings(x), nodeThings(y))
	c.things("majors", majorThings(x), majorThings(y))
}

// A comparison collects differences.
type comparison struct{ out []Difference }

// A fact is one property with its value as text; empty: not there.
type fact struct{ name, value string }

// facts compares properties that stand in the same order on both sides.
func (c *comparison) facts(area string, a, b []fact) {
	for i := range a {
		if a[i].value != b[i].value {
			c.out = append(c.out, Difference{area, a[i].name, a[i].value, b[i].value})
		}
	}
}

// A thing is there or not; if both machines have it, its facts are compared.
type thing struct {
	is    string // what it is, in few words
	facts []fact
}

func (c *comparison) things(area string, a, b map[string]thing) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a[name]
		y, inB := b[name]
		switch {
		case !inA:
			c.out = append(c.out, Difference{area, name, "", cmp.Or(y.is, "it")})
		case !inB:
			c.out = append(c.out, Difference{area, name, cmp.Or(x.is, "it"), ""})
		default:
			for i := range x.facts {
				if u, v := x.facts[i], y.facts[i]; u.value != v.value {
					c.out = append(c.out, Difference{area, name + ": " + u.name, u.value, v.value})
				}
			}
		}
	}
}

func text(v any) string { return fmt.Sprint(v) }

// number returns a number of a GPU; empty: the GPU has none.
func numberOr(n int) string {
	if n < 0 {
		return ""
	}
	return text(n)
}

func yes(b bool, what string) string {
	if b {
		return what
	}
	return ""
}

func systemFacts(m host.Model) []fact {
	return []fact{
		{"architecture", m.Arch}, {"kernel", m.Kernel}, {"command line", m.Cmdline},
		{"distribution", strings.TrimSpace(m.OS.ID + " " + m.OS.VersionID)},
		{"merged /usr", yes(m.OS.MergedUsr, "a merged /usr")}, {"IOMMU", yes(m.IOMMU, "an IOMMU")},
		{"idle PCI drivers", strings.Join(m.Drivers, " ")}, {"drivers_autoprobe", yes(m.NoProbe, "0")},
	}
}

func driverFacts(m host.Model) []fact {
	d := host.Driver{}
	if m.Driver != nil {
		d = *m.Driver
	}
	return []fact{
		{"version", d.Version}, {"open kernel modules", yes(d.Open, "the open kernel modules")}, {"CUDA", d.CUDA},
		{"modules", strings.Join(d.Modules, " ")}, {"vGPUs", d.VGPU},
	}
}

func userspaceFacts(m host.Model) []fact {
	u := host.Userspace{}
	if m.Userspace != nil {
		u = *m.Userspace
	}
	return []fact{
		{"version", u.Version}, {"driver root", u.DriverRoot}, {"folder", u.LibDir}, {"store path", u.StorePath},
		{"persistence daemon", yes(u.Persist, "its socket")}, {"fabric manager", yes(u.Fabric, "its socket")}, {"MPS", yes(u.MPS, "its folder")}, {"package", yes(u.VGPU, "that of the vGPU manager")},
	}
}

func tegraFacts(m host.Model) []fact {
	t := host.Tegra{}
	if m.Tegra != nil {
		t = *m.Tegra
	}
	return []fact{
		{"chip", t.Chip}, {"board", t.Model}, {"compatible", strings.Join(t.Compatible, " ")},
		{"L4T release", strings.TrimSuffix(t.Release+"."+t.Revision, ".")}, {"CSV files", strings.Join(t.CSV, " ")},
	}
}

func gpuThings(m host.Model) map[string]thing {
	out := map[string]thing{}
	for _, g := range m.GPUs {
		name := g.Platform
		f := host.PCIFunction{NUMANode: -1, IOMMUGroup: -1}
		if g.PCI != nil {
			f, name = *g.PCI, g.PCI.BDF.String()
		}
		t := thing{is: cmp.Or(g.Name, functionThing(f).is)}
		t.facts = append(functionThing(f).facts,
			fact{"name", g.Name}, fact{"UUID", g.UUID}, fact{"minor", numberOr(g.Minor)}, fact{"NVML index", numberOr(g.Index)},
			fact{"card", numberOr(g.Card)}, fact{"render node", numberOr(g.Render)}, fact{"memory, MiB", text(g.MemoryMiB)},
			fact{"compute capability", g.ComputeCap}, fact{"VBIOS", g.VBIOS}, fact{"MIG mode", yes(g.MIG != nil, "on")})
		out[name] = t
	}
	return out
}

func migThings(m host.Model) map[string]thing {
	out := map[string]thing{}
	for _, g := range m.GPUs {
		if g.MIG == nil {
			continue
		}
		at := g.Platform
		if g.PCI != nil {
			at = g.PCI.BDF.String()
		}
		for _, gi := range g.MIG.Instances {
			name := fmt.Sprintf("%s GI %d", at, gi.ID)
			out[name] = thing{is: gi.Profile, facts: []fact{
				{"profile", fmt.Sprintf("%s (%d)", gi.Profile, gi.ProfileID)}, {"placement", fmt.Sprintf("%d:%d", gi.Start, gi.Size)}, {"memory, MiB", text(gi.MemoryMiB)},
			}}
			for _, ci := range gi.Compute {
				out[fmt.Sprintf("%s CI %d", name, ci.ID)] = thing{is: ci.Profile, facts: []fact{
					{"profile", ci.Profile}, {"UUID", ci.UUID}, {"index", text(ci.Index)},
				}}
			}
		}
	}
	return out
}

func functionThings(all []host.PCIFunction) map[string]thing {
	out := map[string]thing{}
	for _, f := range all {
		out[f.BDF.String()] = functionThing(f)
	}
	return out
}

func functionThing(f host.PCIFunction) thing {
	var bars []string
	for _, b := range f.BARs {
		bars = append(bars, fmt.Sprintf("%d:%#x/%#x", b.Index, b.Size, b.Flags))
	}
	return thing{is: f.ID.String(), facts: []fact{
		{"PCI id", f.ID.String()}, {"class", text(f.Class)}, {"revision", text(f.Revision)}, {"bound driver", f.Driver},
		{"NUMA node", numberOr(f.NUMANode)}, {"IOMMU group", numberOr(f.IOMMUGroup)}, {"BARs", strings.Join(bars, " ")},
		{"driver_override", f.Override}, {"device of iommufd", f.VFIODev}, {"SR-IOV", sriovText(f.SRIOV)},
	}}
}

// sriovText is empty for a function that can have no virtual ones.
func sriovText(s *host.SRIOV) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d from %d by %d, device %04x%s", s.Num, s.Total, s.Offset, s.Stride, s.Device, yes(s.NoProbe, ", drivers_autoprobe 0"))
}

func virtualThings(m host.Model) map[string]thing {
	out := map[string]thing{}
	for _, v := range m.VFs {
		t := functionThing(v.PCIFunction)
		t.facts = append(t.facts, fact{"physical function", v.PF.String()}, fact{"vGPU type", yes(v.VGPU != 0, text(v.VGPU))}, fact{"vGPU parameters", v.Params})
		out[v.BDF.String()] = t
	}
	return out
}

func mediatedThings(m host.Model) map[string]thing {
	out := map[string]thing{}
	for _, d := range m.MDevs {
		out[d.UUID] = thing{is: d.Type + " on " + d.Parent.String(), facts: []fact{
			{"parent", d.Parent.String()}, {"type", d.Type}, {"bound driver", d.Driver}, {"IOMMU group", numberOr(d.IOMMUGroup)},
		}}
	}
	return out
}

func nodeThings(m host.Model) map[string]thing {
	out := map[string]thing{}
	for _, n := range m.Nodes {
		at := fmt.Sprintf("%s %s", n.Type, n.Num)
		out[n.Path] = thing{is: at, facts: []fact{
			{"number", at}, {"mode", fmt.Sprintf("%04o", n.Mode)}, {"owner", fmt.Sprintf("%d:%d", n.UID, n.GID)},
		}}
	}
	return out
}

// majorThings is by name and type: one name has one number, but for NVIDIA's own
// that share one.
func majorThings(m host.Model) map[string]thing {
	out := map[string]thing{}
	for _, x := range m.Majors {
		out[fmt.Sprintf("%s (%s)", x.Name, x.Type)] = thing{is: text(x.Major), facts: []fact{{"number", text(x.Major)}}}
	}
	return out
}
