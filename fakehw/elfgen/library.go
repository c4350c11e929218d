package elfgen

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Library returns a shared object: two segments, a dynamic section, the symbol
// "gpurig_version", which is the Object's text, its Functions, and a hash table
// to find them by. glibc and musl load it. The error wraps ErrArch or
// ErrFunction.
func Library(o Object) ([]byte, error) {
	m, err := machineOf(o.Arch)
	if err != nil {
		return nil, err
	}
	const segments = 5
	b, z := newImage(m, segments), m.sizes()
	noteOff, noteSize := b.notes(o)

	strs := &stringTable{bytes: []byte{0}}
	symName, text := strs.add("gpurig_version"), strs.add(o.text())
	var dyn []uint64
	if o.Needed != "" {
		dyn = append(dyn, dtNeeded, strs.add(o.Needed))
	}
	if o.SONAME != "" {
		dyn = append(dyn, dtSONAME, strs.add(o.SONAME))
	}
	functions, err := parseFunctions(o.Functions)
	if err != nil {
		return nil, err
	}
	names := make([]uint64, len(functions))
	for i, f := range functions {
		names[i] = strs.add(f.name)
	}

	b.align(8)
	symbols := uint64(2 + len(functions))
	symOff, strOff := b.at(), b.at()+z.sym*symbols
	codeOff := (strOff + uint64(len(strs.bytes)) + 15) / 16 * 16
	b.raw(make([]byte, z.sym))
	b.symbol(symName, sttObject, secStrings, strOff+text, uint64(len(o.text())+1))
	size := uint64(len(returning(o.Arch, 0)))
	for i, n := range names {
		b.symbol(n, sttFunc, secText, codeOff+size*uint64(i), size)
	}
	b.raw(strs.bytes)
	b.align(16)
	for _, f := range functions {
		b.raw(returning(o.Arch, f.returns))
	}
	codeEnd := b.at()
	b.align(8)
	hashOff := b.at()
	b.hash(uint32(symbols))
	readOnly := b.at()

	// The loader writes to the dynamic section, so it lies in a segment of its
	// own, one alignment further up in memory than in the file.
	b.align(8)
	dynOff := b.at()
	dynAddr := dynOff + m.align
	b.word(dyn...)
	b.word(dtHash, hashOff, dtStrtab, strOff, dtSymtab, symOff, dtStrsz, uint64(len(strs.bytes)), dtSyment, z.sym, dtNull, 0)
	dynEnd := b.at()

	segs := []segment{
		{ptLoad, pfR | pfX, 0, 0, readOnly, m.align},
		{ptLoad, pfR | pfW, dynOff, dynAddr, dynEnd - dynOff, m.align},
		{ptDynamic, pfR | pfW, dynOff, dynAddr, dynEnd - dynOff, 8},
		{ptNote, pfR, noteOff, noteOff, noteSize, 4},
		{ptGNUStack, pfR | pfW, 0, 0, 0, 16}, // without it the stack becomes executable
	}
	secs := []section{ // secStrings and secText are places in this list, from 1
		{".dynsym", shtDynsym, shfAlloc, symOff, symOff, z.sym * symbols, secStrings, 1, 8, z.sym},
		{".dynstr", shtStrtab, shfAlloc, strOff, strOff, uint64(len(strs.bytes)), 0, 0, 1, 0},
		{".text", shtProgbits, shfAlloc | shfExec, codeOff, codeOff, codeEnd - codeOff, 0, 0, 16, 0},
		{".hash", shtHash, shfAlloc, hashOff, hashOff, readOnly - hashOff, 1, 0, 8, 4},
		{".dynamic", shtDynamic, shfAlloc | shfWrite, dynAddr, dynOff, dynEnd - dynOff, secStrings, 0, 8, z.dyn},
		{".note", shtNote, shfAlloc, noteOff, noteOff, noteSize, 0, 0, 4, 0},
	}
	return b.finish(etDyn, 0, segs, secs), nil
}

const (
	secStrings = 2
	secText    = 3

	stbGlobal = 1
	sttObject = 1
	sttFunc   = 2
)

type stringTable struct{ bytes []byte }

func (t *stringTable) add(s string) uint64 {
	at := len(t.bytes)
	t.bytes = append(append(t.bytes, s...), 0)
	return uint64(at)
}

// symbol writes one global symbol.
func (b *image) symbol(name uint64, kind, section uint32, addr, size uint64) {
	what := stbGlobal<<4 | kind | section<<16
	if b.narrow {
		b.u32(uint32(name), uint32(addr), uint32(size), what)
		return
	}
	b.u32(uint32(name), what)
	b.u64(addr, size)
}

// hash writes a table of one bucket: it starts at symbol 1, and each leads to
// the next.
func (b *image) hash(symbols uint32) {
	b.u32(1, symbols, 1, 0)
	for i := uint32(1); i < symbols; i++ {
		b.u32((i + 1) % symbols)
	}
}

type function struct {
	name    string
	returns uint16
}

func parseFunctions(list string) ([]function, error) {
	var out []function
	for _, item := range strings.Fields(list) {
		name, number, has := strings.Cut(item, "=")
		n := uint64(0)
		var err error
		if has {
			n, err = strconv.ParseUint(number, 10, 16)
		}
		if err != nil || name == "" {
			return nil, fmt.Errorf("%q: %w", item, ErrFunction)
		}
		out = append(out, function{name, uint16(n)})
	}
	return out, nil
}

// returning is the code of a function that returns v.
func returning(arch string, v uint16) []byte {
	if arch == "aarch64" {
		out := binary.LittleEndian.AppendUint32(nil, 0x52800000|uint32(v)<<5) // mov w0, #v
		return binary.LittleEndian.AppendUint32(out, 0xd65f03c0)              // ret
	}
	return append(binary.LittleEndian.AppendUint32([]byte{0xb8}, uint32(v)), 0xc3) // mov eax, v; ret
}
