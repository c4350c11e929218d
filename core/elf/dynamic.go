package elf

import (
	"bytes"
	"fmt"
)

// dynamic reads the dynamic section for the SONAME, and for what is needed.
func (p *parser) dynamic(s segment) error {
	if s.fileSize > maxDynamic {
		return malformed("dynamic section of %d bytes, at most %d are read", s.fileSize, maxDynamic)
	}
	b, err := p.read("dynamic section", s.off, s.fileSize)
	if err != nil {
		return err
	}
	var table, size, name uint64
	var hasTable, hasSize, hasName bool
	var needed []uint64
	for {
		tag, value, rest, ok := p.dynamicEntry(b)
		if !ok || tag == dtNull {
			break
		}
		switch tag {
		case dtStrtab:
			table, hasTable = value, true
		case dtStrsz:
			size, hasSize = value, true
		case dtSONAME:
			name, hasName = value, true
		case dtNeeded:
			if p.Class == Class32 && p.Machine == I386 {
				needed = append(needed, value)
			}
		}
		b = rest
	}
	if hasTable && len(needed) > 0 {
		if err := p.needs(table, needed); err != nil {
			return err
		}
	}
	if !hasName {
		return nil
	}
	if !hasTable {
		return malformed("a SONAME, and no string table")
	}
	off, err := p.fileOffset(table)
	if err != nil {
		return err
	}
	if hasSize && name >= size {
		return malformed("SONAME at %d is outside of the string table's %d bytes", name, size)
	}
	p.SONAME, err = p.soname(off, name)
	return err
}

// needs looks for the C library among the names of what is needed. A damaged one
// is another library's.
func (p *parser) needs(table uint64, names []uint64) error {
	off, err := p.fileOffset(table)
	if err != nil {
		return err
	}
	const length = uint64(len("libc.so.6\x00"))
	for _, n := range names {
		at := off + n
		if at < off || at >= p.size || p.size-at < length {
			continue
		}
		b, err := p.read("needed library", at, length)
		if err != nil {
			return err
		}
		if s := string(b); s == "libc.so.6\x00" || s == "libm.so.6\x00" {
			p.NeedsLibc = true
			return nil
		}
	}
	return nil
}

// dynamicEntry splits the first entry off b; ok is false at the end.
func (p *parser) dynamicEntry(b []byte) (tag, value uint64, rest []byte, ok bool) {
	if p.Class == Class64 {
		if len(b) < 16 {
			return 0, 0, nil, false
		}
		return p.order.Uint64(b), p.order.Uint64(b[8:]), b[16:], true
	}
	if len(b) < 8 {
		return 0, 0, nil, false
	}
	return uint64(p.order.Uint32(b)), uint64(p.order.Uint32(b[4:])), b[8:], true
}

// fileOffset maps an address to where the file has it.
func (p *parser) fileOffset(addr uint64) (uint64, error) {
	for _, s := range p.segs {
		if s.kind == ptLoad && addr >= s.addr && addr-s.addr < s.fileSize {
			off := s.off + (addr - s.addr)
			if off < s.off {
				break
			}
			return off, nil
		}
	}
	return 0, malformed("string table at address %#x, which no segment loads from the file", addr)
}

// soname reads one string and checks it.
func (p *parser) soname(table, name uint64) (string, error) {
	off := table + name
	if off < table || off >= p.size {
		return "", malformed("SONAME at %d is outside of the file's %d bytes", off, p.size)
	}
	b, err := p.read("SONAME", off, min(maxSONAME+1, p.size-off))
	if err != nil {
		return "", err
	}
	text, _, found := bytes.Cut(b, []byte{0})
	if !found {
		return "", fmt.Errorf("%w: longer than %d bytes or without end", ErrSONAME, maxSONAME)
	}
	if !ValidSONAME(string(text)) {
		return "", fmt.Errorf("%w: %q", ErrSONAME, text)
	}
	return string(text), nil
}

// ValidSONAME reports whether s can be the name of a library in a folder:
// [A-Za-z0-9._+-]{1,255}, and not "." or "..".
func ValidSONAME(s string) bool {
	if s == "" || len(s) > maxSONAME || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '+', c == '-':
		default:
			return false
		}
	}
	return true
}

// notes looks for the GNU ABI note: owner "GNU", type 1, four words. A damaged
// note segment is no error: loaders do not ask for it.
func (p *parser) notes(s segment) error {
	if p.OSVersion != 0 || s.fileSize > maxNotes {
		return nil
	}
	b, err := p.read("notes", s.off, s.fileSize)
	if err != nil {
		return err
	}
	align := uint64(4)
	if s.align == 8 {
		align = 8
	}
	for len(b) >= 12 {
		nameSize, descSize, kind := uint64(p.order.Uint32(b)), uint64(p.order.Uint32(b[4:])), p.order.Uint32(b[8:])
		desc := roundUp(12+nameSize, align)
		next := roundUp(desc+descSize, align)
		if desc+descSize > uint64(len(b)) {
			return nil
		}
		if kind == 1 && nameSize == 4 && descSize == 16 && string(b[12:16]) == "GNU\x00" {
			d := b[desc:]
			word := func(i int) uint32 { return p.order.Uint32(d[4*i:]) }
			p.OSVersion = word(0)<<24 | word(1)&0xff<<16 | word(2)&0xff<<8 | word(3)&0xff
			return nil
		}
		b = b[min(next, uint64(len(b))):]
	}
	return nil
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
