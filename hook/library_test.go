package hook_test

import (
	"encoding/binary"
	"testing"
)

// library returns a shared object of x86-64 that has just this SONAME: the
// generator of the fake hosts refuses names like those in these tests.
func library(t testing.TB, soname string) []byte {
	t.Helper()
	const head, entry, base = 64, 56, 0x10000
	le := binary.LittleEndian
	strings := "\x00" + soname + "\x00"
	strOff := uint64(head + 2*entry)
	dynOff := (strOff + uint64(len(strings)) + 7) / 8 * 8
	dyn := []uint64{14, 1, 5, base + strOff, 10, uint64(len(strings)), 0, 0} // SONAME, STRTAB, STRSZ, NULL
	end := dynOff + uint64(8*len(dyn))

	out := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	out = le.AppendUint16(out, 3)
	out = le.AppendUint16(out, 62)
	out = le.AppendUint32(out, 1)
	for _, v := range []uint64{0, head, 0} {
		out = le.AppendUint64(out, v)
	}
	out = le.AppendUint32(out, 0)
	for _, v := range []uint16{head, entry, 2, 0, 0, 0} {
		out = le.AppendUint16(out, v)
	}
	for _, s := range [][]uint64{{1, 0, base, end}, {2, dynOff, base + dynOff, end - dynOff}} { // LOAD, DYNAMIC
		out = le.AppendUint32(out, uint32(s[0]))
		out = le.AppendUint32(out, 5)
		for _, v := range []uint64{s[1], s[2], s[2], s[3], s[3], 8} {
			out = le.AppendUint64(out, v)
		}
	}
	out = append(out, strings...)
	for uint64(len(out)) < dynOff {
		out = append(out, 0)
	}
	for _, v := range dyn {
		out = le.AppendUint64(out, v)
	}
	return out
}
