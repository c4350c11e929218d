package ldcache

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Layout of the new format. All numbers are little-endian.
const (
	magicNew      = "glibc-ld.so.cache1.1"
	headerSize    = 48
	entrySize     = 24
	endianLittle  = 2
	endianMask    = 3
	extMagic      = 0xeaa42174
	extHeaderSize = 8
	sectionSize   = 16
	tagGenerator  = 0
	tagHWCaps     = 1

	hwcapExtension = 1 << 62
	isaLevelMask   = 1<<10 - 1
)

// A table collects strings, each once. Offsets count from base.
type table struct {
	base  uint32
	bytes []byte
	at    map[string]uint32
}

func (t *table) add(s string) uint32 {
	if off, ok := t.at[s]; ok {
		return off
	}
	off := t.base + uint32(len(t.bytes))
	t.bytes = append(append(t.bytes, s...), 0)
	t.at[s] = off
	return off
}

// Marshal returns the file: the new format alone, as glibc writes it since 2.32,
// with the extension that names the generator and the hwcaps subfolders.
// Entries are written in the order that Sort gives them, whatever theirs is.
func (c Cache) Marshal() []byte {
	c.Entries = slices.Clone(c.Entries)
	c.Sort()
	strs := &table{base: headerSize + entrySize*uint32(len(c.Entries)), at: make(map[string]uint32, 2*len(c.Entries))}
	caps := c.hwcaps()

	le := binary.LittleEndian
	out := make([]byte, 0, int(strs.base)+64*len(c.Entries)+256)
	out = append(out, magicNew...)
	out = append(out, make([]byte, headerSize-len(magicNew))...)
	for _, e := range c.Entries {
		path := strs.add(e.Path)
		key := path + uint32(len(e.Path)-len(e.SONAME)) // most often the path's last part
		if !strings.HasSuffix(e.Path, e.SONAME) {
			key = strs.add(e.SONAME)
		}
		hwcap := e.HWCap
		if e.HWCaps != "" {
			n, _ := slices.BinarySearch(caps, e.HWCaps)
			hwcap = hwcapExtension | uint64(e.ISALevel&isaLevelMask)<<32 | uint64(n)
		}
		out = le.AppendUint32(out, uint32(e.Flags))
		out = le.AppendUint32(out, key)
		out = le.AppendUint32(out, path)
		out = le.AppendUint32(out, e.OSVersion)
		out = le.AppendUint64(out, hwcap)
	}
	capsTable := make([]byte, 0, 4*len(caps))
	for _, name := range caps {
		capsTable = le.AppendUint32(capsTable, strs.add(name))
	}
	out = append(out, strs.bytes...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	le.PutUint32(out[20:], uint32(len(c.Entries)))
	le.PutUint32(out[24:], uint32(len(strs.bytes)))
	out[28] = endianLittle
	le.PutUint32(out[32:], uint32(len(out)))
	return appendExtension(out, c.Generator, capsTable)
}

// hwcaps returns the names of the subfolders in use, sorted.
func (c Cache) hwcaps() []string {
	var out []string
	for _, e := range c.Entries {
		if e.HWCaps != "" {
			out = append(out, e.HWCaps)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// appendExtension appends the directory of extensions and what it points to.
func appendExtension(out []byte, generator string, caps []byte) []byte {
	le := binary.LittleEndian
	sections := uint32(1)
	if len(caps) > 0 {
		sections++
	}
	data := uint32(len(out)) + extHeaderSize + sections*sectionSize
	out = le.AppendUint32(out, extMagic)
	out = le.AppendUint32(out, sections)
	for _, v := range []uint32{tagGenerator, 0, data + uint32(len(caps)), uint32(len(generator))} {
		out = le.AppendUint32(out, v)
	}
	if len(caps) > 0 {
		for _, v := range []uint32{tagHWCaps, 0, data, uint32(len(caps))} {
			out = le.AppendUint32(out, v)
		}
	}
	return append(append(out, caps...), generator...)
}
