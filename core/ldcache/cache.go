// Package ldcache reads, builds and writes /etc/ld.so.cache, the list by which
// glibc's loader finds libraries.
//
// Parse and Marshal read and write the file. Conf and Build do what ldconfig(8)
// does to make one: read ld.so.conf, scan folders, read SONAMEs from ELF
// files. A Resolver says which file a loader, glibc's or musl's, loads for a
// name. Nothing is executed and nothing is written; files are read through a
// View, which must keep paths inside a root. All input may be hostile: counts
// are checked before memory is allocated, and bad entries are skipped and counted.
//
// It imports only the standard library and package elf, because it is part of
// a small static program that runs with the host's privileges.
//
// Reference: glibc, sysdeps/generic/dl-cache.h, elf/cache.c, elf/ldconfig.c.
package ldcache

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// File is where loaders look for the cache.
const File = "/etc/ld.so.cache"

var (
	// ErrFormat marks a file that a loader would not use as a cache.
	ErrFormat = errors.New("not a loader cache in glibc's format")
	// ErrByteOrder marks a cache of a big-endian machine.
	ErrByteOrder = errors.New("loader cache of a big-endian machine")
	// ErrLimit marks input beyond a limit of this package.
	ErrLimit = errors.New("over the limit")
	// ErrNotLibrary marks a file that is no shared library of a known machine.
	ErrNotLibrary = errors.New("not a shared library")
	// ErrInTheWay marks a file that stands where a SONAME link belongs.
	ErrInTheWay = errors.New("a file is where the SONAME link belongs")
)

// A Cache is the content of a loader cache.
type Cache struct {
	Entries []Entry // in the loader's order: see Sort
	// Generator is what wrote the file, as ldconfig -p prints it in its last
	// line; empty: the file does not say.
	Generator string
	// Dropped counts the entries that Parse left out: a string outside of the
	// file or without end, a name that is none, a path that is relative or has
	// "..", flags or hwcaps that no loader knows.
	Dropped int
}

// An Entry maps a SONAME to a file.
type Entry struct {
	SONAME    string // "libcuda.so.1"
	Path      string // "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
	Flags     int32  // FlagsX8664 and the like
	OSVersion uint32 // least kernel; zero since glibc 2.36
	HWCap     uint64 // hardware bits of old; zero since glibc 2.37
	HWCaps    string // glibc-hwcaps subfolder: "x86-64-v3"; empty: none
	ISALevel  uint32 // least ISA level of an entry with HWCaps; zero: any
}

// Values of Entry.Flags: the kind of library in the low byte (3: ELF for
// libc.so.6), the machine in the next.
const (
	FlagsX8664   int32 = 0x0303
	FlagsAArch64 int32 = 0x0a03
	FlagsI386    int32 = 0x0003
)

// Lookup returns the entries for a SONAME, in the loader's order of preference.
func (c Cache) Lookup(soname string) []Entry {
	var out []Entry
	for _, e := range c.Entries {
		if e.SONAME == soname {
			out = append(out, e)
		}
	}
	return out
}

// Sort puts entries into the order that glibc's loader searches by halves. Equal
// ones keep their order, so the folder that was scanned first wins.
func (c Cache) Sort() { slices.SortStableFunc(c.Entries, compareEntries) }

// compareEntries is glibc's order: SONAMEs from high to low, then flags from
// high to low, then hwcaps before plain ones.
func compareEntries(a, b Entry) int {
	if n := Compare(b.SONAME, a.SONAME); n != 0 {
		return n
	}
	if n := cmp.Compare(b.Flags, a.Flags); n != 0 {
		return n
	}
	switch {
	case a.HWCaps != "" && b.HWCaps == "":
		return -1
	case a.HWCaps == "" && b.HWCaps != "":
		return 1
	}
	return cmp.Or(strings.Compare(a.HWCaps, b.HWCaps),
		cmp.Compare(popCount(b.HWCap), popCount(a.HWCap)),
		cmp.Compare(b.HWCap, a.HWCap),
		cmp.Compare(b.OSVersion, a.OSVersion))
}

func popCount(v uint64) (n int) {
	for ; v != 0; v &= v - 1 {
		n++
	}
	return n
}

// Compare orders library names as glibc does: digits by their value, digits
// after everything else, the rest by bytes. "libz.so.10" is after "libz.so.9".
func Compare(a, b string) int {
	for a != "" {
		da, db := digit(a), b != "" && digit(b)
		switch {
		case da && db:
			var va, vb string
			va, a = number(a)
			vb, b = number(b)
			if n := cmp.Or(cmp.Compare(len(va), len(vb)), strings.Compare(va, vb)); n != 0 {
				return n
			}
		case da:
			return 1
		case db:
			return -1
		case b == "":
			return 1
		case a[0] != b[0]:
			return cmp.Compare(a[0], b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return -len(b)
}

func digit(s string) bool { return s[0] >= '0' && s[0] <= '9' }

// number splits the digits off s, without leading zeros: names of any length
// compare by value.
func number(s string) (digits, rest string) {
	n := 0
	for n < len(s) && digit(s[n:]) {
		n++
	}
	return strings.TrimLeft(s[:n], "0"), s[n:]
}
