package place

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// A Mount is a mount of the plan, and where its target really is in the image.
type Mount struct {
	plan.Mount
	Real string
}

// Mounts places mounts and puts them in the order in which they are mounted. made
// says which mount points the container manager makes; the others are for the hook,
// which makes none inside a directory that is itself mounted: what is there is the
// host's.
// A target that is not clean is refused for the reason inexact.
func (p *Placer) Mounts(list []plan.Mount, inexact refuse.Reason, made func(real string) bool) []Mount {
	var all []Mount
	for _, m := range list {
		if !Clean(m.Target) {
			p.Refuse(inexact, m.Target, "is not an absolute, clean path")
			continue
		}
		all = append(all, Mount{m, p.Path(m.Target)})
	}
	// Links of the image may have changed which lies below which.
	slices.SortStableFunc(all, func(a, b Mount) int {
		return cmp.Compare(strings.Count(a.Real, "/"), strings.Count(b.Real, "/"))
	})
	var dirs []string
	for _, m := range all {
		p.Claim(m.Real, m.Target)
		mounted := slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(m.Real, d+"/") })
		if point := p.point(m, mounted); !made(m.Real) && (!mounted || point.Source != "") {
			p.Hook.MountPoints = append(p.Hook.MountPoints, point)
		}
		if m.Dir {
			dirs = append(dirs, m.Real)
		}
	}
	return all
}

// point is the mount point of m in the hook file; nested says that it lies in
// another mount.
func (p *Placer) point(m Mount, nested bool) hookspec.MountPoint {
	point := hookspec.MountPoint{Path: m.Real, Dir: m.Dir, Nested: nested}
	if m.Type == "" {
		point.Source = path.Clean(p.HostRoot + m.Source)
	}
	return point
}

// options are all that a bind mount can have.
var options = []string{"ro", "rw", "nosuid", "nodev", "noexec", "bind", "private", "rprivate", "slave", "rslave"}

// Option reports whether a mount of the plan may have the option. Container
// managers find words of their own inside other words, so nothing else is written
// (A25).
func (m Mount) Option(o string) bool {
	if slices.Contains(options, o) || m.Type == "" {
		return slices.Contains(options, o)
	}
	name, value, _ := strings.Cut(o, "=")
	if name == "mode" || name == "size" {
		return value != "" && strings.Trim(value, "0123456789kKmMgG") == ""
	}
	return slices.Contains([]string{"strictatime", "relatime", "noatime"}, o)
}

// Dir refuses a directory among the options of an emitter that is not absolute and
// clean, and a missing one that the plan needs for nodes of the container's own.
func (p *Placer) Dir(r refuse.Reason, what, at string, needed bool) {
	switch {
	case at == "" && needed:
		p.Refuse(r, what, "is not given, and the plan has nodes of the container's own")
	case at != "" && !Clean(at):
		p.Refuse(r, what, "%+.256q is not an absolute, clean path", at)
	}
}

// Clean reports whether p is an absolute path without detours, and not "/", that
// JSON and system calls keep as it is: other bytes than UTF-8 would become U+FFFD,
// and NUL would end it.
func Clean(p string) bool { return path.IsAbs(p) && path.Clean(p) == p && p != "/" && Exact(p) }

// Exact reports whether JSON and system calls keep s as it is.
func Exact(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
