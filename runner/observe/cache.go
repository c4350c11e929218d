package observe

import "gpurig/core/ldcache"

// readCache reads ld.so.cache: the entries in the loader's order of preference
// among equal SONAMEs.
func readCache(data []byte) ([]cacheEntry, error) {
	c, err := ldcache.Parse(data)
	if err != nil {
		return nil, err
	}
	out := make([]cacheEntry, 0, len(c.Entries))
	for _, e := range c.Entries {
		out = append(out, cacheEntry{soname: e.SONAME, path: e.Path, arch: cacheArch(e.Flags)})
	}
	return out, nil
}

func cacheArch(flags int32) string {
	switch flags {
	case ldcache.FlagsX8664:
		return "x86_64"
	case ldcache.FlagsAArch64:
		return "aarch64"
	}
	return ""
}
