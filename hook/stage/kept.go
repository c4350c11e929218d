package stage

import (
	"path"
	"slices"
	"strings"

	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// keepEntries adds to a cache what the container's own one has of folders and files
// that we do not read: on a volume of the container, say. Its loader finds them by
// that cache, and goes on doing so.
func keepEntries(v *look, built *ldcache.Built) {
	var closed []string
	for _, s := range built.Skipped {
		if inroot.BeyondReach(s.Err) {
			closed = append(closed, s.Path)
		}
	}
	if len(closed) == 0 {
		return
	}
	data, err := v.ReadFile(cacheFile)
	if err != nil {
		return
	}
	own, err := ldcache.Parse(data)
	if err != nil {
		return
	}
	for _, e := range own.Entries {
		in := func(p string) bool { return e.Path == p || strings.HasPrefix(e.Path, p+"/") }
		same := func(n ldcache.Entry) bool { return n.Path == e.Path && n.SONAME == e.SONAME }
		if path.IsAbs(e.Path) && slices.ContainsFunc(closed, in) && !slices.ContainsFunc(built.Cache.Entries, same) {
			built.Cache.Entries = append(built.Cache.Entries, e)
		}
	}
	built.Cache.Sort()
}
