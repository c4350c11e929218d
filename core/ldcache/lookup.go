package ldcache

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpurig/core/elf"
)

// A Rule is by what a loader found a file.
type Rule string

// The rules, in the order in which loaders go by them.
const (
	ByPath    Rule = "path"            // the name has a slash
	ByPreload Rule = "ld.so.preload"   // a library that every program has already is of this name
	ByEnv     Rule = "LD_LIBRARY_PATH" // Options.LibraryPath
	ByCache   Rule = "ld.so.cache"
	ByMusl    Rule = "musl path file"
	ByFolders Rule = "default folders"
)

// A Found is the file that a loader loads for a name.
type Found struct {
	Name   string
	Path   string // as the loader opens it; empty: it finds none
	Real   string // Path with its links resolved
	By     Rule
	HWCaps string // the subfolder of glibc-hwcaps that it is in, by the cache or a folder; empty: none
	// Problem says why loading the file fails, in the loader's words; it does not
	// go on to another. Empty: it loads.
	Problem string
	// Passed are the files before Path that the loader names or finds, and does not
	// take: what the cache has and is not there, what is for another machine.
	Passed []Skip
}

// Options are what a root does not say. The zero Options are the least processor
// and an environment without LD_LIBRARY_PATH.
type Options struct {
	// Level is that of an x86-64 processor, 1 to 4, whose glibc-hwcaps count;
	// zero: 1. Other machines have no such folders here.
	Level int
	// HWCap are the bits that entries of caches up to glibc 2.36 may ask for.
	HWCap uint64
	// OSVersion is the kernel, as the cache packs it, 6.1.2 as 0x060102; zero: new
	// enough for everything. Loaders from glibc 2.36 on do not ask.
	OSVersion uint32
	// Cache is a cache of the root, sorted, in place of the one in its file; nil: the file's.
	Cache *Cache
	// Origin and Platform are what $ORIGIN, the folder of the program, and $PLATFORM,
	// its processor's name, stand for in ld.so.preload; empty: a library that is named
	// by them is left out. Loader.Programs lists them.
	Origin, Platform string
	// LibraryPath is the LD_LIBRARY_PATH of the program.
	LibraryPath string
}

// A Resolver says which files one loader of a root loads. It has read what the
// root says of it, and is no longer good when the root changes.
//
// It answers for a program as such: RPATH and RUNPATH are the program's and its
// libraries', LD_PRELOAD and LD_LIBRARY_PATH the environment's, folders that are
// relative the working directory's. None of them is looked at but what Options
// have. Neither are subfolders of hardware names other than glibc-hwcaps, which
// loaders up to glibc 2.36 search in default folders, and what preloaded
// libraries need.
type Resolver struct {
	// Skipped is what of the configuration the loader, or this package, does not
	// use, and why: a cache that is none, a preloaded library that is not there.
	Skipped []Skip

	v       View
	ld      Loader
	opts    Options
	caps    []string // usable subfolders of glibc-hwcaps, best first
	env     []string
	cache   Cache
	folders []string
	by      Rule // of folders
	loaded  []preloaded
}

// A preloaded library is taken for its SONAME and the name it was preloaded by.
type preloaded struct {
	names [2]string
	found Found
}

// NewResolver reads what a root says to a loader. The error is of the View, or
// wraps ErrLimit or ErrFormat: what the loader does cannot be told then.
func NewResolver(v View, ld Loader, o Options) (*Resolver, error) {
	r := &Resolver{v: v, ld: ld, opts: o, env: strings.FieldsFunc(o.LibraryPath, func(c rune) bool { return c == ':' || c == ';' && ld.Musl == "" })}
	if len(r.env) > MaxFolders {
		return nil, fmt.Errorf("LD_LIBRARY_PATH: %w of %d folders", ErrLimit, MaxFolders)
	}
	if ld.Musl != "" {
		return r, r.readMusl()
	}
	if ld.Machine == elf.X8664 {
		for level := min(o.Level, 4); level >= 2; level-- {
			r.caps = append(r.caps, fmt.Sprintf("x86-64-v%d", level))
		}
	}
	r.folders, r.by = ld.folders(v), ByFolders
	if err := r.readCache(); err != nil {
		return nil, err
	}
	return r, r.preload()
}

// text reads a file of the configuration; nil: a loader has none. Only what is
// missing or not allowed to be read is none, anything else is an error.
func (r *Resolver) text(p string, limit int64) ([]byte, error) {
	real, info, err := resolve(r.v, p)
	switch {
	case err != nil && !missing(err) && !unreachable(err):
		return nil, err
	case err != nil:
		return nil, nil
	case !info.Mode.IsRegular():
		r.Skipped = append(r.Skipped, Skip{p, errNotRegular})
		return nil, nil
	case info.Size > limit:
		return nil, fmt.Errorf("%s: %w of %d bytes", p, ErrLimit, limit)
	}
	data, err := r.v.ReadFile(real)
	switch {
	case missing(err) || unreachable(err):
		return nil, nil
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s: %w of %d bytes", p, ErrLimit, limit)
	case data == nil:
		data = []byte{}
	}
	return data, nil
}

var errNotRegular = errors.New("not a regular file")

// readMusl takes musl's folders: those of its path file, none where it has one
// that cannot be read, else the built-in ones.
func (r *Resolver) readMusl() error {
	r.folders, r.by = muslDefaults, ByFolders
	file := r.ld.MuslFile()
	text, err := r.text(file, maxConfSize)
	if err != nil {
		return err
	}
	if _, _, lost := resolve(r.v, file); !errors.Is(lost, fs.ErrNotExist) {
		r.folders, r.by = MuslFolders(text), ByMusl
	}
	if len(r.folders) > MaxFolders {
		return fmt.Errorf("%s: %w of %d folders", file, ErrLimit, MaxFolders)
	}
	return nil
}

// readCache reads the cache. A loader does without one that it cannot use.
func (r *Resolver) readCache() error {
	if r.opts.Cache != nil {
		r.cache = *r.opts.Cache
		return nil
	}
	data, err := r.text(File, MaxSize)
	if err != nil || data == nil {
		return err
	}
	if r.cache, err = Parse(data); err != nil {
		r.Skipped = append(r.Skipped, Skip{File, err})
	} else if n := r.cache.Dropped; n > 0 {
		return fmt.Errorf("%s: %w: %d damaged entries, of which a loader may use some", File, ErrFormat, n)
	}
	return nil
}

// Find says which file the loader loads for a name, a SONAME or a path. The error
// is of the View: what the loader does cannot be told then.
func (r *Resolver) Find(name string) (Found, error) {
	s := search{Resolver: r, found: Found{Name: name}}
	if name == "" || len(name) > maxPath || strings.ContainsRune(name, 0) {
		return s.found, nil
	}
	for _, p := range r.loaded {
		if p.names[0] == name || p.names[1] == name {
			s.found = p.found
			s.found.Name = name
			return s.found, nil
		}
	}
	err := s.run(name)
	return s.found, err
}

// A search is one Find.
type search struct {
	*Resolver
	found Found
}

func (s *search) run(name string) error {
	if strings.Contains(name, "/") {
		_, err := s.try(ByPath, "", name)
		return err
	}
	done, err := s.inFolders(ByEnv, s.env, name)
	if done || err != nil {
		return err
	}
	if p, caps, ok := s.cached(name); ok {
		switch got, err := s.try(ByCache, caps, p); {
		case err != nil || got == taken:
			return err
		case got == nothing:
			s.found.Passed = append(s.found.Passed, Skip{p, errors.New("named by the cache, and not there")})
		}
	}
	_, err = s.inFolders(s.by, s.folders, name)
	return err
}

// What came of one path.
type outcome int

const (
	nothing outcome = iota // nothing is there
	passed                 // a file for another loader
	stopped                // the search of these folders ends without a file
	taken                  // the search ends with this file
)

// inFolders looks into folders and their subfolders of glibc-hwcaps, in order; done:
// the whole search is at its end.
func (s *search) inFolders(by Rule, folders []string, name string) (done bool, err error) {
	for _, dir := range folders {
		if !path.IsAbs(dir) { // depends on the working directory
			continue
		}
		if s.ld.Musl == "" {
			if _, info, err := resolve(s.v, dir); err != nil || !info.Mode.IsDir() {
				continue
			}
		}
		for _, caps := range s.caps {
			if got, err := s.try(by, caps, path.Join(dir, hwcapsDir, caps, name)); err != nil || got == taken {
				return true, err
			}
		}
		switch got, err := s.try(by, "", path.Join(dir, name)); {
		case err != nil || got == taken:
			return true, err
		case got == stopped: // glibc goes on to its next list, musl does not
			return s.ld.Musl != "", nil
		}
	}
	return false, nil
}

// try opens one path as the loader does.
func (s *search) try(by Rule, caps, p string) (outcome, error) {
	real, info, err := resolve(s.v, path.Clean("/"+p))
	var o object
	if err == nil && info.Mode.IsRegular() {
		o, err = readObject(s.v, real, info.Size)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case missing(err) || unreachable(err):
		s.found.Passed = append(s.found.Passed, Skip{p, err})
		if errors.Is(err, fs.ErrPermission) || s.ld.Musl != "" && missing(err) {
			return passed, nil
		}
		return stopped, nil
	case err != nil:
		return stopped, fmt.Errorf("library %s: %w", p, err)
	}
	ok, problem := true, errNotRegular.Error()
	if info.Mode.IsRegular() {
		ok, problem = s.ld.takes(o.head)
	}
	if !ok || s.opts.OSVersion != 0 && problem == "" && o.problem == nil && o.elf.OSVersion > s.opts.OSVersion {
		s.found.Passed = append(s.found.Passed, Skip{p, errors.New("for another machine")})
		return passed, nil
	}
	s.found.Path, s.found.Real, s.found.By, s.found.HWCaps, s.found.Problem = p, real, by, caps, problem
	return taken, nil
}

// cached is the entry that the loader picks: the first of the best, found by halves
// in the order that the file has.
func (r *Resolver) cached(name string) (p, caps string, ok bool) {
	list := r.cache.Entries
	left, right := 0, len(list)-1
	for left <= right {
		middle := (left + right) / 2
		switch n := Compare(name, list[middle].SONAME); {
		case n < 0:
			left = middle + 1
		case n > 0:
			right = middle - 1
		default:
			for middle > 0 && Compare(name, list[middle-1].SONAME) == 0 {
				middle--
			}
			return r.best(name, list[middle:right+1])
		}
	}
	return "", "", false
}

// best picks among entries of one name, which come first. Those of glibc-hwcaps
// stand before the plain ones; among them the loader's order counts.
func (r *Resolver) best(name string, list []Entry) (p, caps string, ok bool) {
	rank := len(r.caps)
	for _, e := range list {
		if Compare(name, e.SONAME) != 0 {
			break
		}
		switch at := slices.Index(r.caps, e.HWCaps); {
		case !slices.Contains(r.ld.flags, e.Flags):
		case e.HWCaps == "" && ok:
			return p, caps, true
		case e.HWCap&^r.opts.HWCap != 0 || r.opts.OSVersion != 0 && e.OSVersion > r.opts.OSVersion:
		case e.HWCaps == "":
			p, ok = e.Path, true
			if e.Flags == r.ld.flags[0] {
				return p, "", true
			}
		case at >= 0 && at < rank && int(e.ISALevel) < r.opts.Level:
			p, caps, ok, rank = e.Path, e.HWCaps, true, at
		}
	}
	return p, caps, ok
}
