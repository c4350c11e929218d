package profiles

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/fault"
)

// read fills p from the top of a document.
func (p *Profile) read(r *reader, n ast.Node) {
	r.mapping("", n, fields{
		"arch":          func(at string, n ast.Node) { p.Arch = r.oneOf(at, n, "x86_64", "aarch64") },
		"kernel":        func(at string, n ast.Node) { p.Kernel = r.text(at, n) },
		"cmdline":       func(at string, n ast.Node) { p.Cmdline = r.text(at, n) },
		"os":            func(at string, n ast.Node) { p.readOS(r, at, n) },
		"iommu":         func(at string, n ast.Node) { p.IOMMU = r.flag(at, n) },
		"driver":        func(at string, n ast.Node) { p.readDriver(r, at, n) },
		"drivers":       func(at string, n ast.Node) { p.Drivers = r.texts(at, n, 16) },
		"userspace":     func(at string, n ast.Node) { p.readUserspace(r, at, n) },
		"gpus":          func(at string, n ast.Node) { p.readGPUs(r, at, n) },
		"nvswitches":    func(at string, n ast.Node) { p.NVSwitches = []GPU{readSwitches(r, at, n)} },
		"imex-channels": func(at string, n ast.Node) { p.IMEX = r.number(at, n, 0, maxIMEX) },
		"gpudirect":     func(at string, n ast.Node) { p.readGPUDirect(r, at, n) },
		"tegra":         func(at string, n ast.Node) { p.readTegra(r, at, n) },
		"majors":        func(at string, n ast.Node) { p.readMajors(r, at, n) },
		"nodes":         func(at string, n ast.Node) { p.readNodes(r, at, n) },
		"without":       func(at string, n ast.Node) { p.Without = r.paths(at, n, "/dev/") },
		"faults":        func(at string, n ast.Node) { p.readFaults(r, at, n) },
	})
}

func (p *Profile) readFaults(r *reader, at string, n ast.Node) {
	r.list(at, n, maxFaults, func(at string, n ast.Node) {
		text := r.text(at, n)
		if text == "" {
			return
		}
		f, err := fault.Parse(text)
		if err == nil {
			if with, clash := p.Faults.With(f); clash == nil {
				p.Faults = with
			} else {
				err = clash
			}
		}
		if err != nil {
			r.fail(n, at, "%v", err)
		}
	})
}

func (p *Profile) readOS(r *reader, at string, n ast.Node) {
	r.mapping(at, n, fields{
		"id":      func(at string, n ast.Node) { p.OS.ID = r.text(at, n) },
		"version": func(at string, n ast.Node) { p.OS.Version = r.text(at, n) },
		"merged-usr": func(at string, n ast.Node) {
			v := r.flag(at, n)
			p.OS.MergedUsr = &v
		},
	})
}

func (p *Profile) readDriver(r *reader, at string, n ast.Node) {
	p.Driver = &Driver{}
	r.mapping(at, n, fields{
		"version": func(at string, n ast.Node) { p.Driver.Version = r.text(at, n) },
		"open":    func(at string, n ast.Node) { p.Driver.Open = r.flag(at, n) },
		"modules": func(at string, n ast.Node) { p.Driver.Modules = r.texts(at, n, 16) },
		"vgpu":    func(at string, n ast.Node) { p.Driver.VGPU = r.oneOf(at, n, host.VGPUMDev, host.VGPUVendor) },
	})
}

func (p *Profile) readUserspace(r *reader, at string, n ast.Node) {
	u := &p.Userspace
	u.Explicitly = true
	r.mapping(at, n, fields{
		"installed":      func(at string, n ast.Node) { u.None = !r.flag(at, n) },
		"version":        func(at string, n ast.Node) { u.Version = r.text(at, n) },
		"root":           func(at string, n ast.Node) { u.Root = r.path(at, n, "/") },
		"libdir":         func(at string, n ast.Node) { u.LibDir = r.path(at, n, "/") },
		"store-path":     func(at string, n ast.Node) { u.StorePath = r.path(at, n, "/") },
		"persistenced":   func(at string, n ast.Node) { u.Persist = r.flag(at, n) },
		"fabric-manager": func(at string, n ast.Node) { u.FabricMgr = r.flag(at, n) },
		"mps":            func(at string, n ast.Node) { u.MPS = r.flag(at, n) },
	})
}

func (p *Profile) readGPUs(r *reader, at string, n ast.Node) {
	r.list(at, n, maxGPUs, func(at string, n ast.Node) {
		var g GPU
		known := slotFields(r, &g)
		known["minor"] = func(at string, n ast.Node) { g.Minors = r.numbers(at, n, 0, 247) }
		known["index"] = func(at string, n ast.Node) { g.Indexes = r.numbers(at, n, 0, maxGPUs-1) }
		known["card"] = func(at string, n ast.Node) { g.Cards = r.numbers(at, n, 0, 63) }
		known["render"] = func(at string, n ast.Node) { g.Renders = r.numbers(at, n, 128, 191) }
		known["uuid"] = func(at string, n ast.Node) { g.UUIDs = r.texts(at, n, maxGPUs) }
		known["driver"] = func(at string, n ast.Node) { g.Driver = r.oneOf(at, n, "none", "vfio-pci", "nouveau") }
		known["mig"] = func(at string, n ast.Node) { g.MIG, g.MIGEnabled = r.texts(at, n, 16), true }
		r.mapping(at, n, known)
		p.GPUs = append(p.GPUs, g)
	})
}

func (p *Profile) readGPUDirect(r *reader, at string, n ast.Node) {
	r.mapping(at, n, fields{
		"storage": func(at string, n ast.Node) { p.GPUDirect.Storage = r.flag(at, n) },
		"copy":    func(at string, n ast.Node) { p.GPUDirect.Copy = r.flag(at, n) },
		"rdma":    func(at string, n ast.Node) { p.GPUDirect.RDMA = r.number(at, n, 0, maxRDMA) },
	})
}

func readSwitches(r *reader, at string, n ast.Node) GPU {
	var g GPU
	r.mapping(at, n, slotFields(r, &g))
	return g
}

// slotFields are the keys of everything that sits in PCI slots.
func slotFields(r *reader, g *GPU) fields {
	return fields{
		"product":     func(at string, n ast.Node) { g.Product = r.text(at, n) },
		"at":          func(at string, n ast.Node) { g.At = r.addresses(at, n) },
		"numa":        func(at string, n ast.Node) { g.NUMA = r.numbers(at, n, -1, 63) },
		"iommu-group": func(at string, n ast.Node) { g.Groups = r.numbers(at, n, 0, 4095) },
	}
}

func (p *Profile) readTegra(r *reader, at string, n ast.Node) {
	p.Tegra = &Tegra{}
	r.mapping(at, n, fields{
		"board":    func(at string, n ast.Node) { p.Tegra.Board = r.text(at, n) },
		"release":  func(at string, n ast.Node) { p.Tegra.Release = r.oneOf(at, n, "R35", "R36", "R38", "R39") },
		"revision": func(at string, n ast.Node) { p.Tegra.Revision = r.text(at, n) },
		"csv": func(at string, n ast.Node) {
			p.Tegra.CSV = r.texts(at, n, 16)
			for _, name := range p.Tegra.CSV {
				if strings.Contains(name, "/") || !strings.HasSuffix(name, ".csv") {
					r.fail(n, at, "%q is not the name of a CSV file", name)
				}
			}
		},
	})
}

func (p *Profile) readMajors(r *reader, at string, n ast.Node) {
	p.Majors = map[string]uint32{}
	r.mapping(at, n, fields{"*": func(at string, n ast.Node) {
		name := strings.TrimPrefix(at, "majors.")
		p.Majors[name] = uint32(r.number(at, n, 1, 511))
	}})
}

func (p *Profile) readNodes(r *reader, at string, n ast.Node) {
	r.list(at, n, maxEntries, func(at string, n ast.Node) {
		node := device.Node{Type: device.Char, Mode: 0o660}
		r.mapping(at, n, fields{
			"path":   func(at string, n ast.Node) { node.Path = r.path(at, n, "/dev/") },
			"number": func(at string, n ast.Node) { node.Num = r.deviceNumber(at, n) },
			"type":   func(at string, n ast.Node) { node.Type = device.Type(r.oneOf(at, n, "c", "b")) },
			"mode":   func(at string, n ast.Node) { node.Mode = r.mode(at, n) },
			"uid":    func(at string, n ast.Node) { node.UID = uint32(r.number(at, n, 0, 1<<31-1)) },
			"gid":    func(at string, n ast.Node) { node.GID = uint32(r.number(at, n, 0, 1<<31-1)) },
		})
		for _, key := range []string{"path", "number"} {
			if _, ok := r.places[at+"."+key]; !ok {
				r.fail(n, at, "a node needs a %s", key)
			}
		}
		p.Nodes = append(p.Nodes, node)
	})
}

func (r *reader) addresses(at string, n ast.Node) []pci.BDF {
	var out []pci.BDF
	one := func(at string, n ast.Node) {
		text := r.text(at, n)
		if text == "" {
			return
		}
		a, err := pci.ParseBDF(text)
		if err != nil {
			r.fail(n, at, "%v", err)
			return
		}
		out = append(out, a)
	}
	if _, ok := n.(*ast.SequenceNode); ok {
		r.list(at, n, maxGPUs, one)
	} else {
		one(at, n)
	}
	return out
}

// path reads a clean path below prefix.
func (r *reader) path(at string, n ast.Node, prefix string) string {
	s := r.text(at, n)
	if s == "" {
		return ""
	}
	if !path.IsAbs(s) || path.Clean(s) != s || !strings.HasPrefix(s, prefix) || s == prefix {
		r.fail(n, at, "%q; want a clean path below %s", s, prefix)
		return ""
	}
	return s
}

func (r *reader) paths(at string, n ast.Node, prefix string) []string {
	var out []string
	r.list(at, n, maxEntries, func(at string, n ast.Node) { out = append(out, r.path(at, n, prefix)) })
	return out
}

func (r *reader) deviceNumber(at string, n ast.Node) device.Num {
	s := r.text(at, n)
	if s == "" {
		return device.Num{}
	}
	num, err := device.ParseNum(s)
	if err == nil && !num.Known() {
		err = fmt.Errorf("device number %q: the major is at least 1", s)
	}
	if err != nil {
		r.fail(n, at, "%v", err)
	}
	return num
}

// mode reads permission bits as octal text, "0660".
func (r *reader) mode(at string, n ast.Node) fs.FileMode {
	s := r.text(at, n)
	v, err := strconv.ParseUint(s, 8, 32)
	if err != nil || v > 0o777 || len(s) != 4 {
		r.fail(n, at, "%q; want four octal digits in quotes, \"0660\"", s)
		return 0
	}
	return fs.FileMode(v)
}
