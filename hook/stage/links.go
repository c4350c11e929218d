package stage

import (
	"errors"
	"path"
	"slices"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

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
