package nvidia

import (
	"path"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/core/refuse"
)

// hasLibraries reports whether the driver's libraries are where the options say, or
// where they are found without that.
func (g *generator) hasLibraries() bool {
	if dirs := g.given.LibrarySearchPaths; len(dirs) > 0 {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			names, _ := g.root.ReadDir(path.Join(g.opts.DriverRoot, dir)) // unreadable: nvcdi finds nothing either
			return slices.ContainsFunc(names, func(n string) bool {
				return strings.HasPrefix(n, "libcuda.so.") || strings.HasPrefix(n, "libnvidia-ml.so.")
			})
		})
	}
	u, _, err := host.FindUserspace(g.root, g.given.DriverRoot)
	return err != nil || u != nil
}

// searched adds to a refusal for missing libraries where they were looked for.
func (g *generator) searched(e *refuse.Error) *refuse.Error {
	if r := g.given.DriverRoot; r != "" && r != "/" {
		e.Msg += " below the driver root " + r
	}
	where := host.Searched(g.root, g.given.DriverRoot)
	if dirs := g.given.LibrarySearchPaths; len(dirs) > 0 {
		where = "in " + strings.Join(dirs, ", ") + ", below " + g.opts.DriverRoot
	}
	return e.WithHint("%s", strings.TrimSpace(e.Hint+" Looked "+where+"."))
}
