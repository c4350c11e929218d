package machine

import (
	"os"
	"path"
	"slices"
	"strings"

	"gpurig/core/elf"
	"gpurig/core/host"
	"gpurig/core/ldcache"
	"gpurig/fakehw/tree"
)

// cache adds the driver's libraries to the machine's loader cache. Those that
// stand in for a library of another architecture are there for both: a loader
// looks at entries of its own only.
func (s *staging) cache(m host.Model) {
	if m.Userspace == nil {
		return
	}
	real, err := os.ReadFile(ldcache.File)
	if err != nil {
		return // musl, or NixOS: there is none to add to
	}
	have, err := ldcache.Parse(real)
	if err != nil {
		return // none that a loader would use
	}
	root := strings.TrimRight(m.Userspace.DriverRoot, "/")
	var add ldcache.Cache
	if text, err := s.host.ReadFile(root + ldcache.File); err == nil { // else its loader finds them in another way
		if add, err = ldcache.Parse(text); err != nil {
			s.do(err)
			return
		}
	}
	put := func(e ldcache.Entry) {
		have.Entries = slices.DeleteFunc(have.Entries, func(x ldcache.Entry) bool { return x.SONAME == e.SONAME && x.Flags == e.Flags })
		have.Entries = append(have.Entries, e)
	}
	for _, e := range add.Entries {
		e.Path = root + e.Path
		if drivers(e.Path) || len(have.Lookup(e.SONAME)) == 0 {
			put(e)
		}
	}
	for p, data := range s.files {
		if e, ok := loadable(data); ok {
			e.Path = root + path.Join(m.Userspace.LibDir, e.SONAME)
			if i := slices.IndexFunc(add.Entries, func(x ldcache.Entry) bool { return x.SONAME == e.SONAME }); i >= 0 {
				e.Path = root + add.Entries[i].Path
			} else if _, err := s.host.Lstat(e.Path); err != nil {
				e.Path = p
			}
			put(e)
		}
	}
	have.Sort()
	s.put(ldcache.File, &tree.Entry{Info: host.Info{Mode: 0o644}, Data: have.Marshal()}, s.place("/etc"))
}

// loadable returns the cache's entry, but for the path, of a library.
func loadable(data []byte) (ldcache.Entry, bool) {
	f, err := elf.Parse(data)
	if err != nil || f.Type != elf.SharedObject || f.SONAME == "" {
		return ldcache.Entry{}, false
	}
	flags, ok := f.CacheFlags()
	return ldcache.Entry{SONAME: f.SONAME, Flags: flags}, ok
}
