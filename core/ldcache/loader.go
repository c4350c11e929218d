package ldcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/elf"
)

// A Loader is a program interpreter: which files it takes, and where it searches.
type Loader struct {
	Path    string // the interpreter that programs name: "/lib64/ld-linux-x86-64.so.2"
	Machine elf.Machine
	Class   elf.Class
	// Musl is the architecture in the name of musl's path file; empty: glibc.
	Musl string

	tuple     string   // of Debian's folders
	flags     []int32  // of cache entries that it takes, its own first
	platforms []string // the kernel's AT_PLATFORM, or glibc's names of better processors
}

// loaders are those of the machines that have GPU drivers. A root with both kinds
// (Debian with the musl package) is a glibc system, so glibc's come first.
var loaders = []Loader{
	{Path: "/lib64/ld-linux-x86-64.so.2", Machine: elf.X8664, Class: elf.Class64, tuple: "x86_64-linux-gnu", flags: []int32{FlagsX8664}, platforms: []string{"x86_64", "haswell", "xeon_phi"}},
	{Path: "/lib/ld-linux-aarch64.so.1", Machine: elf.AArch64, Class: elf.Class64, tuple: "aarch64-linux-gnu", flags: []int32{FlagsAArch64}, platforms: []string{"aarch64"}},
	{Path: "/lib/ld-linux.so.2", Machine: elf.I386, Class: elf.Class32, tuple: "i386-linux-gnu", flags: []int32{FlagsI386, flagsELF}, platforms: []string{"i686", "i586", "i486", "i386"}},
	{Path: "/lib/ld-linux-armhf.so.3", Machine: elf.ARM, Class: elf.Class32, tuple: "arm-linux-gnueabihf", flags: []int32{flagsARMHard, FlagsI386}, platforms: []string{"v8l", "v7l", "v6l"}},
	{Path: "/lib/ld-musl-x86_64.so.1", Machine: elf.X8664, Class: elf.Class64, Musl: "x86_64"},
	{Path: "/lib/ld-musl-aarch64.so.1", Machine: elf.AArch64, Class: elf.Class64, Musl: "aarch64"},
	{Path: "/lib/ld-musl-i386.so.1", Machine: elf.I386, Class: elf.Class32, Musl: "i386"},
	{Path: "/lib/ld-musl-armhf.so.1", Machine: elf.ARM, Class: elf.Class32, Musl: "armhf"},
}

// Flags of entries that are for several loaders, or for one that has no constant.
const (
	flagsELF     int32 = 0x0001
	flagsARMHard int32 = 0x0903
)

// KnownLoaders returns the loaders that this package knows, glibc's first.
func KnownLoaders() []Loader { return slices.Clone(loaders) }

// Loaders returns those known loaders that a root has. One that dangles is none;
// the error is of the View.
func Loaders(v View) ([]Loader, error) {
	var out []Loader
	for _, l := range loaders {
		_, info, err := resolve(v, l.Path)
		switch {
		case err == nil && info.Mode.IsRegular():
			out = append(out, l)
		case err != nil && !missing(err) && !unreachable(err):
			return nil, fmt.Errorf("loader %s: %w", l.Path, err)
		}
	}
	return out, nil
}

// For returns the loader as it would be on another machine: the same search, for
// files of that machine. It is false where no such loader is known.
func (l Loader) For(m elf.Machine) (Loader, bool) {
	for _, o := range loaders {
		if o.Machine == m && (o.Musl == "") == (l.Musl == "") {
			l.Machine, l.Class, l.flags = o.Machine, o.Class, o.flags
			return l, true
		}
	}
	return Loader{}, false
}

// MuslFile is the path file of a musl loader; empty: it is glibc's.
func (l Loader) MuslFile() string {
	if l.Musl == "" {
		return ""
	}
	return "/etc/ld-musl-" + l.Musl + ".path"
}

// muslDefaults is what musl's loader searches without a path file (dynlink.c).
var muslDefaults = []string{"/lib", "/usr/local/lib", "/usr/lib"}

// MuslFolders returns what musl's loader searches when its path file has this
// text: folders between line breaks and colons, up to a zero byte. They replace
// the built-in ones even if there are none.
func MuslFolders(text []byte) []string {
	text, _, _ = bytes.Cut(text, []byte{0})
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == ':' })
}

// maxLoader bounds the loaders that are read. glibc's has 250 KiB.
const maxLoader = 8 << 20

// folders returns the folders that are built into glibc's loader. They depend on
// the distribution, so they are read out of the file; the layout of the root
// decides where it does not tell.
func (l Loader) folders(v View) []string {
	real, info, err := resolve(v, l.Path)
	if err == nil && info.Mode.IsRegular() && info.Size <= maxLoader {
		if data, err := v.ReadFile(real); err == nil {
			if dirs := builtIn(data); len(dirs) > 0 {
				return dirs
			}
		}
	}
	lib := []string{"/lib", "/usr/lib"}
	for _, d := range []string{"/lib/", "/usr/lib/"} {
		if _, info, err := resolve(v, d+l.tuple); err == nil && info.Mode.IsDir() {
			return append([]string{"/lib/" + l.tuple, "/usr/lib/" + l.tuple}, lib...)
		}
	}
	if l.Class == elf.Class64 {
		return append([]string{"/lib64", "/usr/lib64"}, lib...)
	}
	return lib
}

// builtIn finds glibc's SYSTEM_DIRS in a loader: folders, each with a slash and a
// zero byte at its end, one after the other.
func builtIn(data []byte) []string {
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("/\x00"))
		if i < 0 {
			return nil
		}
		end := at + i + 2
		start := bytes.LastIndexByte(data[at:end-1], 0) + 1 + at
		var out []string
		for {
			dir, rest, ok := bytes.Cut(data[start:], []byte{0})
			s := string(dir)
			if !ok || !strings.HasSuffix(s, "/") || !ValidPath(s) || !strings.Contains(s, "/lib") || len(out) == MaxFolders {
				break
			}
			out, start = append(out, strings.TrimRight(s, "/")), len(data)-len(rest)
		}
		if len(out) > 0 {
			return out
		}
		at = end
	}
}

// headSize is of the largest ELF header.
const headSize = 64

// takes says what the loader does with a file that begins like this: pass over it
// (false), fail on it (problem, in the loader's words), or load it.
func (l Loader) takes(head []byte) (ok bool, problem string) {
	need := headSize
	if l.Class == elf.Class32 {
		need = 52
	}
	if len(head) < need {
		return true, "file too short"
	}
	machine, kind := elf.Machine(binary.LittleEndian.Uint16(head[18:])), elf.Type(binary.LittleEndian.Uint16(head[16:]))
	same := elf.Class(head[4]) == l.Class && machine == l.Machine
	switch {
	case string(head[:4]) != "\x7fELF":
		return true, "invalid ELF header"
	case !same && l.Musl != "": // it does not look, and fails later
		return true, OtherMachine
	case elf.Class(head[4]) != l.Class:
		return false, ""
	case head[5] != 1:
		return true, "ELF file data encoding not little-endian"
	case !same:
		return false, ""
	case kind != elf.SharedObject && kind != elf.Executable:
		return true, "only ET_DYN and ET_EXEC can be loaded"
	}
	return true, ""
}

// OtherMachine is the problem of a file that musl's loader takes although it is of
// another machine, or of the other width.
const OtherMachine = "it is for another machine"

// unreachable are the errors of a path that a loader takes for its answer: it may
// not go there, or goes round in circles.
func unreachable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ELOOP)
}
