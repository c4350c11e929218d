package sim

import (
	"path"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/runner/target"
)

// writeCache writes /etc/ld.so.cache for the folders dirs, those of the image's
// own configuration and the default ones, and makes the SONAME links that it
// relies on.
func (h *hooked) writeCache(dirs []string) error {
	built, err := h.caches.get(h.cacheKey, func() (builtCache, error) { return h.buildCache(dirs), nil })
	if err != nil {
		return err
	}
	h.sonameLinks(built.links)
	return h.write(cacheFile, built.data)
}

// sonameLinks makes links. The hook only notes one that it cannot make.
func (h *hooked) sonameLinks(links []hookspec.Link) {
	for _, l := range links {
		if err := h.link(l); err != nil {
			continue
		}
	}
}

func (h *hooked) buildCache(dirs []string) builtCache {
	folders, _, _ := ldcache.Order(cacheView{h.s}, dirs)
	built := ldcache.Build(cacheView{h.s}, folders)
	var out builtCache
	for _, l := range ldcache.Within(cacheView{h.s}, built.Links, dirs) {
		out.links = append(out.links, hookspec.Link{Path: path.Join(l.Real, l.Name), Target: l.Target})
	}
	if len(out.links) > 0 { // a link that led nowhere may lead to a library by now
		h.sonameLinks(out.links)
		built = ldcache.Build(cacheView{h.s}, folders)
	}
	built.Cache.Generator = "cdi-hook"
	out.data = built.Cache.Marshal()
	return out
}

// A builtCache is a loader cache and the links that it relies on.
type builtCache struct {
	data  []byte
	links []hookspec.Link
}

// cacheKey says what a loader cache is made from: the image, the host, and what
// of the host is where in the image. Empty where that is not known: the root was
// used before, or the host has no sum.
func (c *Container) cacheKey(h target.Host) string {
	if !c.fresh || h.Sum == "" {
		return ""
	}
	d := newDigest()
	d.text(c.image.Sum, h.Sum)
	d.number(uint64(len(c.conf.Mounts)))
	for _, m := range c.conf.Mounts {
		d.text(m.Source, m.Target)
	}
	d.number(uint64(len(c.file.Links)))
	for _, l := range c.file.Links {
		d.text(l.Path, l.Target)
	}
	d.text(c.file.LibraryDirs...)
	return d.key()
}

// cacheView shows a space to package ldcache.
type cacheView struct{ *space }

// Lstat is part of ldcache.View.
func (v cacheView) Lstat(p string) (ldcache.Info, error) {
	i, err := v.space.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, err
}
