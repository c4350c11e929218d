package sim

import (
	"crypto/sha256"
	"io"
	"path"
	"slices"
	"sync"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/runner/target"
)

// writeCache writes /etc/ld.so.cache for the folders dirs, those of the image's
// own configuration and the default ones, and makes the SONAME links that it
// relies on.
func (h *hooked) writeCache(dirs []string) error {
	built, ok := h.caches.get(h.cacheKey)
	if !ok {
		built = h.buildCache(dirs)
		h.caches.put(h.cacheKey, built)
	}
	for _, l := range built.links {
		if err := h.link(l); err != nil {
			return err
		}
	}
	return h.write(cacheFile, built.data)
}

func (h *hooked) buildCache(dirs []string) builtCache {
	own, _ := ldcache.Conf(cacheView{h.s})
	folders := slices.Clone(dirs)
	for _, d := range own {
		if !slices.Contains(folders, d) {
			folders = append(folders, d)
		}
	}
	built := ldcache.Build(cacheView{h.s}, folders)
	out := builtCache{data: built.Cache.Marshal()}
	for _, l := range built.Links {
		out.links = append(out.links, hookspec.Link{Path: path.Join(l.Dir, l.Name), Target: l.Target})
	}
	return out
}

// A builtCache is a loader cache and the links that it relies on.
type builtCache struct {
	data  []byte
	links []hookspec.Link
}

// caches remembers loader caches. Making one means to read every library, and
// many scenarios start one image with one driver.
type caches struct {
	mu sync.Mutex
	m  map[string]builtCache
}

// get and put know nothing of the empty key.
func (c *caches) get(key string) (builtCache, bool) {
	if key == "" {
		return builtCache{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.m[key]
	return b, ok
}

func (c *caches) put(key string, b builtCache) {
	if key == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = b
}

// cacheKey says what a loader cache is made from: the image, the host, and what
// of the host is where in the image. Empty where that is not known: the root was
// used before, or the host has no sum.
func (c *Container) cacheKey(h target.Host) string {
	if !c.fresh || h.Sum == "" {
		return ""
	}
	d := sha256.New()
	text := func(s ...string) {
		for _, v := range s {
			io.WriteString(d, v)
			d.Write([]byte{0})
		}
		d.Write([]byte{1})
	}
	text(c.image.Sum, h.Sum)
	for _, m := range c.conf.Mounts {
		text(m.Source, m.Target)
	}
	for _, l := range c.file.Links {
		text(l.Path, l.Target)
	}
	text(c.file.LibraryDirs...)
	return string(d.Sum(nil))
}

// cacheView shows a space to package ldcache.
type cacheView struct{ *space }

// Lstat is part of ldcache.View.
func (v cacheView) Lstat(p string) (ldcache.Info, error) {
	i, err := v.space.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, err
}
