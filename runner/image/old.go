package image

import (
	"encoding/binary"

	"gpurig/core/ldcache"
	"gpurig/fakehw/cachedir"
)

// OldGlibcDir is where packaging/old-glibc.sh unpacks Debian 11's package libc6, the
// oldest that its registry still has. A machine without it makes the image all
// the same, of markers: no program in it runs.
const OldGlibcDir = cachedir.System + "/glibc-2.31"

// oldGlibc is Debian 11, as upgraded from before the merge: glibc 2.31, whose
// files carry the version, whose threads and loader calls are libraries of their
// own, and whose loader's cache begins in the old format.
func oldGlibc(b *builder) {
	const dir = "/lib/" + tuple
	b.dir("/bin", "/sbin", "/lib", "/lib64", dir, "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", libDir, "/usr/share", "/usr/local/lib")
	base(b, "glibc-old")
	shell(b)
	b.program(dir+"/ld-2.31.so", OldGlibcDir+dir+"/ld-2.31.so")
	b.link(dir+"/ld-linux-x86-64.so.2", "ld-2.31.so")
	for name, file := range map[string]string{
		"libc.so.6": "libc-2.31.so", "libm.so.6": "libm-2.31.so", "libdl.so.2": "libdl-2.31.so", "librt.so.1": "librt-2.31.so",
		"libpthread.so.0": "libpthread-2.31.so",
	} {
		b.program(dir+"/"+file, OldGlibcDir+dir+"/"+file)
		b.link(dir+"/"+name, file)
	}
	b.link("/lib64/ld-linux-x86-64.so.2", dir+"/ld-2.31.so")
	searched(b)
	cache(b)
	data, err := b.t.ReadFile(ldcache.File)
	b.do(err)
	b.do(b.t.WriteFile(ldcache.File, compat(data), 0o644))
}

// compat puts the old format in front of a cache, as ldconfig did up to glibc
// 2.31: the same entries twice, for loaders of both ages.
// https://sourceware.org/git/?p=glibc.git;a=blob;f=sysdeps/generic/dl-cache.h;hb=glibc-2.31
func compat(data []byte) []byte {
	const newHeader, newEntry, oldHeader, oldEntry = 48, 24, 16, 12
	if len(data) < newHeader {
		return data
	}
	le := binary.LittleEndian
	n := int(le.Uint32(data[20:]))
	size := oldHeader + oldEntry*n
	pad := (8 - size%8) % 8
	out := append(make([]byte, 0, size+pad+len(data)), "ld.so-1.7.0\x00"...)
	out = le.AppendUint32(out, uint32(n))
	for i := range n {
		e := data[newHeader+newEntry*i:]
		out = le.AppendUint32(out, le.Uint32(e)) // flags
		for _, at := range []int{4, 8} {         // SONAME and path, counted from the end of the old entries
			out = le.AppendUint32(out, le.Uint32(e[at:])+uint32(pad))
		}
	}
	out = append(append(out, make([]byte, pad)...), data...)
	le.PutUint32(out[size+pad+32:], 0) // extensions came with 2.33
	return out
}
