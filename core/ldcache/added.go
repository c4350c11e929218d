package ldcache

import (
	"io/fs"
	"path"
	"slices"
)

// Added returns those of folders that the configuration of a root does not have
// without the file own, by whatever name: what own has to name. A folder that is
// there already keeps its place, and so do the libraries in it.
func Added(v View, own string, folders []string) []string {
	hidden := without{v, own}
	if dir, _, err := resolve(v, path.Dir(own)); err == nil { // /etc may be a link
		hidden.path = path.Join(dir, path.Base(own))
	}
	conf, _ := Conf(hidden)
	return slices.DeleteFunc(slices.Clone(folders), func(d string) bool { return slices.Contains(conf, d) })
}

// Order returns what Conf does, and before it those of folders that Conf does not
// have: unreached of them.
func Order(v View, folders []string) (order []string, unreached int, skipped []Skip) {
	conf, skipped := Conf(v)
	out := slices.DeleteFunc(slices.Clone(folders), func(d string) bool { return slices.Contains(conf, d) })
	return append(out, conf...), len(out), skipped
}

// Within returns those of links whose folder is one of folders, by whatever name:
// /lib/x86_64-linux-gnu is /usr/lib/x86_64-linux-gnu where /lib is a link.
func Within(v View, links []Link, folders []string) []Link {
	real := map[string]bool{}
	for _, d := range folders {
		if r, _, err := resolve(v, d); err == nil {
			real[r] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return !real[l.Real] })
}

// without is a View in which one path, whose folder is resolved, is not there.
type without struct {
	View
	path string
}

func (w without) Lstat(p string) (Info, error) {
	if p == w.path {
		return Info{}, fs.ErrNotExist
	}
	return w.View.Lstat(p)
}
