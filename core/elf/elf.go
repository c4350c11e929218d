// Package elf reads from an ELF file what a library cache needs: class,
// machine, type, SONAME, interpreter and the GNU ABI note.
//
// Files come from container images and may be hostile: every offset and count is
// checked before it is used, at most MaxRead bytes are read, nothing panics, and
// a SONAME is returned only if it can be a file name. Deciding which files to read,
// and writing caches, is left to package ldcache.
//
// Reference: the System V ABI (gABI), chapters 4 and 5; elf.h of glibc.
package elf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxRead bounds the bytes that one Read asks for.
const MaxRead = 1 << 20

// Limits on the parts of one file. Real libraries have about ten program
// headers and fifty dynamic entries.
const (
	maxHeaders = 256
	maxDynamic = 64 << 10 // bytes
	maxNotes   = 64 << 10 // bytes
	maxInterp  = 256      // bytes
	maxSONAME  = 255      // bytes

	headSize = 1 << 10 // bytes of a file that are read at once: its headers
)

var (
	// ErrNotELF marks a file that does not start as an ELF file does.
	ErrNotELF = errors.New("not an ELF file")
	// ErrMalformed marks an ELF file whose headers contradict themselves or the
	// file's size, or exceed the limits of this package.
	ErrMalformed = errors.New("malformed ELF file")
	// ErrSONAME marks a SONAME that is no plain file name.
	ErrSONAME = errors.New("SONAME is not a file name")
)

// A Class is the width of addresses.
type Class uint8

// Values of EI_CLASS.
const (
	Class32 Class = 1
	Class64 Class = 2
)

// A Type is e_type.
type Type uint16

// The types that loaders deal with.
const (
	Executable   Type = 2 // ET_EXEC
	SharedObject Type = 3 // ET_DYN, also of position-independent programs
)

// A Machine is e_machine.
type Machine uint16

// The machines that glibc's cache knows.
const (
	I386      Machine = 3
	PPC64     Machine = 21
	S390      Machine = 22
	ARM       Machine = 40
	X8664     Machine = 62
	AArch64   Machine = 183
	RISCV     Machine = 243
	LoongArch Machine = 258
)

// A File is what was read. The zero File comes with every error.
type File struct {
	Class     Class
	BigEndian bool
	Machine   Machine
	Type      Type
	Flags     uint32 // e_flags, of which the cache's flags partly depend
	Dynamic   bool   // it has a dynamic section
	SONAME    string // matches [A-Za-z0-9._+-]{1,255}, not "." or ".."; empty: none
	Interp    string // path of the interpreter; empty: none
	NeedsLibc bool   // it needs libc.so.6 or libm.so.6; looked for where CacheFlags depends on it
	OSVersion uint32 // GNU ABI note as glibc packs it: OS<<24 | major<<16 | minor<<8 | patch; zero: none
}

// Parse reads an ELF file that is in memory.
func Parse(data []byte) (File, error) {
	return Read(bytes.NewReader(data), int64(len(data)))
}

// Read reads an ELF file of size bytes. The error wraps ErrNotELF, ErrMalformed,
// ErrSONAME or what r returned.
func Read(r io.ReaderAt, size int64) (File, error) {
	p := parser{r: r, size: uint64(max(size, 0))}
	if err := p.parse(); err != nil {
		return File{}, err
	}
	return p.File, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// A parser holds the file, in its byte order, and the segments found so far.
type parser struct {
	File
	r     io.ReaderAt
	size  uint64
	spent uint64 // bytes read
	head  []byte // the first bytes, of which most others read
	order binary.ByteOrder
	segs  []segment
}

// A segment is one program header.
type segment struct {
	kind      uint32
	off, addr uint64
	fileSize  uint64
	align     uint64
}

// Segment types and dynamic tags.
const (
	ptLoad    = 1
	ptDynamic = 2
	ptInterp  = 3
	ptNote    = 4

	dtNull   = 0
	dtNeeded = 1
	dtStrtab = 5
	dtStrsz  = 10
	dtSONAME = 14
)

// read returns n bytes at off, all of them inside the file.
func (p *parser) read(what string, off, n uint64) ([]byte, error) {
	if n > p.size || off > p.size-n {
		return nil, malformed("%s (%d bytes at %d) is outside of the file's %d bytes", what, n, off, p.size)
	}
	if p.spent += n; p.spent > MaxRead {
		return nil, malformed("more than %d bytes to read", MaxRead)
	}
	if off+n <= uint64(len(p.head)) {
		return p.head[off : off+n], nil
	}
	buf := make([]byte, n)
	if got, err := p.r.ReadAt(buf, int64(off)); uint64(got) < n {
		if err == nil || err == io.EOF {
			return nil, malformed("%s: the file shrank while it was read", what)
		}
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return buf, nil
}

func (p *parser) parse() error {
	if p.size < 16 {
		return ErrNotELF
	}
	head := make([]byte, min(p.size, headSize))
	n, err := p.r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return fmt.Errorf("read head: %w", err)
	}
	p.head = head[:n]
	ident, err := p.read("identification", 0, 16)
	if err != nil {
		return err
	}
	if string(ident[:4]) != "\x7fELF" {
		return ErrNotELF
	}
	p.Class, p.order = Class(ident[4]), binary.LittleEndian
	if p.Class != Class32 && p.Class != Class64 {
		return malformed("class %d", ident[4])
	}
	switch ident[5] {
	case 1:
	case 2:
		p.BigEndian, p.order = true, binary.BigEndian
	default:
		return malformed("byte order %d", ident[5])
	}
	if err := p.headers(); err != nil {
		return err
	}
	for _, s := range p.segs {
		var err error
		switch s.kind {
		case ptDynamic:
			if !p.Dynamic { // the first counts, as for glibc
				p.Dynamic = true
				err = p.dynamic(s)
			}
		case ptInterp:
			err = p.interp(s)
		case ptNote:
			err = p.notes(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// headers reads the ELF header and the program headers.
func (p *parser) headers() error {
	size := uint64(52)
	if p.Class == Class64 {
		size = 64
	}
	h, err := p.read("ELF header", 0, size)
	if err != nil {
		return err
	}
	p.Type, p.Machine = Type(p.order.Uint16(h[16:])), Machine(p.order.Uint16(h[18:]))
	var phoff uint64
	var entry, count, want uint16
	if p.Class == Class64 {
		phoff, p.Flags, want = p.order.Uint64(h[32:]), p.order.Uint32(h[48:]), 56
		entry, count = p.order.Uint16(h[54:]), p.order.Uint16(h[56:])
	} else {
		phoff, p.Flags, want = uint64(p.order.Uint32(h[28:])), p.order.Uint32(h[36:]), 32
		entry, count = p.order.Uint16(h[42:]), p.order.Uint16(h[44:])
	}
	switch {
	case count == 0:
		return nil
	case entry != want:
		return malformed("program headers of %d bytes, want %d", entry, want)
	case count > maxHeaders:
		return malformed("%d program headers, at most %d are read", count, maxHeaders)
	}
	table, err := p.read("program headers", phoff, uint64(count)*uint64(entry))
	if err != nil {
		return err
	}
	p.segs = make([]segment, 0, count)
	for ; len(table) > 0; table = table[entry:] {
		p.segs = append(p.segs, p.segment(table))
	}
	return nil
}

func (p *parser) segment(b []byte) segment {
	o := p.order
	if p.Class == Class64 {
		return segment{kind: o.Uint32(b), off: o.Uint64(b[8:]), addr: o.Uint64(b[16:]), fileSize: o.Uint64(b[32:]), align: o.Uint64(b[48:])}
	}
	return segment{kind: o.Uint32(b), off: uint64(o.Uint32(b[4:])), addr: uint64(o.Uint32(b[8:])), fileSize: uint64(o.Uint32(b[16:])), align: uint64(o.Uint32(b[28:]))}
}

// interp reads the path of the interpreter.
func (p *parser) interp(s segment) error {
	b, err := p.read("interpreter", s.off, min(s.fileSize, maxInterp))
	if err != nil {
		return err
	}
	name, _, found := bytes.Cut(b, []byte{0})
	if !found {
		return malformed("interpreter without end")
	}
	p.Interp = string(name)
	return nil
}
