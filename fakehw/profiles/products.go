package profiles

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// A Product is a GPU that the catalogue does not have.
type Product struct {
	Like       string `yaml:"like"` // a product of the catalogue that has what is not said here; empty: none
	IDs        string `yaml:"ids"`  // pci.ParseID
	Class      string `yaml:"class" words:"vga 3d accelerator"`
	Name       string `yaml:"name"`
	Driver     string `yaml:"driver" words:"nvidia amdgpu i915 xe"`
	MemoryMiB  int    `yaml:"memory-mib" range:"0..16777216"`
	ComputeCap string `yaml:"compute-capability"`
	VBIOS      string `yaml:"vbios"`
	BARs       []BAR  `yaml:"bars" max:"7"`
	MIG        []MIG  `yaml:"mig" max:"32"` // nil: as Like has it; empty: none

	made  catalog.Product
	board host.Board
}

// A BAR is one window of a function.
type BAR struct {
	Index    int    `yaml:"index" range:"0..6"` // 6: the ROM
	Size     string `yaml:"size"`               // "16M": bytes, or K, M, G and T of them; a power of two
	Prefetch bool   `yaml:"prefetchable"`       // 64-bit, as the large ones are
	IO       bool   `yaml:"io"`
}

// MIG is one kind of GPU instance.
type MIG struct {
	Name      string `yaml:"name"` // its compute slices are in it
	ID        int    `yaml:"id" range:"0..255"`
	Count     int    `yaml:"count" range:"1..8"`
	Size      int    `yaml:"size" range:"1..8"` // memory slices
	Starts    []int  `yaml:"starts,single" range:"0..7" max:"8"`
	MemoryMiB int    `yaml:"memory-mib" range:"1..16777216"`
	SMs       int    `yaml:"multiprocessors" range:"1..1024"`
}

var (
	migName    = regexp.MustCompile(`^([1234678])g\.[0-9]{1,4}gb(\+me|-me|\+gfx|\+me\.all)?$`)
	computeCap = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]$`)
	classes    = map[string]pci.Class{"vga": pci.ClassVGA, "3d": pci.Class3D, "accelerator": pci.ClassAccel}
	vendors    = map[uint16]struct{ driver, class string }{
		pci.NVIDIA: {"nvidia", "3d"}, pci.AMD: {"amdgpu", "accelerator"}, pci.Intel: {"i915", "vga"},
	}
)

// product returns what a name means in this file, and what a model says of its board: nil
// for a product of the catalogue.
func (p *Profile) product(name string) (catalog.Product, *host.Board, error) {
	if own, ok := p.Products[name]; ok {
		return own.made, &own.board, nil
	}
	out, err := catalog.Find(name)
	return out, nil, err
}

// checkProducts makes the products that the file describes.
func (p *Profile) checkProducts(r reader) {
	for _, name := range slices.Sorted(maps.Keys(p.Products)) {
		at := "products." + name
		if _, err := catalog.Find(name); err == nil {
			r.failAt(at, errors.New("the catalogue has a product of that name"))
			continue
		}
		own := p.Products[name]
		own.make(func(key string, err error) { r.failAt(at+key, err) })
		p.Products[name] = own
	}
}

// make fills in what f becomes; fail notes a mistake at a key, ".ids".
func (f *Product) make(fail func(key string, err error)) {
	p := &f.made
	if f.Like != "" {
		like, err := catalog.Find(f.Like)
		if err == nil && (like.ID == pci.ID{} || vendors[like.ID.Vendor].driver == "" || like.Driver == "nvidia-nvswitch") {
			err = fmt.Errorf("%s is no GPU that can be put into a slot", f.Like)
		}
		if err != nil {
			fail(".like", err)
			return
		}
		*p = like
	}
	id, err := pci.ParseID(f.IDs)
	vendor, known := vendors[id.Vendor]
	switch {
	case f.IDs == "":
		err = missing
	case err != nil:
	case !known:
		err = fmt.Errorf("vendor %04x; want 10de (NVIDIA), 1002 (AMD) or 8086 (Intel)", id.Vendor)
	case f.Like != "" && p.ID.Vendor != id.Vendor:
		err = fmt.Errorf("vendor %04x, and %s is of %04x", id.Vendor, f.Like, p.ID.Vendor)
	}
	if err != nil {
		fail(".ids", err)
		return
	}
	if p.ID = id; f.Like == "" {
		p.Class, p.Driver, p.Revision = classes[vendor.class], vendor.driver, 0xa1
	}
	set(&p.Driver, f.Driver)
	set(&p.Name, f.Name)
	set(&p.ComputeCap, f.ComputeCap)
	set(&p.VBIOS, f.VBIOS)
	set(&p.Class, classes[f.Class])
	set(&p.MemoryMiB, uint64(f.MemoryMiB))
	switch nvidia := id.Vendor == pci.NVIDIA; {
	case p.Driver != vendor.driver && (id.Vendor != pci.Intel || p.Driver != "xe"):
		fail(".driver", fmt.Errorf("%s does not run boards of vendor %04x", p.Driver, id.Vendor))
	case nvidia && p.Name == "":
		fail(".name", errors.New("missing: what NVIDIA's driver calls it"))
	case nvidia && p.MemoryMiB == 0:
		fail(".memory-mib", missing)
	case nvidia && !computeCap.MatchString(p.ComputeCap):
		fail(".compute-capability", fmt.Errorf("%q; want it like \"8.9\", in quotes", p.ComputeCap))
	}
	if f.BARs != nil {
		p.BARs = f.windows(fail)
	} else if f.Like == "" {
		fail(".bars", errors.New("missing: the windows, as lspci -v lists them"))
	}
	if f.MIG != nil {
		p.MIG = f.profiles(fail)
	}
	if len(p.MIG) > 0 && p.Driver != "nvidia" {
		fail(".mig", errors.New("MIG is NVIDIA's"))
	}
	f.board = host.Board{Like: f.Like, Name: p.Name, Driver: p.Driver, MemoryMiB: p.MemoryMiB, ComputeCap: p.ComputeCap, VBIOS: p.VBIOS, MIG: p.MIG}
	p.Slices = 0
	*p, _ = catalog.Of(host.PCIFunction{ID: p.ID, Class: p.Class, Revision: p.Revision, BARs: p.BARs, Board: &f.board})
}

// set gives a value that was told.
func set[T comparable](to *T, told T) {
	var nothing T
	if told != nothing {
		*to = told
	}
}

func (f *Product) windows(fail func(string, error)) []host.BAR {
	var out []host.BAR
	for i, b := range f.BARs {
		at := fmt.Sprintf(".bars[%d]", i)
		size, err := bytes(b.Size)
		bar := host.BAR{Index: b.Index, Size: size, Flags: catalog.Window(b.Prefetch, b.IO, b.Index == 6)}
		switch taken := func(o host.BAR) bool { return o.Index == b.Index }; {
		case err != nil:
			fail(at+".size", err)
		case slices.ContainsFunc(out, taken):
			fail(at+".index", fmt.Errorf("window %d is told twice", b.Index))
		case b.IO && b.Prefetch, b.Index == 6 && (b.IO || b.Prefetch):
			fail(at, errors.New("ports and the ROM are not prefetchable, and the ROM is no ports"))
		case !b.Prefetch && size >= 1<<32:
			fail(at+".size", errors.New("a window of 4G and more is prefetchable"))
		}
		out = append(out, bar)
	}
	slices.SortFunc(out, func(a, b host.BAR) int { return a.Index - b.Index })
	return out
}

// bytes reads "16M".
func bytes(s string) (uint64, error) {
	digits, shift := s, 0
	if i := strings.IndexAny(s, "KMGT"); i == len(s)-1 && i > 0 {
		digits, shift = s[:i], 10*(strings.IndexByte("KMGT", s[i])+1)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if n <<= shift; err != nil || n < 4 || n&(n-1) != 0 || n > 1<<44 {
		return 0, fmt.Errorf("%q; want a power of two with K, M, G or T: 256M", s)
	}
	return n, nil
}

func (f *Product) profiles(fail func(string, error)) []host.MIGProfile {
	var out []host.MIGProfile
	total := 4
	if slices.ContainsFunc(f.MIG, func(m MIG) bool { return m.Size == 8 }) {
		total = 8
	}
	for i, m := range f.MIG {
		at := fmt.Sprintf(".mig[%d]", i)
		name := migName.FindStringSubmatch(m.Name)
		switch {
		case name == nil:
			fail(at+".name", fmt.Errorf("%q; want it as nvidia-smi mig -lgip prints it: 3g.20gb, 1g.5gb+me", m.Name))
			continue
		case slices.ContainsFunc(out, func(o host.MIGProfile) bool { return o.Name == m.Name || o.ID == m.ID }):
			fail(at, fmt.Errorf("the name %s or the id %d is there twice", m.Name, m.ID))
		case m.Count < 1 || m.Size < 1 || m.MemoryMiB < 1 || m.SMs < 1 || len(m.Starts) == 0:
			fail(at, errors.New("count, size, starts, memory-mib and multiprocessors are needed"))
		case m.Size&(m.Size-1) != 0:
			fail(at+".size", fmt.Errorf("%d memory slices; want 1, 2, 4 or 8", m.Size))
		case slices.ContainsFunc(m.Starts, func(s int) bool { return s%m.Size != 0 || s+m.Size > total }):
			fail(at+".starts", fmt.Errorf("%v; an instance of %d slices starts at a multiple of that, and all are %d", m.Starts, m.Size, total))
		}
		compute, _ := strconv.Atoi(name[1])
		out = append(out, host.MIGProfile{
			Name: m.Name, ID: m.ID, Count: m.Count, Compute: compute, Size: m.Size, Starts: slices.Clone(m.Starts),
			MemoryMiB: uint64(m.MemoryMiB), SMs: m.SMs,
		})
	}
	if out != nil && !slices.ContainsFunc(out, func(m host.MIGProfile) bool { return m.Size == total }) {
		fail(".mig", fmt.Errorf("no profile has all %d memory slices", total))
	}
	return out
}
