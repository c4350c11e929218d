package elf

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// A maker writes small ELF files of both widths and byte orders, right or wrong.
type maker struct {
	class   Class
	big     bool
	machine Machine
	kind    Type
	flags   uint32
	phnum   int // zero: as many as there are
	phentsz int // zero: right
	dynamic []uint64
	strings string
	strtab  uint64 // address; zero: right
	interp  string
	note    []byte
	segs    func(segs []seg) []seg // changes the program headers
}

type seg struct{ kind, off, addr, size, align uint64 }

// base is the address at which offset zero is loaded.
const base = 0x10000

func (m maker) order() binary.AppendByteOrder {
	if m.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (m maker) word(b []byte, v uint64) []byte {
	if m.class == Class64 {
		return m.order().AppendUint64(b, v)
	}
	return m.order().AppendUint32(b, uint32(v))
}

func (m maker) bytes() []byte {
	head, entry := 64, 56
	if m.class == Class32 {
		head, entry = 52, 32
	}
	const count = 4
	body := []byte{}
	at := func() uint64 { return uint64(head + entry*count + len(body)) }
	strAt := at()
	body = append(body, m.strings...)
	interpAt := at()
	body = append(body, m.interp...)
	for at()%8 != 0 {
		body = append(body, 0)
	}
	noteAt := at()
	body = append(body, m.note...)
	dynAt := at()
	if m.dynamic != nil {
		strtab := m.strtab
		if strtab == 0 {
			strtab = base + strAt
		}
		for _, v := range append(append([]uint64{}, m.dynamic...), dtStrtab, strtab, dtStrsz, uint64(len(m.strings)), dtNull, 0) {
			body = m.word(body, v)
		}
	}
	segs := []seg{{ptLoad, 0, base, at(), 0x1000}}
	if m.dynamic != nil {
		segs = append(segs, seg{ptDynamic, dynAt, base + dynAt, at() - dynAt, 8})
	}
	if m.interp != "" {
		segs = append(segs, seg{ptInterp, interpAt, base + interpAt, uint64(len(m.interp)), 1})
	}
	if m.note != nil {
		segs = append(segs, seg{ptNote, noteAt, base + noteAt, uint64(len(m.note)), 4})
	}
	if m.segs != nil {
		segs = m.segs(segs)
	}
	return m.assemble(head, entry, count, segs, body)
}

func (m maker) assemble(head, entry, count int, segs []seg, body []byte) []byte {
	o := m.order()
	data := byte(1)
	if m.big {
		data = 2
	}
	out := append([]byte("\x7fELF"), byte(m.class), data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	out = o.AppendUint16(out, uint16(m.kind))
	out = o.AppendUint16(out, uint16(m.machine))
	out = o.AppendUint32(out, 1)
	out = m.word(out, 0)
	out = m.word(out, uint64(head))
	out = m.word(out, 0)
	out = o.AppendUint32(out, m.flags)
	phnum, phentsz := len(segs), entry
	if m.phnum != 0 {
		phnum = m.phnum
	}
	if m.phentsz != 0 {
		phentsz = m.phentsz
	}
	for _, v := range []int{head, phentsz, phnum, 0, 0, 0} {
		out = o.AppendUint16(out, uint16(v))
	}
	for _, s := range segs {
		out = o.AppendUint32(out, uint32(s.kind))
		if m.class == Class64 {
			out = o.AppendUint32(out, 5)
			for _, v := range []uint64{s.off, s.addr, s.addr, s.size, s.size, s.align} {
				out = o.AppendUint64(out, v)
			}
			continue
		}
		for _, v := range []uint64{s.off, s.addr, s.addr, s.size, s.size, 5, s.align} {
			out = o.AppendUint32(out, uint32(v))
		}
	}
	out = append(out, make([]byte, entry*(count-len(segs)))...)
	return append(out, body...)
}

// shared is an ordinary library with this SONAME.
func shared(class Class, machine Machine, soname string) maker {
	return maker{class: class, machine: machine, kind: SharedObject, strings: "\x00" + soname + "\x00", dynamic: []uint64{dtSONAME, 1}}
}

// abi is the note of a library that wants Linux 3.2.0, behind another one.
var abi = []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00abcd" +
	"\x04\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00\x00GNU\x00\x00\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00")

func TestParse(t *testing.T) {
	withNote := shared(Class64, X8664, "libc.so.6")
	withNote.note = abi
	program := maker{class: Class64, machine: X8664, kind: SharedObject, interp: "/lib64/ld-linux-x86-64.so.2\x00", strings: "\x00", dynamic: []uint64{}}
	big := shared(Class64, PPC64, "libz.so.1")
	big.big = true
	for _, tc := range []struct {
		name string
		m    maker
		want File
	}{
		{"a library of x86-64", shared(Class64, X8664, "libcuda.so.1"), File{Class: Class64, Machine: X8664, Type: SharedObject, Dynamic: true, SONAME: "libcuda.so.1"}},
		{"a library of i386", shared(Class32, I386, "libcuda.so.1"), File{Class: Class32, Machine: I386, Type: SharedObject, Dynamic: true, SONAME: "libcuda.so.1"}},
		{"B42 big-endian", big, File{Class: Class64, BigEndian: true, Machine: PPC64, Type: SharedObject, Dynamic: true, SONAME: "libz.so.1"}},
		{"no SONAME", maker{class: Class64, machine: AArch64, kind: SharedObject, strings: "\x00", dynamic: []uint64{}}, File{Class: Class64, Machine: AArch64, Type: SharedObject, Dynamic: true}},
		{"B42 no dynamic section", maker{class: Class64, machine: AArch64, kind: Executable}, File{Class: Class64, Machine: AArch64, Type: Executable}},
		{"an ABI note behind another note", withNote, File{Class: Class64, Machine: X8664, Type: SharedObject, Dynamic: true, SONAME: "libc.so.6", OSVersion: 0x030200}},
		{"a position-independent program", program, File{Class: Class64, Machine: X8664, Type: SharedObject, Dynamic: true, Interp: "/lib64/ld-linux-x86-64.so.2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Parse(tc.m.bytes()); err != nil || got != tc.want {
				t.Errorf("Parse = %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestA10SONAMEsThatAreNoFileNames(t *testing.T) {
	for _, soname := range []string{"../../pwn/escaped", "/abs", "a\nb", "", ".", "..", "libcud\xff.so", strings.Repeat("x", 256), "a b", "libx.so;1"} {
		got, err := Parse(shared(Class64, X8664, soname).bytes())
		if !errors.Is(err, ErrSONAME) || got != (File{}) {
			t.Errorf("SONAME %.20q: %+v, %v; want ErrSONAME", soname, got, err)
		}
		if ValidSONAME(soname) {
			t.Errorf("ValidSONAME(%.20q) = true", soname)
		}
	}
	for _, soname := range []string{"libstdc++.so.6", "ld-linux-x86-64.so.2", strings.Repeat("x", 255), "lib_a.b-c+d", "..."} {
		if got, err := Parse(shared(Class64, X8664, soname).bytes()); err != nil || got.SONAME != soname {
			t.Errorf("SONAME %.20q: %.20q, %v", soname, got.SONAME, err)
		}
	}
}

type damaged struct {
	name string
	data []byte
	want error
}

// damagedFiles are the cases of TestB42DamagedFiles, which the fuzz target begins with.
func damagedFiles() []damaged {
	good := shared(Class64, X8664, "libx.so.1")
	change := func(f func(*maker)) []byte {
		m := good
		f(&m)
		return m.bytes()
	}
	dynamic := func(f func(*seg)) []byte {
		return change(func(m *maker) {
			m.segs = func(segs []seg) []seg { f(&segs[1]); return segs }
		})
	}
	return []damaged{
		{"empty", nil, ErrNotELF},
		{"4 bytes", []byte("\x7fELF"), ErrNotELF},
		{"63 bytes", good.bytes()[:63], ErrMalformed},
		{"a script", []byte("#!/bin/sh\nexec true \n"), ErrNotELF},
		{"a linker script", []byte("/* GNU ld script */\nGROUP ( /lib/libc.so.6 )"), ErrNotELF},
		{"class 3", append([]byte("\x7fELF\x03\x01"), make([]byte, 58)...), ErrMalformed},
		{"byte order 3", append([]byte("\x7fELF\x02\x03"), make([]byte, 58)...), ErrMalformed},
		{"65535 program headers", change(func(m *maker) { m.phnum = 65535 }), ErrMalformed},
		{"more program headers than the file has", change(func(m *maker) { m.phnum = 200 }), ErrMalformed},
		{"program headers of 8 bytes", change(func(m *maker) { m.phentsz = 8 }), ErrMalformed},
		{"dynamic section past the end", dynamic(func(s *seg) { s.off = 1 << 40 }), ErrMalformed},
		{"dynamic section that wraps", dynamic(func(s *seg) { s.off = 1<<64 - 8 }), ErrMalformed},
		{"dynamic section of 2 to the 63 bytes", dynamic(func(s *seg) { s.size = 1 << 63 }), ErrMalformed},
		{"string table that nothing loads", change(func(m *maker) { m.strtab = 0x1 }), ErrMalformed},
		{"string table at the end of addresses", change(func(m *maker) { m.strtab = 1<<64 - 1 }), ErrMalformed},
		{"SONAME outside of the string table", change(func(m *maker) { m.dynamic = []uint64{dtSONAME, 1 << 20} }), ErrMalformed},
		{"SONAME that wraps without a size of the table", change(func(m *maker) { m.dynamic = []uint64{dtSONAME, 1<<64 - 1, dtStrtab, base + 64, dtNull, 0} }), ErrMalformed},
		{"SONAME that wraps", change(func(m *maker) { m.dynamic = []uint64{dtSONAME, 1<<64 - 1} }), ErrMalformed},
		{"SONAME without end", change(func(m *maker) { m.strings = "\x00" + strings.Repeat("x", 300) }), ErrSONAME},
		{"interpreter without end", change(func(m *maker) { m.interp = "/lib/ld.so"; m.strings = "\x00libx.so.1\x00" }), ErrMalformed},
		{"interpreter outside", change(func(m *maker) {
			m.segs = func(s []seg) []seg { return append(s, seg{kind: ptInterp, off: 1 << 50, size: 8}) }
		}), ErrMalformed},
	}
}

func TestB42DamagedFiles(t *testing.T) {
	for _, tc := range damagedFiles() {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.data)
			if !errors.Is(err, tc.want) {
				t.Fatalf("Parse = %+v, %v; want %v", got, err, tc.want)
			}
			if err != nil && got != (File{}) {
				t.Errorf("Parse returned %+v along with %v", got, err)
			}
		})
	}
}

func TestB42DamagedNotesAreNoMatter(t *testing.T) {
	m := shared(Class64, X8664, "libx.so.1")
	for _, note := range [][]byte{[]byte("short"), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00GNU\x00"), make([]byte, 64)} {
		m.note = note
		if got, err := Parse(m.bytes()); err != nil || got.SONAME != "libx.so.1" || got.OSVersion != 0 {
			t.Errorf("note %q: %+v, %v", note, got, err)
		}
	}
}

// shrinking claims a size that it does not have.
type shrinking struct{ data []byte }

func (s shrinking) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(s.data)) {
		return 0, io.EOF
	}
	n := copy(b, s.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func TestB40AFileThatShrinksWhileItIsRead(t *testing.T) {
	whole := shared(Class64, X8664, "libx.so.1").bytes()
	for n := range whole {
		got, err := Read(shrinking{whole[:n]}, int64(len(whole)))
		if err == nil && n < len(whole)-200 {
			t.Fatalf("the first %d of %d bytes: %+v without an error", n, len(whole), got)
		}
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSONAME) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

type broken struct{ err error }

func (b broken) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func TestErrorsOfTheReaderArePassedOn(t *testing.T) {
	want := errors.New("input/output error")
	if _, err := Read(broken{want}, 1<<20); !errors.Is(err, want) {
		t.Errorf("Read = %v, want it to wrap %v", err, want)
	}
}

// counting adds up what is read.
type counting struct {
	io.ReaderAt
	n int
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.n += len(b)
	return c.ReaderAt.ReadAt(b, off)
}

func TestLittleIsReadOfALargeFile(t *testing.T) {
	data := append(shared(Class64, X8664, "libx.so.1").bytes(), make([]byte, 8<<20)...)
	c := &counting{ReaderAt: strings.NewReader(string(data))}
	if f, err := Read(c, int64(len(data))); err != nil || f.SONAME != "libx.so.1" || c.n > 4096 {
		t.Errorf("Read = %+v, %v after %d bytes of %d", f, err, c.n, len(data))
	}
}

func TestCacheFlags(t *testing.T) {
	for _, tc := range []struct {
		f    File
		want int32
		ok   bool
	}{
		{File{Class: Class64, Machine: X8664}, 0x0303, true},
		{File{Class: Class64, Machine: AArch64}, 0x0a03, true},
		{File{Class: Class32, Machine: I386}, 0x0001, true},
		{File{Class: Class32, Machine: I386, NeedsLibc: true}, 0x0003, true},
		{File{Class: Class32, Machine: I386, Interp: "/lib/ld-linux.so.2"}, 0x0003, true},
		{File{Class: Class32, Machine: I386, Interp: "/lib/other.so"}, 0x0001, true},
		{File{Class: Class32, Machine: X8664}, 0x0803, true},
		{File{Class: Class32, Machine: ARM, Flags: 0x5000400}, 0x0903, true},
		{File{Class: Class32, Machine: ARM, Flags: 0x5000200}, 0x0b03, true},
		{File{Class: Class64, Machine: PPC64}, 0x0503, true},
		{File{Class: Class64, Machine: S390}, 0x0403, true},
		{File{Class: Class64, Machine: RISCV, Flags: 5}, 0x1003, true},
		{File{Class: Class64, Machine: RISCV}, 0x0f03, true},
		{File{Class: Class64, Machine: LoongArch, Flags: 0x43}, 0x1203, true},
		{File{Class: Class64, Machine: I386}, 0x0001, false},
		{File{Class: Class64, Machine: 8}, 0, false},
		{File{}, 0, false},
	} {
		if got, ok := tc.f.CacheFlags(); ok != tc.ok || ok && got != tc.want {
			t.Errorf("%+v: flags %#x, %v; want %#x, %v", tc.f, got, ok, tc.want, tc.ok)
		}
	}
}

// What ldconfig of glibc 2.36 printed of libraries that ld made so.
func TestI386LibrariesByWhatTheyNeed(t *testing.T) {
	for needed, want := range map[string]bool{"libc.so.6": true, "libm.so.6": true, "libc.so.5": false, "libc.so.60": false, "ld-linux.so.2": false, "libfoo.so.1": false, "": false} {
		m := shared(Class32, I386, "libx.so.1")
		m.dynamic = append(m.dynamic, dtNeeded, uint64(len(m.strings)))
		m.strings += needed + "\x00"
		f, err := Parse(m.bytes())
		if err != nil || f.NeedsLibc != want {
			t.Errorf("it needs %q: %+v, %v; want NeedsLibc %v", needed, f, err, want)
		}
	}
	m := shared(Class32, I386, "libx.so.1")
	m.dynamic = append(m.dynamic, dtNeeded, 1<<31)
	if f, err := Parse(m.bytes()); err != nil || f.NeedsLibc {
		t.Errorf("a name out of the file: %+v, %v", f, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range []maker{shared(Class64, X8664, "libcuda.so.1"), shared(Class32, I386, "libz.so.1"), {class: Class64, machine: AArch64, kind: Executable, interp: "/lib/ld.so\x00"}} {
		m.note = abi
		f.Add(m.bytes())
	}
	f.Add([]byte("\x7fELF"))
	for _, tc := range damagedFiles() {
		if len(tc.data) < 1<<16 {
			f.Add(tc.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &counting{ReaderAt: strings.NewReader(string(data))}
		got, err := Read(c, int64(len(data)))
		if c.n > MaxRead {
			t.Fatalf("%d bytes were read", c.n)
		}
		if err != nil {
			if got != (File{}) {
				t.Fatalf("%+v along with %v", got, err)
			}
			if !errors.Is(err, ErrNotELF) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSONAME) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if got.SONAME != "" && !ValidSONAME(got.SONAME) {
			t.Fatalf("SONAME %q", got.SONAME)
		}
	})
}
