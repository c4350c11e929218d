package elfgen

import (
	"encoding/binary"
	"fmt"
)

// base is where programs are linked to, as GNU ld does.
const base = 0x400000

// Program returns a static program that prints the Object's text and a line
// feed, and exits with 0. The error wraps ErrArch.
func Program(o Object) ([]byte, error) {
	m, err := machineOf(o.Arch)
	if err == nil && m.narrow {
		err = fmt.Errorf("program for %q: %w", o.Arch, ErrArch)
	}
	if err != nil {
		return nil, err
	}
	const segments = 3
	b := newImage(m, segments)
	noteOff, noteSize := b.notes(o)
	b.align(16)
	codeOff := b.at()
	text := o.text() + "\n"
	b.raw(code(o.Arch, len(text)))
	b.text(text)
	end := b.at()
	segs := []segment{
		{ptLoad, pfR | pfX, 0, base, end, m.align},
		{ptNote, pfR, noteOff, base + noteOff, noteSize, 4},
		{ptGNUStack, pfR | pfW, 0, 0, 0, 16},
	}
	secs := []section{
		{".text", shtProgbits, shfAlloc | shfExec, base + codeOff, codeOff, end - codeOff, 0, 0, 16, 0},
		{".note", shtNote, shfAlloc, base + noteOff, noteOff, noteSize, 0, 0, 4, 0},
	}
	return b.finish(etExec, base+codeOff, segs, secs), nil
}

// code is write(1, text, n) and exit(0), the text right behind it.
func code(arch string, n int) []byte {
	if arch == "aarch64" {
		var out []byte
		for _, op := range []uint32{
			0xd2800020,                // mov x0, #1
			0x10000001 | 7*4<<3,       // adr x1, seven instructions on
			0xd2800002 | uint32(n)<<5, // mov x2, #n
			0xd2800808,                // mov x8, #64 (write)
			0xd4000001,                // svc #0
			0xd2800000,                // mov x0, #0
			0xd2800ba8,                // mov x8, #93 (exit)
			0xd4000001,                // svc #0
		} {
			out = binary.LittleEndian.AppendUint32(out, op)
		}
		return out
	}
	out := []byte{0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0}      // mov eax, 1 (write); mov edi, 1
	out = append(out, 0x48, 0x8d, 0x35, 16, 0, 0, 0, 0xba) // lea rsi, [rip+16]; mov edx,
	out = binary.LittleEndian.AppendUint32(out, uint32(n)) //   n
	return append(out, 0x0f, 0x05,                         // syscall
		0xb8, 60, 0, 0, 0, // mov eax, 60 (exit)
		0x31, 0xff, // xor edi, edi
		0x0f, 0x05) // syscall
}
