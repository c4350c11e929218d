package ldcache

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/elf"
)

// Limits of one Build.
const (
	MaxFiles = 20000 // library files that are read
	MaxSkips = 1000  // that are listed; SkipsOmitted counts the rest

	// maxWhole bounds a library that is read as a whole, where the View is no
	// Opener.
	maxWhole = 256 << 20
)

// A Built is a cache made from folders, and what was seen on the way.
type Built struct {
	Cache Cache
	// Links are SONAME links that the cache relies on and that are missing or
	// lead elsewhere. ldconfig makes them; so must whoever installs the cache.
	Links []Link
	// Skipped are folders and files that look like libraries and were left out.
	Skipped      []Skip
	SkipsOmitted int // further ones, beyond MaxSkips
}

// A Link is to be made: Dir/Name -> Target, a file of the same folder.
// Real is Dir with its links resolved.
type Link struct{ Dir, Real, Name, Target string }

// Build scans folders for libraries, as ldconfig does: files named lib*.so* or
// ld-*.so*, links to such, and those in glibc-hwcaps subfolders. The SONAME in a
// file decides its entry; of several files with one SONAME in a folder the
// highest version counts; a development link is an entry of its own. Folders are
// taken in order, one that was there before under another name is left out.
//
// Of the same View it makes the same Built. Nothing in the View is an error.
func Build(v View, folders []string) Built {
	b := builder{View: v, seen: map[string]bool{}}
	for _, dir := range folders {
		b.folder(strings.TrimRight(dir, "/"))
	}
	b.Cache.Sort()
	return b.Built
}

// hwcapsDir is where a folder of libraries has those for better processors.
const hwcapsDir = "glibc-hwcaps"

type builder struct {
	View
	Built
	seen  map[string]bool // folders, resolved
	files int
}

func (b *builder) skip(p string, err error) {
	if len(b.Skipped) >= MaxSkips {
		b.SkipsOmitted++
		return
	}
	b.Skipped = append(b.Skipped, Skip{Path: p, Err: err})
}

// folder scans one folder and its glibc-hwcaps subfolders.
func (b *builder) folder(dir string) {
	if !ValidPath(dir) {
		b.skip(dir, errors.New("not an absolute, printable path"))
		return
	}
	real, ok := b.enter(dir)
	if !ok {
		return
	}
	b.scan(dir, real, "")
	names, err := b.ReadDir(path.Join(real, hwcapsDir))
	if err != nil {
		if !missing(err) {
			b.skip(path.Join(dir, hwcapsDir), err)
		}
		return
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		at := path.Join(dir, hwcapsDir, name)
		if !elf.ValidSONAME(name) {
			b.skip(at, errors.New("not the name of a glibc-hwcaps subfolder"))
			continue
		}
		if real, ok := b.enter(at); ok {
			b.scan(at, real, name)
		}
	}
}

// enter resolves a folder; false if there is nothing to do in it.
func (b *builder) enter(dir string) (real string, ok bool) {
	real, info, err := resolve(b, dir)
	switch {
	case err != nil:
		b.skip(dir, err)
	case !info.Mode.IsDir():
		b.skip(dir, syscall.ENOTDIR)
	case !b.seen[real]:
		b.seen[real] = true
		return real, true
	}
	return "", false
}

// A library is the file that stands for one SONAME in a folder.
type library struct {
	name, soname string
	link         bool // name is a link that may give way to a file
	flags        int32
}

// scan adds the libraries of one folder.
func (b *builder) scan(dir, real, hwcaps string) {
	names, err := b.ReadDir(real)
	if err != nil {
		b.skip(dir, err)
		return
	}
	best := map[string]library{}
	for _, name := range names {
		if !IsLibraryName(name) {
			continue
		}
		if b.files++; b.files > MaxFiles {
			b.skip(dir, fmt.Errorf("%w of %d files, the rest is not read", ErrLimit, MaxFiles))
			break
		}
		lib, err := b.library(real, name)
		if err != nil {
			if err != errNoFile {
				b.skip(path.Join(dir, name), err)
			}
			continue
		}
		old, ok := best[lib.soname]
		if !ok || old.link && !lib.link || old.link == lib.link && Compare(old.name, lib.name) < 0 {
			best[lib.soname] = lib
		}
	}
	for _, lib := range slices.SortedFunc(maps.Values(best), func(a, b library) int { return cmp.Compare(a.soname, b.soname) }) {
		b.add(dir, real, hwcaps, lib)
	}
}

// errNoFile marks a name that is a directory: no library and no surprise.
var errNoFile = errors.New("a directory")

// library looks at one name of a folder.
func (b *builder) library(real, name string) (library, error) {
	if !elf.ValidSONAME(name) {
		return library{}, fmt.Errorf("%w: %q", elf.ErrSONAME, name)
	}
	file := path.Join(real, name)
	info, err := b.Lstat(file)
	if err != nil {
		return library{}, err
	}
	lib := library{name: name, link: info.Mode&fs.ModeSymlink != 0}
	if lib.link {
		if file, info, err = resolveFrom(b, real, name); err != nil {
			return library{}, err
		}
	}
	if info.Mode.IsDir() {
		return library{}, errNoFile
	}
	if !info.Mode.IsRegular() {
		return library{}, fmt.Errorf("%w: %s", ErrNotLibrary, info.Mode.Type())
	}
	f, err := readELF(b.View, file, info.Size)
	if err != nil {
		return library{}, err
	}
	var ok bool
	if lib.flags, ok = f.CacheFlags(); !ok || f.Type != elf.SharedObject || !f.Dynamic {
		return library{}, fmt.Errorf("%w: ELF machine %d, type %d", ErrNotLibrary, f.Machine, f.Type)
	}
	lib.soname = cmp.Or(f.SONAME, name)
	// A link counts as one only if it is the SONAME link or the development
	// link of it (libfoo.so of libfoo.so.1); others pass for files.
	if lib.link && name != lib.soname && !(strings.HasSuffix(name, ".so") && strings.HasPrefix(lib.soname, name)) {
		lib.link = false
	}
	if lib.link {
		lib.soname = name
	}
	return lib, nil
}

// Inspect reads the ELF file that p leads to, which is at real.
func Inspect(v View, p string) (f elf.File, real string, err error) {
	real, info, err := resolve(v, p)
	if err == nil && !info.Mode.IsRegular() {
		err = errNotRegular
	}
	if err == nil {
		f, err = readELF(v, real, info.Size)
	}
	return f, real, err
}

// An object is a file as loaders see it.
type object struct {
	head    []byte // its first bytes, headSize at most
	elf     elf.File
	problem error // why elf is not known
}

// readObject reads the regular file at p. The error is of the View; what is no ELF
// file has a Problem of its own.
func readObject(v View, p string, size int64) (object, error) {
	if m, ok := v.(memoizer); ok {
		return m.readObject(p, size)
	}
	var o object
	opener, ok := v.(Opener)
	if !ok {
		if size > maxWhole {
			return o, fmt.Errorf("%w: %d bytes to read as a whole", ErrLimit, size)
		}
		data, err := v.ReadFile(p)
		if err != nil {
			return o, err
		}
		o.head = data[:min(len(data), headSize)]
		o.elf, o.problem = elf.Parse(data)
		return o, nil
	}
	r, err := opener.Open(p)
	if err != nil {
		return o, err
	}
	defer r.Close()
	head := make([]byte, headSize)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return o, err
	}
	o.head = head[:n]
	o.elf, o.problem = elf.Read(r, size)
	if errors.Is(o.problem, elf.ErrNotELF) || errors.Is(o.problem, elf.ErrMalformed) {
		if real := length(r); real != size {
			o.elf, o.problem = elf.Read(r, real)
		}
	}
	return o, nil
}

func readELF(v View, p string, size int64) (elf.File, error) {
	o, err := readObject(v, p, size)
	return o.elf, cmp.Or(err, o.problem)
}

// length finds the length of a file by its last byte: some file systems report 0, or
// less than they return.
func length(r io.ReaderAt) int64 {
	has := func(off int64) bool {
		n, _ := r.ReadAt(make([]byte, 1), off)
		return n == 1
	}
	low, high := int64(0), int64(1) // the length is between them
	for high < 1<<40 && has(high-1) {
		low, high = high, high*2
	}
	for low < high {
		if middle := (low + high) / 2; has(middle) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// add makes the entry of a library. In a plain folder it names the SONAME link,
// so that an exchanged file needs no new cache; in a hwcaps folder the file.
func (b *builder) add(dir, real, hwcaps string, lib library) {
	e := Entry{SONAME: lib.soname, Path: dir + "/" + lib.soname, Flags: lib.flags, HWCaps: hwcaps}
	if hwcaps != "" {
		e.Path = dir + "/" + lib.name
	} else if !lib.link && lib.soname != lib.name {
		b.link(dir, real, lib)
	}
	b.Cache.Entries = append(b.Cache.Entries, e)
}

// link notes the SONAME link of a file if it is not there.
func (b *builder) link(dir, real string, lib library) {
	at := path.Join(real, lib.soname)
	info, err := b.Lstat(at)
	if err == nil && info.Mode&fs.ModeSymlink == 0 {
		b.skip(path.Join(dir, lib.soname), ErrInTheWay)
		return
	}
	if err == nil {
		have, _, errHave := resolveFrom(b, real, lib.soname)
		want, _, errWant := resolveFrom(b, real, lib.name)
		if errHave == nil && errWant == nil && have == want {
			return
		}
	}
	b.Links = append(b.Links, Link{Dir: dir, Real: real, Name: lib.soname, Target: lib.name})
}

// IsLibraryName reports whether a file of this name is looked at: lib*.so* and
// ld-*.so*, but not what package managers leave behind while they work (as in
// glibc since 2.39).
func IsLibraryName(name string) bool {
	if !strings.HasPrefix(name, "lib") && !strings.HasPrefix(name, "ld-") {
		return false
	}
	for _, suffix := range []string{"-gdb.py", ".dpkg-new", ".dpkg-tmp", ".#prelink#"} {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	if i := strings.LastIndexByte(name, ';'); i > 0 && len(name)-i == 9 { // RPM: name;5f3a01bc
		return false
	}
	return strings.Contains(name, ".so")
}
