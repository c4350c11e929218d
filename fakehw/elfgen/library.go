package elfgen

// Library returns a shared object: two segments, a dynamic section, one symbol
// "gpurig_version" that holds the Object's text, and a hash table to find it
// by. glibc and musl load it. The error wraps ErrArch.
func Library(o Object) ([]byte, error) {
	m, err := machineOf(o.Arch)
	if err != nil {
		return nil, err
	}
	const segments = 5
	b := &image{}
	b.reserve(segments)
	noteOff, noteSize := b.notes(o)

	strs := []byte{0}
	intern := func(s string) uint64 {
		at := len(strs)
		strs = append(append(strs, s...), 0)
		return uint64(at)
	}
	symName := intern("gpurig_version")
	textAt, textLen := intern(o.text()), uint64(len(o.text())+1)
	var dyn []uint64
	if o.Needed != "" {
		dyn = append(dyn, dtNeeded, intern(o.Needed))
	}
	if o.SONAME != "" {
		dyn = append(dyn, dtSONAME, intern(o.SONAME))
	}

	b.align(8)
	symOff, strOff := b.at(), b.at()+2*symSize
	b.Write(make([]byte, symSize))
	b.u32(uint32(symName), 1<<4|1|2<<16) // global object, in section 2: .dynstr
	b.u64(strOff+textAt, textLen)
	b.Write(strs)
	b.align(8)
	hashOff := b.at()
	b.u32(1, 2, 1, 0, 0) // one bucket, two symbols: the bucket starts at symbol 1
	readOnly := b.at()

	// The loader writes to the dynamic section, so it lies in a segment of its
	// own, one alignment further up in memory than in the file.
	b.align(8)
	dynOff := b.at()
	dynAddr := dynOff + m.align
	b.u64(dyn...)
	b.u64(dtHash, hashOff, dtStrtab, strOff, dtSymtab, symOff, dtStrsz, uint64(len(strs)), dtSyment, symSize, dtNull, 0)
	dynEnd := b.at()

	segs := []segment{
		{ptLoad, pfR, 0, 0, readOnly, m.align},
		{ptLoad, pfR | pfW, dynOff, dynAddr, dynEnd - dynOff, m.align},
		{ptDynamic, pfR | pfW, dynOff, dynAddr, dynEnd - dynOff, 8},
		{ptNote, pfR, noteOff, noteOff, noteSize, 4},
		{ptGNUStack, pfR | pfW, 0, 0, 0, 16}, // without it the stack becomes executable
	}
	secs := []section{
		{".dynsym", shtDynsym, shfAlloc, symOff, symOff, 2 * symSize, 2, 1, 8, symSize},
		{".dynstr", shtStrtab, shfAlloc, strOff, strOff, uint64(len(strs)), 0, 0, 1, 0},
		{".hash", shtHash, shfAlloc, hashOff, hashOff, readOnly - hashOff, 1, 0, 8, 4},
		{".dynamic", shtDynamic, shfAlloc | shfWrite, dynAddr, dynOff, dynEnd - dynOff, 2, 0, 8, dynSize},
		{".note", shtNote, shfAlloc, noteOff, noteOff, noteSize, 0, 0, 4, 0},
	}
	return b.finish(etDyn, m, 0, segs, secs), nil
}
