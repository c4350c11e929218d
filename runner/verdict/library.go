package verdict

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"gpurig/runner/observe"
)

// library judges which file the loader finds: none, one of the image, the host's, or
// the host's whose name ends in a version. Where nobody can tell whose file it is, its
// name decides.
func (j *judge) library(soname, want string) {
	var got *observe.Library
	for i := range j.ev.Seen.Libraries {
		if j.ev.Seen.Libraries[i].SONAME == soname {
			got = &j.ev.Seen.Libraries[i]
		}
	}
	if got == nil {
		j.add(Inside, soname, "looked for", "was not asked for: the request lacks it")
		return
	}
	found := got.Path != "" && got.Problem == ""
	image := got.Origin == observe.Image
	switch want {
	case "none":
		if found {
			j.add(j.libraryStation(soname, false), soname, "not found", shown(got))
		}
	case "image":
		if !found || !image && got.Origin != "" {
			j.add(Inside, soname, "a file of the image", shown(got))
		}
	case "host":
		if !found || image {
			j.add(j.libraryStation(soname, true), soname, "the host's file", shown(got))
		}
	default:
		if !found || image || !matchesVersion(got.Final, want) {
			j.add(j.libraryStation(soname, true), soname, "the host's file, version "+want, shown(got))
		}
	}
}

// matchesVersion reports whether a library's file name ends in a version, or in
// one of that branch: ".so.550.163.01" is of 550.
func matchesVersion(file, version string) bool {
	_, v, ok := strings.Cut(path.Base(file), ".so.")
	return ok && (v == version || !strings.Contains(version, ".") && strings.HasPrefix(v, version+"."))
}

func shown(l *observe.Library) string {
	if l.Path == "" {
		return "not found" + cmp.Or(prefixed(": ", l.Problem), "")
	}
	whose := ""
	switch l.Origin {
	case "":
	case observe.Image:
		whose = ", a file of the image"
	default:
		whose = ", the host's " + l.Origin
	}
	return fmt.Sprintf("%s (%s) by %s%s%s", l.Path, l.Final, l.Via, whose, prefixed(": ", l.Problem))
}

func prefixed(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

// libraryStation follows the library's file: is any of that stem in the Spec,
// is it planned, is it mounted?
func (j *judge) libraryStation(soname string, want bool) Station {
	stem, _, _ := strings.Cut(soname, ".so")
	is := func(p string) bool { return strings.HasPrefix(path.Base(p), stem+".so") }
	inSpec, target := false, ""
	for _, e := range j.ev.Edits {
		if e.Edits == nil {
			continue
		}
		for _, m := range e.Edits.Mounts {
			inSpec = inSpec || m != nil && is(m.ContainerPath)
		}
	}
	if j.ev.Plan != nil {
		for _, m := range j.ev.Plan.Mounts {
			if is(m.Target) {
				target = m.Target
			}
		}
	}
	if !want {
		return j.ev.unwanted(inSpec, target != "")
	}
	return j.ev.missing(target, inSpec, target != "")
}
