package observe

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// The new format of glibc's cache (sysdeps/generic/dl-cache.h), which may stand
// behind the old one.
const cacheMagic = "glibc-ld.so.cache1.1"

var errCache = errors.New("not in glibc's format")

// readCache reads ld.so.cache: the entries in their order, which is the
// loader's order of preference among equal SONAMEs.
func readCache(data []byte) ([]cacheEntry, error) {
	at := bytes.Index(data, []byte(cacheMagic))
	if at < 0 || len(data)-at < 48 {
		return nil, errCache
	}
	data = data[at:]
	n := binary.LittleEndian.Uint32(data[20:])
	if uint64(n)*24 > uint64(len(data)-48) {
		return nil, errCache
	}
	text := func(off uint32) string {
		if uint64(off) >= uint64(len(data)) {
			return ""
		}
		s, _, _ := bytes.Cut(data[off:], []byte{0})
		return string(s)
	}
	out := make([]cacheEntry, 0, n)
	for e := data[48 : 48+24*n]; len(e) > 0; e = e[24:] {
		arch := ""
		switch binary.LittleEndian.Uint32(e) & 0xff00 {
		case 0x0300:
			arch = "x86_64"
		case 0x0a00:
			arch = "aarch64"
		}
		out = append(out, cacheEntry{
			soname: text(binary.LittleEndian.Uint32(e[4:])), path: text(binary.LittleEndian.Uint32(e[8:])), arch: arch,
		})
	}
	return out, nil
}
