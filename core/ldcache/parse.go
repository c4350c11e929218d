package ldcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"gpurig/core/elf"
)

// Layout of the old format, which stands alone in files of glibc before 2.2 and
// in front of the new one up to 2.31.
const (
	magicOld      = "ld.so-1.7.0"
	oldHeaderSize = 16
	oldEntrySize  = 12
)

// MaxSize bounds the files that Parse reads. A large distribution's cache has
// 300 KiB.
const MaxSize = 64 << 20

const maxPath = 4096 // PATH_MAX

// Parse reads a cache: the new format, the new one behind the old one, or the
// old one alone. The error wraps ErrFormat, ErrByteOrder or ErrLimit. A single
// bad entry is no error: see Cache.Dropped.
func Parse(data []byte) (Cache, error) {
	if len(data) > MaxSize {
		return Cache{}, fmt.Errorf("loader cache of %d bytes: %w of %d", len(data), ErrLimit, MaxSize)
	}
	if !bytes.HasPrefix(data, []byte(magicOld)) {
		return parseNew(data, 0)
	}
	if len(data) < oldHeaderSize {
		return Cache{}, fmt.Errorf("%w: %d bytes end within the header", ErrFormat, len(data))
	}
	n := uint64(binary.LittleEndian.Uint32(data[12:]))
	if room := uint64(len(data) - oldHeaderSize); n > room/oldEntrySize {
		return Cache{}, fmt.Errorf("%w: %d old entries in %d bytes", ErrFormat, n, room)
	}
	end := oldHeaderSize + oldEntrySize*n
	// The writer aligns the new header to 8 on every machine that matters here.
	if at := (end + 7) &^ 7; at < uint64(len(data)) && bytes.HasPrefix(data[at:], []byte(magicNew)) {
		return parseNew(data, at)
	}
	return parseOld(data[oldHeaderSize:end], data[end:])
}

func parseOld(entries, strs []byte) (Cache, error) {
	c := Cache{}
	for ; len(entries) > 0; entries = entries[oldEntrySize:] {
		e, ok := entry(entries, strs)
		c.keep(e, ok)
	}
	return c, nil
}

// parseNew reads the new format that starts at base. Strings count from there,
// the extension from the start of the file, as glibc has it.
func parseNew(file []byte, base uint64) (Cache, error) {
	data, le := file[base:], binary.LittleEndian
	if len(data) < headerSize || string(data[:len(magicNew)]) != magicNew {
		return Cache{}, fmt.Errorf("%w: no known header", ErrFormat)
	}
	if order := data[28] & endianMask; order != 0 && order != endianLittle {
		return Cache{}, fmt.Errorf("%w (header flags %d)", ErrByteOrder, data[28])
	}
	n := uint64(le.Uint32(data[20:]))
	if room := uint64(len(data) - headerSize); n > room/entrySize {
		return Cache{}, fmt.Errorf("%w: %d entries in %d bytes", ErrFormat, n, room)
	}
	ext, err := parseExtension(file, le.Uint32(data[32:]))
	if err != nil {
		return Cache{}, err
	}
	c := Cache{Entries: make([]Entry, 0, n), Generator: ext.generator}
	for b := data[headerSize : headerSize+entrySize*n]; len(b) > 0; b = b[entrySize:] {
		e, ok := entry(b, data)
		e.OSVersion, e.HWCap = le.Uint32(b[12:]), le.Uint64(b[16:])
		if ok && e.HWCap>>32&^isaLevelMask == hwcapExtension>>32 {
			e.HWCaps, ok = ext.hwcapsName(data, uint32(e.HWCap))
			e.ISALevel, e.HWCap = uint32(e.HWCap>>32)&isaLevelMask, 0
		}
		c.keep(e, ok)
	}
	return c, nil
}

func (c *Cache) keep(e Entry, ok bool) {
	if ok {
		c.Entries = append(c.Entries, e)
	} else {
		c.Dropped++
	}
}

// entry reads what both formats have: flags and two strings.
func entry(b, strs []byte) (e Entry, ok bool) {
	le := binary.LittleEndian
	e.Flags = int32(le.Uint32(b))
	var okName, okPath bool
	e.SONAME, okName = text(strs, le.Uint32(b[4:]))
	e.Path, okPath = text(strs, le.Uint32(b[8:]))
	kind := e.Flags & 0xff
	ok = okName && okPath && kind >= 1 && kind <= 3 && e.Flags&^0xffff == 0 &&
		elf.ValidSONAME(e.SONAME) && ValidPath(e.Path)
	return e, ok
}

// text reads the string at off; false if it starts or ends outside.
func text(data []byte, off uint32) (string, bool) {
	if uint64(off) >= uint64(len(data)) {
		return "", false
	}
	s := data[off:min(uint64(len(data)), uint64(off)+maxPath+1)]
	n := bytes.IndexByte(s, 0)
	if n < 0 {
		return "", false
	}
	return string(s[:n]), true
}

// ValidPath reports whether p can be a library's path in a cache, or a folder's
// in ld.so.conf: absolute, printable, without "..", of at most 4,096 bytes.
func ValidPath(p string) bool {
	if !path.IsAbs(p) || len(p) > maxPath {
		return false
	}
	for i := range len(p) {
		if p[i] < 0x20 || p[i] == 0x7f {
			return false
		}
	}
	return !strings.Contains(p+"/", "/../")
}

// An extension is what stands behind the strings since glibc 2.33.
type extension struct {
	generator string
	hwcaps    []byte // offsets of strings, four bytes each
}

// parseExtension is as strict as the loader, which refuses the whole cache for
// a bad extension. Sections may overlap: they are only read.
func parseExtension(file []byte, at uint32) (extension, error) {
	if at == 0 {
		return extension{}, nil
	}
	le, size := binary.LittleEndian, uint64(len(file))
	if at%4 != 0 || uint64(at)+extHeaderSize > size || le.Uint32(file[at:]) != extMagic {
		return extension{}, fmt.Errorf("%w: no extension at %d", ErrFormat, at)
	}
	n := uint64(le.Uint32(file[at+4:]))
	if room := size - uint64(at) - extHeaderSize; n > room/sectionSize {
		return extension{}, fmt.Errorf("%w: %d extensions in %d bytes", ErrFormat, n, room)
	}
	var out extension
	for b := file[at+extHeaderSize:][:n*sectionSize]; len(b) > 0; b = b[sectionSize:] {
		off, length := uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[12:]))
		if off+length > size {
			return extension{}, fmt.Errorf("%w: an extension of %d bytes at %d ends outside", ErrFormat, length, off)
		}
		section := file[off : off+length]
		switch le.Uint32(b) {
		case tagGenerator:
			out.generator = printable(section)
		case tagHWCaps:
			if off%4 == 0 && length%4 == 0 {
				out.hwcaps = section
			}
		}
	}
	return out, nil
}

// hwcapsName returns the name of the n-th subfolder.
func (x extension) hwcapsName(strs []byte, n uint32) (string, bool) {
	if uint64(n) >= uint64(len(x.hwcaps)/4) {
		return "", false
	}
	name, ok := text(strs, binary.LittleEndian.Uint32(x.hwcaps[4*n:]))
	return name, ok && elf.ValidSONAME(name) // one path component, as a SONAME is
}

// printable keeps the generator's line a line.
func printable(b []byte) string {
	const most = 256
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, string(b[:min(len(b), most)]))
}
