package ldcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	// From low to high.
	order := []string{
		"", "liba.so", "liba.so.1", "liba.so.1.2", "liba.so.2", "liba.so.9", "liba.so.10", "liba.so.10.1",
		"liba.so.18446744073709551616", "liba.so.18446744073709551617", "libb.so", "libz", "lib1",
	}
	for i, a := range order {
		for j, b := range order {
			if got := Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%q, %q) = %d", a, b, got)
			}
		}
	}
	if Compare("liba.so.01", "liba.so.1") != 0 {
		t.Error("leading zeros count")
	}
}

func TestSortIsTheLoadersOrder(t *testing.T) {
	c := Cache{Entries: []Entry{
		{SONAME: "liba.so.1", Path: "/second", Flags: FlagsX8664},
		{SONAME: "liba.so.1", Path: "/i386", Flags: FlagsI386},
		{SONAME: "libb.so.1", Path: "/b", Flags: FlagsX8664},
		{SONAME: "liba.so.1", Path: "/v3", Flags: FlagsX8664, HWCaps: "x86-64-v3"},
		{SONAME: "liba.so.10", Path: "/10", Flags: FlagsX8664},
		{SONAME: "liba.so.1", Path: "/v2", Flags: FlagsX8664, HWCaps: "x86-64-v2"},
		{SONAME: "liba.so.1", Path: "/third", Flags: FlagsX8664},
		{SONAME: "liba.so.1", Path: "/tls", Flags: FlagsX8664, HWCap: 1 << 63},
	}}
	c.Sort()
	var got []string
	for _, e := range c.Entries {
		got = append(got, e.Path)
	}
	if want := "/b /10 /v2 /v3 /tls /second /third /i386"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
}

// some returns a cache with every kind of entry.
func some() Cache {
	c := Cache{Generator: "ldconfig (GNU libc) stable release version 2.40", Entries: []Entry{
		{SONAME: "libcuda.so.1", Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Flags: FlagsX8664},
		{SONAME: "libcuda.so.1", Path: "/usr/lib/i386-linux-gnu/libcuda.so.1", Flags: FlagsI386},
		{SONAME: "libcuda.so.1", Path: "/usr/lib/aarch64-linux-gnu/libcuda.so.1", Flags: FlagsAArch64},
		{SONAME: "libz.so.1", Path: "/usr/lib/glibc-hwcaps/x86-64-v3/libz.so.1.3", Flags: FlagsX8664, HWCaps: "x86-64-v3", ISALevel: 8},
		{SONAME: "libz.so.1", Path: "/usr/lib/glibc-hwcaps/x86-64-v2/libz.so.1.3", Flags: FlagsX8664, HWCaps: "x86-64-v2"},
		{SONAME: "libz.so.1", Path: "/usr/lib/libz.so.1", Flags: FlagsX8664, OSVersion: 0x030200},
		{SONAME: "libz.so.1", Path: "/usr/lib/haswell/libz.so.1", Flags: FlagsX8664, HWCap: 1 << 50},
	}}
	c.Sort()
	return c
}

func TestMarshalAndParse(t *testing.T) {
	for name, c := range map[string]Cache{"every kind": some(), "empty": {Entries: []Entry{}}, "no hwcaps": {Generator: "x", Entries: []Entry{{SONAME: "a", Path: "/b/a", Flags: FlagsI386}}}} {
		data := c.Marshal()
		got, err := Parse(data)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: Parse(Marshal) = %+v, %v; want %+v", name, got, err, c)
		}
		if data[28] != 2 {
			t.Errorf("%s: the header does not say little-endian", name)
		}
	}
}

func TestMarshalSortsAndLeavesItsArgument(t *testing.T) {
	c := some()
	slices.Reverse(c.Entries)
	before := slices.Clone(c.Entries)
	if got, want := c.Marshal(), some().Marshal(); string(got) != string(want) {
		t.Error("the order of entries shows in the file")
	}
	if !slices.Equal(c.Entries, before) {
		t.Error("Marshal changed the cache")
	}
}

// TestRoundTrip is the property: what is written is what is read.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := Cache{Generator: strings.Repeat("g", r.IntN(9)), Entries: []Entry{}}
		for range r.IntN(40) {
			e := Entry{SONAME: fmt.Sprintf("lib%c.so.%d", 'a'+rune(r.IntN(4)), r.IntN(12)), Flags: []int32{FlagsX8664, FlagsAArch64, FlagsI386}[r.IntN(3)]}
			e.Path = fmt.Sprintf("/usr/%d/%s", r.IntN(3), []string{e.SONAME, "other.so"}[r.IntN(2)])
			if r.IntN(3) == 0 {
				e.HWCaps, e.ISALevel = fmt.Sprintf("x86-64-v%d", r.IntN(4)), uint32(r.IntN(16))
			}
			c.Entries = append(c.Entries, e)
		}
		c.Sort()
		if got, err := Parse(c.Marshal()); err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("%+v\nbecame %+v, %v", c, got, err)
		}
	}
}

// old writes the old format; with a new cache behind it, as glibc did up to
// 2.31 ("compat").
func old(entries []Entry, behind []byte) []byte {
	le := binary.LittleEndian
	out := append([]byte(magicOld), 0)
	out = le.AppendUint32(out, uint32(len(entries)))
	var strs []byte
	for _, e := range entries {
		off := uint32(len(behind) + len(strs))
		if len(behind) > 0 { // strings start behind the padding
			off += uint32((8 - (oldHeaderSize+oldEntrySize*len(entries))%8) % 8)
		}
		strs = append(append(strs, e.SONAME...), 0)
		out = le.AppendUint32(out, uint32(e.Flags))
		out = le.AppendUint32(out, off)
		out = le.AppendUint32(out, off+uint32(len(e.SONAME))+1)
		strs = append(append(strs, e.Path...), 0)
	}
	if len(behind) > 0 {
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	return append(append(out, behind...), strs...)
}

func TestOldFormats(t *testing.T) {
	entries := []Entry{
		{SONAME: "libz.so.1", Path: "/lib/libz.so.1", Flags: FlagsX8664},
		{SONAME: "libc.so.6", Path: "/lib/libc.so.6", Flags: FlagsX8664},
		{SONAME: "liba.so.1", Path: "/lib/liba.so.1", Flags: 1},
	}
	got, err := Parse(old(entries, nil))
	if err != nil || !reflect.DeepEqual(got.Entries, entries) {
		t.Errorf("old alone: %+v, %v", got, err)
	}
	for n := range 4 { // with and without padding
		c := Cache{Entries: []Entry{{SONAME: "libnew.so.1", Path: "/lib/libnew.so.1", Flags: FlagsX8664}}}
		data := old(entries[:n], nil)
		for len(data)%8 != 0 {
			data = append(data, 0)
		}
		behind := c.Marshal()
		binary.LittleEndian.PutUint32(behind[32:], 0) // its offset counts from the start of the file
		got, err := Parse(old(entries[:n], behind))
		if err != nil || len(got.Entries) != 1 || got.Entries[0] != c.Entries[0] {
			t.Errorf("both, %d old entries: %+v, %v", n, got, err)
		}
	}
}

func TestBothFormatsWithAnExtension(t *testing.T) {
	c := some()
	behind := c.Marshal()
	start := uint32(oldHeaderSize) // no old entries, no padding
	le := binary.LittleEndian
	at := le.Uint32(behind[32:])
	le.PutUint32(behind[32:], at+start)
	for i := range le.Uint32(behind[at+4:]) {
		field := behind[at+8+16*i+8:]
		le.PutUint32(field, le.Uint32(field)+start)
	}
	if got, err := Parse(old(nil, behind)); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("Parse = %+v, %v; want %+v", got, err, c)
	}
}

func put(data []byte, at int, v uint32) []byte {
	out := slices.Clone(data)
	binary.LittleEndian.PutUint32(out[at:], v)
	return out
}

type badHeader struct {
	name string
	data []byte
	want error
}

// badHeaders are the cases of TestB38BadHeaders, which the fuzz target begins with.
func badHeaders() []badHeader {
	good := some().Marshal()
	ext := int(binary.LittleEndian.Uint32(good[32:]))
	big := slices.Clone(good)
	big[28] = 3
	invalid := slices.Clone(good)
	invalid[28] = 1
	version := slices.Clone(good)
	version[17] = '2'
	odd := slices.Insert(slices.Clone(good), ext, 0) // a whole extension, one byte further
	for i := range 2 {
		off := ext + 1 + 8 + 16*i + 8
		odd = put(odd, off, binary.LittleEndian.Uint32(odd[off:])+1)
	}
	oldHuge := old([]Entry{{SONAME: "a", Path: "/a", Flags: 1}}, nil)
	return []badHeader{
		{"0 bytes", nil, ErrFormat},
		{"10 bytes", good[:10], ErrFormat},
		{"47 bytes", good[:47], ErrFormat},
		{"wrong magic", append([]byte("x"), good[1:]...), ErrFormat},
		{"another version", version, ErrFormat},
		{"0xffffffff entries", put(good, 20, 0xffffffff), ErrFormat},
		{"0x0fffffff entries", put(good, 20, 0x0fffffff), ErrFormat},
		{"one entry too many for the file", put(good[:48+24*7], 20, 8), ErrFormat},
		{"big-endian", big, ErrByteOrder},
		{"marked invalid", invalid, ErrByteOrder},
		{"old, 15 bytes", oldHuge[:15], ErrFormat},
		{"old, one entry too many for the file", put(oldHuge, 12, uint32(len(oldHuge)-16)/12+1), ErrFormat},
		{"old, 0xffffffff entries", put(oldHuge, 12, 0xffffffff), ErrFormat},
		{"extension past the end", put(good, 32, uint32(len(good))+4), ErrFormat},
		{"extension that wraps", put(good, 32, 0xfffffffc), ErrFormat},
		{"extension misaligned", put(odd, 32, uint32(ext)+1), ErrFormat},
		{"extension without its number", put(good, ext, 0), ErrFormat},
		{"0xffffffff extensions", put(good, ext+4, 0xffffffff), ErrFormat},
		{"extension section past the end", put(good, ext+8+12, 0xffffffff), ErrFormat},
	}
}

func TestB38BadHeaders(t *testing.T) {
	good := some().Marshal()
	for _, tc := range badHeaders() {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := Parse(tc.data); !errors.Is(err, tc.want) || got.Entries != nil {
				t.Errorf("Parse = %+v, %v; want %v", got, err, tc.want)
			}
		})
	}
	if _, err := Parse(put(good, 24, 0xffffffff)); err != nil {
		t.Errorf("a size of the string table that is wrong does not matter to loaders, but: %v", err)
	}
	if _, err := Parse(make([]byte, MaxSize+1)); !errors.Is(err, ErrLimit) {
		t.Errorf("a file of %d bytes: %v", MaxSize+1, err)
	}
}

func TestB38NoMemoryForCountsThatAreNotThere(t *testing.T) {
	data := put(some().Marshal(), 20, 0x0fffffff)
	if n := testing.AllocsPerRun(10, func() { _, _ = Parse(data) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

type badEntry struct {
	name string
	data []byte
}

// badEntries are the cases of TestB39BadEntriesAreLeftOutAndCounted, which the fuzz target begins with.
func badEntries() []badEntry {
	one := func(e Entry) []byte { return Cache{Entries: []Entry{e, ok}}.Marshal() }
	at := func(data []byte, field int, v uint32) []byte { // of the first entry, "libz…"
		return put(data, headerSize+field, v)
	}
	good := one(Entry{SONAME: "libz.so.1", Path: "/lib/libz.so.1", Flags: FlagsX8664})
	hwcaps := one(Entry{SONAME: "libz.so.1", Path: "/lib/libz.so.1", Flags: FlagsX8664, HWCaps: "x86-64-v2"})
	noNUL := append(slices.Clone(good), 'x')
	return []badEntry{
		{"key at the end", at(good, 4, uint32(len(good)))},
		{"key past the end", at(good, 4, uint32(len(good))+100)},
		{"key that wraps", at(good, 4, 0xffffffff)},
		{"value past the end", at(good, 8, uint32(len(good))+1)},
		{"string without end", at(noNUL, 8, uint32(len(noNUL)-1))},
		{"path out of the root", one(Entry{SONAME: "libz.so.1", Path: "/../../etc/shadow", Flags: FlagsX8664})},
		{"relative path", one(Entry{SONAME: "libz.so.1", Path: "../../etc/shadow", Flags: FlagsX8664})},
		{"path that ends in two dots", one(Entry{SONAME: "libz.so.1", Path: "/lib/..", Flags: FlagsX8664})},
		{"newline in the path", one(Entry{SONAME: "libz.so.1", Path: "/lib/a\nb", Flags: FlagsX8664})},
		{"long path", one(Entry{SONAME: "libz.so.1", Path: "/" + strings.Repeat("x", 4096), Flags: FlagsX8664})},
		{"A10 SONAME with a slash", one(Entry{SONAME: "libz/../x", Path: "/lib/z", Flags: FlagsX8664})},
		{"SONAME with a newline", one(Entry{SONAME: "libz\n.so", Path: "/lib/z", Flags: FlagsX8664})},
		{"flags of no library", at(good, 0, 0)},
		{"flags of a kind that is none", at(good, 0, 0x0307)},
		{"flags beyond the known bits", at(good, 0, 0x80000303)},
		{"hwcaps that are not there", at(good, 20, hwcapExtension>>32)},
		{"hwcaps past the list", at(hwcaps, 16, 1)},
		{"hwcaps with a slash", one(Entry{SONAME: "libz.so.1", Path: "/lib/z", Flags: FlagsX8664, HWCaps: "../x"})},
	}
}

func TestB39BadEntriesAreLeftOutAndCounted(t *testing.T) {
	for _, tc := range badEntries() {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.data)
			if err != nil || got.Dropped != 1 || len(got.Entries) != 1 || got.Entries[0] != ok {
				t.Errorf("Parse = %+v, %v; want one entry dropped and %v kept", got, err, ok)
			}
		})
	}
}

// ok sorts behind every "libz".
var ok = Entry{SONAME: "liba.so.1", Path: "/lib/liba.so.1", Flags: FlagsX8664}

func TestB39OverlappingExtensionsAreRead(t *testing.T) {
	data := some().Marshal()
	le := binary.LittleEndian
	ext := int(le.Uint32(data[32:]))
	copy(data[ext+8+8:], data[ext+8+16+8:][:8]) // the generator lies where the hwcaps are
	if got, err := Parse(data); err != nil || len(got.Entries) != len(some().Entries) {
		t.Errorf("Parse = %+v, %v", got, err)
	}
}

func TestLookup(t *testing.T) {
	got := some().Lookup("libz.so.1")
	if len(got) != 4 || got[0].HWCaps != "x86-64-v2" || got[1].HWCaps != "x86-64-v3" || got[3].Path != "/usr/lib/libz.so.1" {
		t.Errorf("Lookup = %+v", got)
	}
	if got := some().Lookup("libz.so"); got != nil {
		t.Errorf("Lookup of a name that is not there = %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(some().Marshal())
	f.Add(old(some().Entries, nil))
	f.Add(old(some().Entries[:2], some().Marshal()))
	f.Add([]byte(magicNew))
	f.Add([]byte(magicOld))
	for _, tc := range badHeaders() {
		if len(tc.data) < 1<<16 {
			f.Add(tc.data)
		}
	}
	for _, tc := range badEntries() {
		if len(tc.data) < 1<<16 {
			f.Add(tc.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if c.Entries != nil || !errors.Is(err, ErrFormat) && !errors.Is(err, ErrByteOrder) && !errors.Is(err, ErrLimit) {
				t.Fatalf("%+v, %v", c, err)
			}
			return
		}
		c.Dropped = 0
		c.Sort()
		again, err := Parse(c.Marshal())
		if err != nil || !slices.Equal(again.Entries, c.Entries) || again.Generator != c.Generator || again.Dropped != 0 {
			t.Fatalf("%+v\nbecame %+v, %v", c, again, err)
		}
	})
}
