// Package elfgen writes tiny but real ELF files: shared objects that a dynamic
// linker loads, and static programs that print what they stand for.
//
// They take the place of NVIDIA's libraries and tools on a fake machine, so
// that programs that read such files (ldconfig, nvcdi, a loader, a container) find
// a SONAME, a machine type and a content that differs from version to version.
// They do nothing else; a working libcuda is in package cudalib.
//
// Reference: the System V ABI with its x86-64 and AArch64 supplements.
package elfgen

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrArch marks an architecture that this package has no ELF for.
	ErrArch = errors.New("architecture is not x86_64, aarch64 or, of a library, i386 or x32")
	// ErrFunction marks a function whose number is none, or over 65,535.
	ErrFunction = errors.New("function is not NAME or NAME=NUMBER")
)

// An Object says what to write. It is comparable, so it can be a map key; equal
// Objects give equal bytes.
type Object struct {
	Arch    string // uname -m: "x86_64", "aarch64"; of a library also "i386" and "x32", whose addresses have 32 bits
	Name    string // of the file without its version: "libcuda.so", "nvidia-smi"
	Version string // "550.163.01"
	SONAME  string // of a library; empty: it has none
	Needed  string // DT_NEEDED of a library; empty: none

	// Functions are what a library exports, "cuInit=100 cuCtxGetId=3": each
	// does nothing and returns its number, zero if it has none. A program that
	// opens a library and calls a function that is not there dies of it, so a
	// library that does nothing must be able to say so.
	Functions string
}

// text is what the file is about, for people and for strings(1).
func (o Object) text() string { return o.Name + " " + o.Version }

// Values of e_machine and the segment alignment that loaders of each
// architecture ask for: AArch64 kernels may have pages of 64 KiB.
type machine struct {
	id     uint16
	align  uint64
	narrow bool // its addresses have 32 bits
}

func machineOf(arch string) (machine, error) {
	switch arch {
	case "x86_64":
		return machine{id: 62, align: 0x1000}, nil
	case "aarch64":
		return machine{id: 183, align: 0x10000}, nil
	case "i386":
		return machine{id: 3, align: 0x1000, narrow: true}, nil
	case "x32":
		return machine{id: 62, align: 0x1000, narrow: true}, nil
	}
	return machine{}, fmt.Errorf("ELF file for %q: %w", arch, ErrArch)
}

// Constants of the ELF specification, by their names there.
const (
	etExec, etDyn = 2, 3

	ptLoad, ptDynamic, ptNote, ptGNUStack = 1, 2, 4, 0x6474e551
	pfX, pfW, pfR                         = 1, 2, 4

	dtNull, dtNeeded, dtHash, dtStrtab, dtSymtab, dtStrsz, dtSyment, dtSONAME = 0, 1, 4, 5, 6, 10, 11, 14

	shtProgbits, shtStrtab, shtHash, shtDynamic, shtNote, shtDynsym = 1, 3, 5, 6, 7, 11
	shfWrite, shfAlloc, shfExec                                     = 1, 2, 4
)

// sizes are those of the parts that differ between the classes, in bytes.
type sizes struct{ ehdr, phdr, shdr, sym, dyn uint64 }

func (m machine) sizes() sizes {
	if m.narrow {
		return sizes{ehdr: 52, phdr: 32, shdr: 40, sym: 16, dyn: 8}
	}
	return sizes{ehdr: 64, phdr: 56, shdr: 64, sym: 24, dyn: 16}
}

// An image is a file under construction.
type image struct {
	machine
	data []byte
}

func (b *image) at() uint64 { return uint64(len(b.data)) }

func (b *image) raw(p []byte)  { b.data = append(b.data, p...) }
func (b *image) text(s string) { b.data = append(b.data, s...) }

func (b *image) align(n int) {
	for len(b.data)%n != 0 {
		b.data = append(b.data, 0)
	}
}

func (b *image) u32(v ...uint32) {
	for _, x := range v {
		b.data = binary.LittleEndian.AppendUint32(b.data, x)
	}
}

func (b *image) u64(v ...uint64) {
	for _, x := range v {
		b.data = binary.LittleEndian.AppendUint64(b.data, x)
	}
}

// word writes addresses, offsets and sizes in the width of the class.
func (b *image) word(v ...uint64) {
	if !b.narrow {
		b.u64(v...)
		return
	}
	for _, x := range v {
		b.u32(uint32(x))
	}
}

// A segment is one program header.
type segment struct {
	kind, flags     uint32
	off, addr, size uint64
	align           uint64
}

// A section is one section header. Loaders need none; debug/elf of Go, and so
// nvcdi, finds the SONAME through them.
type section struct {
	name             string
	kind             uint32
	flags            uint64
	addr, off, size  uint64
	link, info       uint32
	align, entrySize uint64
}

// notes writes a build ID, which differs for every Object, and a note with the
// Object's text.
func (b *image) notes(o Object) (off, size uint64) {
	b.align(4)
	off = b.at()
	sum := sha256.Sum256([]byte(strings.Join([]string{o.Arch, o.Name, o.Version, o.SONAME, o.Needed, o.Functions}, "\x00")))
	b.u32(4, 20, 3) // NT_GNU_BUILD_ID
	b.text("GNU\x00")
	b.raw(sum[:20])
	b.u32(8, uint32(len(o.text())+1), 1)
	b.text("gpurig\x00\x00")
	b.text(o.text())
	b.raw([]byte{0})
	b.align(4)
	return off, b.at() - off
}

// finish appends the section table and fills in the headers at the start.
func (b *image) finish(kind uint16, entry uint64, segs []segment, secs []section) []byte {
	names := []byte{0}
	secs = append([]section{{}}, secs...)
	secs = append(secs, section{name: ".shstrtab", kind: shtStrtab, align: 1})
	index := make([]uint32, len(secs))
	for i := range secs {
		if secs[i].name != "" {
			index[i] = uint32(len(names))
			names = append(append(names, secs[i].name...), 0)
		}
	}
	last := &secs[len(secs)-1]
	last.off, last.size = b.at(), uint64(len(names))
	b.raw(names)
	b.align(8)
	shoff := b.at()
	for i, s := range secs {
		b.u32(index[i], s.kind)
		b.word(s.flags, s.addr, s.off, s.size)
		b.u32(s.link, s.info)
		b.word(s.align, s.entrySize)
	}

	h, z := image{machine: b.machine}, b.sizes()
	class := byte(2)
	if b.narrow {
		class = 1
	}
	h.raw(append([]byte{0x7f, 'E', 'L', 'F', class, 1, 1}, make([]byte, 9)...))
	h.u32(uint32(kind)|uint32(b.id)<<16, 1)
	h.word(entry, z.ehdr, shoff)
	h.u32(0, uint32(z.ehdr|z.phdr<<16), uint32(len(segs))|uint32(z.shdr)<<16, uint32(len(secs))|uint32(len(secs)-1)<<16)
	for _, s := range segs {
		if b.narrow { // the flags come later there
			h.u32(s.kind)
			h.word(s.off, s.addr, s.addr, s.size, s.size)
			h.u32(s.flags, uint32(s.align))
			continue
		}
		h.u32(s.kind, s.flags)
		h.word(s.off, s.addr, s.addr, s.size, s.size, s.align)
	}
	copy(b.data, h.data)
	return b.data
}

// newImage leaves room for the headers.
func newImage(m machine, segments uint64) *image {
	return &image{machine: m, data: make([]byte, m.sizes().ehdr+segments*m.sizes().phdr, 1536)}
}
