package translate

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/refuse"
)

// A missing is a mount source that the host does not have.
type missing struct {
	from string
	path string
}

// refuseMissing refuses all sources that are not there at once: after a driver
// update that is nearly the whole Spec, and one line says it better (F19).
func (w *work) refuseMissing() {
	if len(w.missing) == 0 {
		return
	}
	slices.SortFunc(w.missing, func(a, b missing) int { return cmp.Compare(a.path, b.path) })
	w.missing = slices.CompactFunc(w.missing, func(a, b missing) bool { return a.path == b.path })
	names := make([]string, len(w.missing))
	for i, m := range w.missing {
		names[i] = quote(m.path)
	}
	hint := hintRegenerate
	for _, m := range w.missing[:min(len(w.missing), maxHinted)] {
		if there := w.otherVersion(m.path); there != "" {
			hint = fmt.Sprintf("The host has %s, of another driver version than the Spec. %s", there, hintRegenerate)
			break
		}
	}
	what := "the host does not have a file that the Spec mounts"
	if len(names) > 1 {
		what = fmt.Sprintf("the host does not have %d files that the Spec mounts", len(names))
	}
	w.refusals = append(w.refusals,
		refuse.New(ReasonMissing, w.missing[0].from, "%s: %s", what, strings.Join(names, ", ")).WithHint("%s", hint))
}

// otherVersion returns the file beside p whose name differs in the version
// only: libcuda.so.550.90.07 for libcuda.so.550.54.14, and for firmware the
// same file in another version's directory.
func (w *work) otherVersion(p string) string {
	dir, name := path.Dir(p), path.Base(p)
	for dir != "/" {
		if stem, ok := versionStem(name); ok {
			names, err := w.look.root.ReadDir(dir)
			if err != nil {
				names = nil
			}
			for _, n := range names {
				if other, ok := versionStem(n); ok && other == stem && n != name {
					return path.Join(dir, n)
				}
			}
		}
		dir, name = path.Dir(dir), path.Base(dir)
	}
	return ""
}

// versionStem returns a name without the driver version at its end; ok says
// that there is one: three digits, a dot and a digit at least.
func versionStem(name string) (stem string, ok bool) {
	stem = strings.TrimRight(name, "0123456789.")
	version := strings.Trim(name[len(stem):], ".")
	major, rest, _ := strings.Cut(version, ".")
	return strings.TrimRight(stem, "."), len(major) == 3 && rest != ""
}
