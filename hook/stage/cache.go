package stage

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// writeCache makes the container's /etc/ld.so.cache of the folders of its own
// configuration, the drop-in among them. A folder of ours that the configuration
// does not reach comes first. SONAME links that are missing in ours are made, as
// ldconfig does. It returns what loaders do not take of the host's then.
func (w *work) writeCache(ours []string) ([]loss, error) {
	if err := w.Next("read the libraries of the container"); err != nil {
		return nil, err
	}
	v := w.look()
	scan := func() Scan { return w.remember(func() Scan { return w.scan(v, ours) }) }
	got := scan()
	made, err := w.sonameLinks(got.links)
	if err != nil {
		return nil, err
	}
	if made { // a link that led nowhere may lead to a library by now
		for _, l := range w.linked {
			v.Forget(l.Path)
		}
		got = scan()
	}
	// What could not be read because we are to stop is not what the image has.
	if err := w.Next("write %s", cacheFile); err != nil {
		return nil, err
	}
	for _, s := range got.confSkipped {
		w.note("loader configuration: left out %s", s)
	}
	for _, s := range got.skipped {
		if slices.Contains(ours, s.Path) && !notExist(s.Err) || w.isPoint(s.Path) && inroot.BeyondReach(s.Err) {
			return nil, fmt.Errorf("library cache: %s", s) // what we came for would not be in it
		}
		w.note("library cache: left out %s", s)
	}
	if got.skipsOmitted > 0 {
		w.note("library cache: %d more left out", got.skipsOmitted)
	}
	if err := w.write(cacheFile, got.data); err != nil {
		return nil, err
	}
	return got.told(w)
}

// told returns what is lost, and notes where that is not known.
func (s Scan) told(w *work) ([]loss, error) {
	w.unreached = s.unreached
	if s.unknown != nil {
		if err := w.Next("compare the libraries"); err != nil {
			return nil, err
		}
		if w.file.Strict {
			return nil, fmt.Errorf("%s: which libraries the container's loader takes is not known: %w", hookspec.LibraryShadowed, s.unknown)
		}
		w.note("which libraries the container's loader takes is not known: %v", s.unknown)
	}
	return s.lost, nil
}

// scan reads the libraries of the root for its cache. Nothing is called lost, and no
// folder out of reach, where the root could not be looked at: what would be made for it
// stays, and the next run would go by it.
func (w *work) scan(v *look, ours []string) Scan {
	s := w.scanAll(v, ours)
	if w.unanswered != nil {
		s.lost, s.unreached, s.unknown = nil, false, errors.Join(s.unknown, w.unanswered)
	}
	return s
}

func (w *work) scanAll(v *look, ours []string) Scan {
	var s Scan
	all := slices.Concat(w.held, ours)
	folders, unreached, skipped := ldcache.Order(v, all)
	s.unreached = unreached > 0
	built := ldcache.Build(v, folders)
	keepEntries(v, &built)
	s.confSkipped, s.skipped, s.skipsOmitted = skipped, built.Skipped, built.SkipsOmitted
	libs, err := w.libraries(v)
	if err != nil {
		s.unknown = err
		libs = nil
	}
	s.links = ldcache.Within(v, built.Links, ours)
	w.nameFiles(built, s.links)
	turned := v.turn(&s, libs)
	built.Cache.Generator = generator
	s.data = built.Cache.Marshal()
	if len(libs) == 0 {
		return s
	}
	s.lost, err = v.lost(built.Cache, libs, turned)
	if next := v.nextFolders(); err == nil && !slices.Equal(next, folders) {
		var later []loss
		later, err = v.lost(ldcache.Build(v, next).Cache, libs, nil)
		for _, l := range later {
			if !slices.ContainsFunc(s.lost, func(o loss) bool { return o.name == l.name && o.path == l.path }) {
				l.later = true
				s.lost = append(s.lost, l)
			}
		}
	}
	s.unknown = errors.Join(s.unknown, err)
	return s
}

// nextFolders are those that the container's next own ldconfig scans: Debian's has
// its folders of libraries built in.
func (v *look) nextFolders() []string {
	out, _ := ldcache.Conf(v)
	for _, dir := range []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"} {
		if i, err := v.Lstat(dir); err == nil && i.Mode.IsDir() && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	var first []string
	for _, dir := range out {
		names, _ := v.ReadDir(dir) // what cannot be read is no folder of ldconfig's either
		for _, name := range hardware {
			sub := path.Join(dir, name)
			if !slices.Contains(names, name) {
				continue
			}
			if i, err := v.Lstat(sub); err == nil && i.Mode.IsDir() {
				first = append(first, sub)
			}
		}
	}
	return append(first, out...)
}

// hardware are subfolders whose libraries ldconfig up to glibc 2.36 has come before
// those of any folder. One of a later version does not look there; which it is, the
// root does not say.
var hardware = []string{"tls", "haswell", "xeon_phi", "avx512_1", "x86_64"}

// nameFiles has entries of folders that are not ours name the file itself where the
// SONAME link that they rely on is not there: nobody makes it.
func (w *work) nameFiles(built ldcache.Built, ours []ldcache.Link) {
	for _, l := range built.Links {
		if slices.Contains(ours, l) {
			continue
		}
		for i, e := range built.Cache.Entries {
			if e.Path == l.Dir+"/"+l.Name {
				built.Cache.Entries[i].Path = l.Dir + "/" + l.Target
			}
		}
	}
}

// turn has SONAME links lead to the host's library, whatever version the image has
// beside it. It returns those, by path, that ldconfig would send elsewhere again.
func (v *look) turn(s *Scan, libs []library) map[string]string {
	turned := map[string]string{}
	links := s.links[:0:0]
	for _, l := range s.links {
		i := slices.IndexFunc(libs, func(h library) bool { return h.dir == l.Real && h.names[0] == l.Name })
		if i >= 0 && path.Base(libs[i].path) != l.Target {
			turned[l.Dir+"/"+l.Name] = l.Dir + "/" + l.Target
			l.Target = path.Base(libs[i].path)
			if text, err := v.Readlink(path.Join(l.Real, l.Name)); err == nil && text == l.Target {
				continue
			}
		}
		links = append(links, l)
	}
	s.links = links
	return turned
}
