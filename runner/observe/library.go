package observe

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"gpurig/core/elf"
	"gpurig/core/ldcache"
)

// Image is the Origin of a file that is mounted from nowhere.
const Image = "image"

// A FileID is what tells a file from all others of one machine, wherever it is
// mounted; the zero FileID is none.
type FileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// An Identifier is a View that knows a file's identity: whoever made the mounts
// names the host's file by it (Identify).
type Identifier interface {
	Identity(path string) (FileID, error)
}

// A Tracer is a View that knows by itself where a file comes from: an Origin.
type Tracer interface {
	Origin(path string) string
}

// Identify gives the libraries that were seen their Origin: the file of the host
// that has the identity, by its path without links, else Image.
func Identify(o *Observation, host func(FileID) (path string, ok bool)) {
	for i := range o.Libraries {
		l := &o.Libraries[i]
		if l.ID == (FileID{}) {
			continue
		}
		l.Origin = Image
		if p, ok := host(l.ID); ok {
			l.Origin = p
		}
		l.ID = FileID{}
	}
}

// lookLibraries resolves each SONAME as the container's own loader would for a
// program that names it.
func (l *looker) lookLibraries(sonames []string) {
	if len(sonames) == 0 {
		return
	}
	loaders, problem := l.loaders()
	for _, s := range sonames {
		lib := Library{SONAME: s, Problem: problem}
		if problem == "" {
			lib = l.resolve(loaders, s)
		}
		l.o.Libraries = append(l.o.Libraries, lib)
	}
}

// A searcher is one loader and what the container says to it.
type searcher struct {
	ldcache.Loader
	*ldcache.Resolver
}

// machines are those whose files a fake host may have.
var machines = []elf.Machine{elf.X8664, elf.AArch64}

// loaders returns the container's loader, and that loader as it would be on the
// other machines. problem says why there is none. A program that is run has the
// environment of the first process.
func (l *looker) loaders() (out []searcher, problem string) {
	v := loaderView{l.v}
	found, err := ldcache.Loaders(v)
	l.problem("loaders", err)
	if len(found) == 0 {
		return nil, "no loader in this root"
	}
	o := ldcache.Options{Level: l.level}
	env, _ := l.v.Environ() // lookProcess reports the error
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			o.LibraryPath = list
		}
	}
	list := found[:1]
	for _, m := range machines {
		if other, ok := found[0].For(m); ok && m != found[0].Machine {
			list = append(list[:len(list):len(list)], other)
		}
	}
	for _, ld := range list {
		r, err := ldcache.NewResolver(v, ld, ld.Programs(v, o)[0])
		if err != nil {
			l.problem("loader "+ld.Path, err)
			return nil, "its loader's configuration cannot be read"
		}
		out = append(out, searcher{ld, r})
	}
	return out, ""
}

// resolve asks the container's loader first. Where it finds nothing, a file that a
// loader of another machine finds will do, since a fake host's libraries may be of
// another machine than this one.
func (l *looker) resolve(loaders []searcher, soname string) Library {
	var first Library
	for i, ld := range loaders {
		f, err := ld.Find(soname)
		if err != nil {
			l.problem("library "+soname, err)
			return Library{SONAME: soname, Problem: "cannot be told"}
		}
		lib := Library{SONAME: soname, Path: f.Path, Final: f.Real, Via: string(f.By), Problem: f.Problem}
		l.identify(&lib)
		if f.Path != "" && f.Problem != ldcache.OtherMachine {
			return lib
		}
		if i == 0 {
			first = lib
		}
	}
	return first
}

// identify says which file a library is, as far as the View can.
func (l *looker) identify(lib *Library) {
	if lib.Path == "" {
		return
	}
	switch v := l.v.(type) {
	case Tracer:
		lib.Origin = v.Origin(lib.Final)
	case Identifier:
		id, err := v.Identity(lib.Final)
		l.problem("library "+lib.Final, err)
		lib.ID = id
	}
}

// loaderView is a View as package ldcache reads it: driver libraries are not read as
// a whole.
type loaderView struct{ View }

var _ ldcache.Opener = loaderView{}

func (v loaderView) Lstat(p string) (ldcache.Info, error) {
	i, err := v.View.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, err
}

func (v loaderView) Open(p string) (ldcache.Reader, error) { return head{v.View, p}, nil }

// head reads a file of a View at offsets, each time from its start.
type head struct {
	v View
	p string
}

// maxHead bounds that: what a loader asks of a library is in its first part.
const maxHead = 64 << 20

func (h head) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > maxHead {
		return 0, fmt.Errorf("%s: more than %d bytes to read", h.p, maxHead)
	}
	data, err := h.v.Head(h.p, int(off)+len(b))
	if err != nil || int64(len(data)) <= off {
		return 0, cmp.Or(err, io.EOF)
	}
	n := copy(b, data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (head) Close() error { return nil }
