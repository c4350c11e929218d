//go:build !naive

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
// ldconfig does.
func (w *work) writeCache(ours []string) error {
	if err := w.Next("read the libraries of the container"); err != nil {
		return err
	}
	scan := func() Scan { return w.remember(func() Scan { return scan(view{w}, ours) }) }
	got := scan()
	for _, s := range got.confSkipped {
		w.note("loader configuration: left out %s", s)
	}
	if got.unreached > 0 {
		w.note("%s does not include %s: a later ldconfig in the container loses the GPU's libraries until its next start", confFile, confDir)
	}
	made, err := w.sonameLinks(got.links)
	if err != nil {
		return err
	}
	if made { // a link that led nowhere may lead to a library by now
		got = scan()
	}
	// What could not be read because we are to stop is not what the image has.
	if err := w.Next("write %s", cacheFile); err != nil {
		return err
	}
	for _, s := range got.skipped {
		if slices.Contains(ours, s.Path) && !notExist(s.Err) || w.isPoint(s.Path) && inroot.BeyondReach(s.Err) {
			return fmt.Errorf("library cache: %s", s) // what we came for would not be in it
		}
		w.note("library cache: left out %s", s)
	}
	if got.skipsOmitted > 0 {
		w.note("library cache: %d more left out", got.skipsOmitted)
	}
	return w.write(cacheFile, got.data)
}

// scan reads the libraries of a root for its cache.
func scan(v view, ours []string) Scan {
	var s Scan
	var folders []string
	folders, s.unreached, s.confSkipped = ldcache.Order(v, ours)
	built := ldcache.Build(v, folders)
	keepEntries(v, &built)
	s.links, s.skipped, s.skipsOmitted = ldcache.Within(v, built.Links, ours), built.Skipped, built.SkipsOmitted
	built.Cache.Generator = generator
	s.data = built.Cache.Marshal()
	return s
}

// sonameLinks makes the links in our folders that the cache relies on, and reports
// whether there were any.
func (w *work) sonameLinks(links []ldcache.Link) (made bool, err error) {
	links = slices.DeleteFunc(slices.Clone(links), func(l ldcache.Link) bool { // the plan has said where these lead
		return slices.ContainsFunc(w.file.Links, func(p hookspec.Link) bool {
			return p.Path == path.Join(l.Real, l.Name) || p.Path == path.Join(l.Dir, l.Name)
		})
	})
	for _, l := range links {
		if err := w.recordLink(path.Join(l.Real, l.Name), l.Target, true); err != nil {
			return false, err
		}
	}
	if err := w.saveIfAllowed(); err != nil {
		return false, err
	}
	for _, l := range links {
		p := path.Join(l.Real, l.Name)
		if err := w.Next("link %s", p); err != nil {
			return false, err
		}
		_, err := w.root.Symlink(p, l.Target)
		if errors.Is(err, inroot.ErrInTheWay) || errors.Is(err, inroot.ErrMount) {
			w.note("SONAME link: %v", err)
			continue
		}
		if err != nil {
			return false, err
		}
		w.journal.settle(p, l.Target)
		w.linked = append(w.linked, hookspec.Link{Path: p, Target: l.Target})
	}
	return len(links) > 0, nil
}
