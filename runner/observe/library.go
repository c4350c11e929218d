package observe

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"gpurig/core/host"
)

// Values of Library.Via.
const (
	ViaEnv     = "LD_LIBRARY_PATH"
	ViaCache   = "ld.so.cache"
	ViaMusl    = "musl path file"
	ViaFolders = "default folders"
)

// A loader is one program interpreter and how it searches. Resolution reads
// files, it runs nothing: a container of an aarch64 machine can be looked at on
// x86_64.
type loader struct {
	path    string
	arch    string // as in the names of multiarch folders and of musl's files
	machine uint16 // e_machine of what it loads
	musl    bool
}

// loaders are tried in this order. A root with both kinds (Debian with the musl
// package) is a glibc system.
var loaders = []loader{
	{path: "/lib64/ld-linux-x86-64.so.2", arch: "x86_64", machine: emX8664},
	{path: "/lib/ld-linux-aarch64.so.1", arch: "aarch64", machine: emAArch64},
	{path: "/lib/ld-musl-x86_64.so.1", arch: "x86_64", machine: emX8664, musl: true},
	{path: "/lib/ld-musl-aarch64.so.1", arch: "aarch64", machine: emAArch64, musl: true},
}

// e_machine of the two architectures (elf.h).
const (
	emX8664   = 62
	emAArch64 = 183
)

// lookLibraries resolves each SONAME as the container's own loader would for a
// program that names it, without RPATH and preloading.
func (l *looker) lookLibraries(sonames []string) {
	if len(sonames) == 0 {
		return
	}
	ld, ok := l.findLoader()
	if !ok {
		for _, s := range sonames {
			l.o.Libraries = append(l.o.Libraries, Library{SONAME: s, Problem: "no loader in this root"})
		}
		return
	}
	search := l.searchOrder(ld)
	for _, s := range sonames {
		l.o.Libraries = append(l.o.Libraries, l.resolve(ld, search, s))
	}
}

// findLoader returns the container's loader. One that dangles is none.
func (l *looker) findLoader() (loader, bool) {
	for _, ld := range loaders {
		ok, err := host.Exists(l.v, ld.path)
		l.problem("loader "+ld.path, err)
		if ok {
			return ld, true
		}
	}
	return loader{}, false
}

// A place gives the paths at which a loader would look for one SONAME.
type place struct {
	via   string
	paths func(soname string) []string
}

func folders(via string, dirs []string) place {
	return place{via: via, paths: func(soname string) []string {
		out := make([]string, 0, len(dirs))
		for _, d := range dirs {
			out = append(out, path.Join("/", d, soname))
		}
		return out
	}}
}

// searchOrder is that of ld.so(8), or of musl's dynlink.c (load_library).
func (l *looker) searchOrder(ld loader) []place {
	var out []place
	if dirs := l.envDirs(); len(dirs) > 0 {
		out = append(out, folders(ViaEnv, dirs))
	}
	if ld.musl {
		return append(out, l.muslPlace(ld))
	}
	if p, ok := l.cachePlace(ld); ok {
		out = append(out, p)
	}
	return append(out, folders(ViaFolders, l.glibcFolders(ld)))
}

func (l *looker) envDirs() []string {
	env, err := l.v.Environ()
	if err != nil {
		return nil // lookProcess reports it
	}
	for _, v := range env {
		if list, ok := strings.CutPrefix(v, ViaEnv+"="); ok {
			return splitDirs(list, ":;")
		}
	}
	return nil
}

func splitDirs(list, separators string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(separators, r) })
}

// muslPlace reads the path file. Its folders replace the built-in ones, even
// when it names none.
func (l *looker) muslPlace(ld loader) place {
	file := "/etc/ld-musl-" + ld.arch + ".path"
	data, err := l.v.ReadFile(file)
	if missing(err) {
		return folders(ViaFolders, []string{"/lib", "/usr/local/lib", "/usr/lib"})
	}
	l.problem(file, err)
	return folders(ViaMusl, splitDirs(string(data), ":\n"))
}

// glibcFolders are the folders built into the loader: Debian's multiarch ones
// where the root has such folders, else upstream's.
func (l *looker) glibcFolders(ld loader) []string {
	tuple := ld.arch + "-linux-gnu"
	for _, d := range []string{"/lib/" + tuple, "/usr/lib/" + tuple} {
		if ok, err := host.Exists(l.v, d); ok && err == nil {
			return []string{"/lib/" + tuple, "/usr/lib/" + tuple, "/lib", "/usr/lib"}
		}
	}
	return []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}

// cachePlace reads /etc/ld.so.cache. Without one, or with one that it cannot
// read, a loader goes on to its folders; only the latter is a problem.
func (l *looker) cachePlace(ld loader) (place, bool) {
	const file = "/etc/ld.so.cache"
	data, err := l.v.ReadFile(file)
	if missing(err) {
		return place{}, false
	}
	var entries []cacheEntry
	if err == nil {
		entries, err = readCache(data)
	}
	if err != nil {
		l.problem(file, err)
		return place{}, false
	}
	return place{via: ViaCache, paths: func(soname string) []string {
		var own, other []string
		for _, e := range entries {
			switch {
			case e.soname != soname:
			case e.arch == ld.arch:
				own = append(own, e.path)
			default:
				other = append(other, e.path)
			}
		}
		return append(own, other...)
	}}, true
}

// A cacheEntry is one entry of ld.so.cache, best first for equal sonames.
type cacheEntry struct{ soname, path, arch string }

// resolve tries every place. Files of the loader's own architecture come
// first: glibc passes over others. Then any file will do, since a fake
// machine's libraries may be of another architecture than this one.
func (l *looker) resolve(ld loader, search []place, soname string) Library {
	if strings.Contains(soname, "/") { // dlopen takes it for a path
		search = []place{{via: "path", paths: func(s string) []string { return []string{path.Clean(s)} }}}
	}
	for _, anyArch := range []bool{false, true} {
		for _, p := range search {
			for _, at := range p.paths(soname) {
				if lib, ok := l.tryLibrary(ld, at, anyArch); ok {
					lib.SONAME, lib.Via = soname, p.via
					return lib
				}
			}
		}
	}
	return Library{SONAME: soname}
}

// tryLibrary says what a loader would do with the file at p: take it, fail on
// it (Problem), or pass over it.
func (l *looker) tryLibrary(ld loader, p string, anyArch bool) (Library, bool) {
	final, err := resolve(l.v, p)
	if missing(err) || errors.Is(err, syscall.ELOOP) {
		return Library{}, false
	}
	var head []byte
	if err == nil {
		head, err = l.v.Head(final, 20)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return Library{Path: p, Final: final, Problem: "cannot be read"}, true
	}
	if err != nil {
		l.problem("library "+p, err)
		return Library{}, false
	}
	lib := Library{Path: p, Final: final}
	machine, problem := elfMachine(head)
	if problem == "" && machine != ld.machine && !ld.musl && !anyArch {
		return Library{}, false
	}
	lib.Problem = problem
	return lib, true
}

// elfMachine reads e_machine out of the first 20 bytes of an ELF file; problem
// says why a loader would not take it, in the loader's words.
func elfMachine(head []byte) (machine uint16, problem string) {
	switch {
	case len(head) < 20:
		return 0, "file too short"
	case string(head[:4]) != "\x7fELF":
		return 0, "invalid ELF header"
	case head[5] == 2: // ELFDATA2MSB
		return binary.BigEndian.Uint16(head[18:]), ""
	default:
		return binary.LittleEndian.Uint16(head[18:]), ""
	}
}
