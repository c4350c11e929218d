// Package catalog has the products that fake hosts consist of: GPUs, NVSwitches
// and other functions of their boards, with PCI and subsystem ids, names, memory,
// windows and MIG geometry; Tegra boards; driver releases; distributions.
//
// It is data with look-up functions. Package profiles says which product is in
// which slot of which host; package fakehw makes files of it.
//
// Sources: pci.ids; the name table of NVIDIA's open kernel modules; scrubbed
// nvidia-smi captures of k8s-test-infra; the MIG user guide and mig-parted;
// lspci output in public reports. A value without any of these sources is marked
// "unverified".
package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// ErrUnknown marks a name that the catalogue does not have.
var ErrUnknown = errors.New("not in the catalogue")

// An UnknownError says which name is not there and which are.
type UnknownError struct {
	Kind  string   // "product", "Tegra board", "driver"
	Name  string   // as asked for
	Known []string // what there is, sorted
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s %q: %v; known: %s", e.Kind, e.Name, ErrUnknown, strings.Join(e.Known, ", "))
}

func (e *UnknownError) Unwrap() error { return ErrUnknown }

// A Product is one kind of PCI function, or Tegra's integrated GPU.
type Product struct {
	Key        string    // how profiles name it: "a100-sxm4-40gb"
	Name       string    // as its driver names it; empty: the driver gives no name
	ID         pci.ID    // zero for a platform device
	Class      pci.Class // zero for a platform device
	Revision   uint8
	MemoryMiB  uint64 // as NVML or amdgpu reports it; zero: not reported
	ComputeCap string // "8.0"
	VBIOS      string
	DMABits    int // "DMA Size" in procfs
	BARs       []host.BAR
	MIG        []MIGProfile // none: not capable of MIG
	Slices     int          // memory slices that MIG placements count in: 8, or 4
	Persistent bool         // MIG mode outlives a reboot (Ampere); newer ones start with it off
	Companions []Companion  // other functions of the board
	Driver     string       // kernel driver: "nvidia", "amdgpu", "i915", "xe", "ast", "nvgpu"
	Render     bool         // has a DRM render node when its driver is loaded
	Connectors []string     // of the card node: "DP-1", "HDMI-A-1"
}

// A Companion is a further function of a board: audio, USB, UCSI.
type Companion struct {
	Function uint8
	ID       pci.ID
	Class    pci.Class
	Driver   string
	BARs     []host.BAR
}

// Flags of a line of the sysfs file "resource" (include/linux/ioport.h), as seen
// on real boards.
const (
	flagsMem32 = 0x40200
	flagsMem64 = 0x140204
	flagsPref  = 0x14220c
	flagsIO    = 0x40101
	flagsROM   = 0x46200
)

const (
	kib = uint64(1) << 10
	mib = uint64(1) << 20
	gib = uint64(1) << 30
)

// Window returns the flags of a window: of prefetchable memory, which is 64-bit, of
// ports, of a ROM, or of memory.
func Window(prefetch, io, rom bool) uint64 {
	switch {
	case rom:
		return flagsROM
	case io:
		return flagsIO
	case prefetch:
		return flagsPref
	}
	return flagsMem32
}

func nv(device, sub uint16) pci.ID {
	return pci.ID{Vendor: pci.NVIDIA, Device: device, SubVendor: pci.NVIDIA, SubDevice: sub}
}

// early are the windows of Turing, Ampere and Ada: indexes 0, 1 and 3.
func early(vram uint64) []host.BAR {
	return []host.BAR{
		{Index: 0, Size: 16 * mib, Flags: flagsMem32},
		{Index: 1, Size: vram, Flags: flagsPref},
		{Index: 3, Size: 32 * mib, Flags: flagsPref},
	}
}

// late are the windows of Hopper and newer: all prefetchable, indexes 0, 2, 4.
func late(vram uint64) []host.BAR {
	return []host.BAR{
		{Index: 0, Size: 16 * mib, Flags: flagsPref},
		{Index: 2, Size: vram, Flags: flagsPref},
		{Index: 4, Size: 32 * mib, Flags: flagsPref},
	}
}

// geforce adds the I/O window and the ROM that boards with outputs have.
func geforce(vram uint64) []host.BAR {
	return append(early(vram),
		host.BAR{Index: 5, Size: 128, Flags: flagsIO},
		host.BAR{Index: 6, Size: 512 * kib, Flags: flagsROM})
}

func audio(vendor, device, subVendor, subDevice uint16) Companion {
	return Companion{
		Function: 1, Class: pci.ClassAudio, Driver: "snd_hda_intel",
		ID:   pci.ID{Vendor: vendor, Device: device, SubVendor: subVendor, SubDevice: subDevice},
		BARs: []host.BAR{{Index: 0, Size: 16 * kib, Flags: flagsMem32}},
	}
}

var outputs = []string{"DP-1", "DP-2", "DP-3", "HDMI-A-1"}

// Products returns the whole catalogue, by key. The slice is the caller's, what
// it points to is not.
func Products() []Product { return slices.Clone(products()) }

var products = sync.OnceValue(func() []Product {
	out := slices.Concat(datacentre, workstation, fabric, others)
	slices.SortFunc(out, func(a, b Product) int { return cmp.Compare(a.Key, b.Key) })
	return out
})

// Find returns the product of this name: its key, what its driver calls it, or its ids
// ("10de:20b0", with the subsystem "10de:20b0:10de:134f"), whatever the case. The error is
// an *UnknownError.
func Find(name string) (Product, error) {
	all := products()
	for _, p := range all {
		if p.Key == name || name != "" && strings.EqualFold(p.Name, name) {
			return p, nil
		}
	}
	if id, err := pci.ParseID(name); err == nil {
		if p, ok := ByID(id); ok {
			return p, nil
		}
	}
	var keys []string
	for _, p := range all {
		keys = append(keys, p.Key)
	}
	return Product{}, &UnknownError{Kind: "product", Name: name, Known: keys}
}

// Of returns what a function is: by what its model says of the board, else by its ids.
func Of(f host.PCIFunction) (Product, bool) {
	b := f.Board
	if b == nil {
		return ByID(f.ID)
	}
	p, err := Find(b.Like)
	if err != nil {
		p = Product{DMABits: 47, Render: true}
	}
	p.ID, p.Class, p.Revision, p.BARs = f.ID, f.Class, f.Revision, f.BARs
	p.Name, p.Driver, p.MemoryMiB, p.ComputeCap, p.VBIOS, p.MIG = b.Name, b.Driver, b.MemoryMiB, b.ComputeCap, b.VBIOS, b.MIG
	p.Persistent, p.Slices = strings.HasPrefix(b.ComputeCap, "8."), 0
	for _, m := range p.MIG {
		p.Slices = max(p.Slices, m.Size)
	}
	return p, true
}

// OfGPU is Of for the function of a GPU; a GPU that is part of an SoC has none.
func OfGPU(g host.GPU) (Product, bool) {
	if g.PCI == nil {
		return Product{}, false
	}
	return Of(*g.PCI)
}

// ByID returns the product with these ids. Boards that share a device id are
// told apart by their subsystem; where only the subsystem is unknown, the first
// product with the device id is returned.
func ByID(id pci.ID) (Product, bool) {
	var near *Product
	for _, group := range [][]Product{datacentre, workstation, fabric, others} {
		for i := range group {
			p := &group[i]
			switch {
			case p.ID == (pci.ID{}):
			case p.ID == id:
				return *p, true
			case near == nil && p.ID.Vendor == id.Vendor && p.ID.Device == id.Device:
				near = p
			}
		}
	}
	if near == nil {
		return Product{}, false
	}
	return *near, true
}
