// Package place resolves the paths of a plan to their real places in an image, and
// makes the hook file of the plan. The emitters for liblxc and for OCI runtimes
// share it.
package place

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// Why a plan does not fit an image or an id map.
const (
	ReasonResolve  refuse.Reason = "target-not-resolved"
	ReasonConflict refuse.Reason = "targets-in-conflict"
	ReasonUnmapped refuse.Reason = "owner-not-mapped"
	ReasonHookFile refuse.Reason = "hook-file"
)

// Reasons lists them.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonResolve, Meaning: "A path of the container cannot be resolved inside its image."},
		{Reason: ReasonConflict, Meaning: "Two mounts have the same target once links of the image are resolved."},
		{Reason: ReasonUnmapped, Meaning: "The owner of a node is not in the container's id map."},
		{Reason: ReasonHookFile, Meaning: "cdi-hook would reject the hook file."},
	}
}

// A Placer places the paths of one plan and collects what is refused. The zero
// value is for an image whose directories are no links.
type Placer struct {
	// IDMap is the container's; empty: none.
	IDMap []plan.IDMap
	// Resolve returns a container path with the links of its directories
	// resolved inside the image's root; nil: there are none.
	Resolve func(path string) (string, error)
	// HostRoot is put before the sources of mounts; empty on a real machine.
	HostRoot string

	Hook     hookspec.File // MountPoints as the emitter adds them; the rest by File
	Refusals []*refuse.Error

	targets map[string]string // resolved target to target
}

// Refuse adds a refusal.
func (p *Placer) Refuse(r refuse.Reason, where, format string, args ...any) {
	p.Refusals = append(p.Refusals, refuse.New(r, where, format, args...))
}

// Path returns where in the image a container path really is. /dev is a tmpfs of
// the container manager's, without links of the image.
func (p *Placer) Path(at string) string {
	if p.Resolve == nil || strings.HasPrefix(at, "/dev/") {
		return at
	}
	real, err := p.Resolve(at)
	if err == nil && !Clean(real) {
		err = fmt.Errorf("%q is not a clean path inside the container", real)
	}
	if err != nil {
		p.Refusals = append(p.Refusals, refuse.New(ReasonResolve, at, "cannot be resolved inside the image").WithErr(err))
		return at
	}
	return real
}

// Claim refuses a target that another entry has already.
func (p *Placer) Claim(real, at string) {
	if p.targets == nil {
		p.targets = map[string]string{}
	}
	if other, taken := p.targets[real]; taken {
		p.Refuse(ReasonConflict, at, "is %q inside the image, as %q is", real, other)
	}
	p.targets[real] = at
}

// Own returns a node of the container's own as it is made at a path of the host,
// with the host's ids.
func (p *Placer) Own(n plan.Node, at string) (plan.Node, bool) {
	uid, okUID := plan.HostID(p.IDMap, n.UID)
	gid, okGID := plan.HostID(p.IDMap, n.GID)
	if !okUID || !okGID {
		p.Refuse(ReasonUnmapped, n.Path, "owner %d:%d has no counterpart on the host in this container's id map", n.UID, n.GID)
		return plan.Node{}, false
	}
	n.Path, n.UID, n.GID = at, uid, gid
	n.Owners = slices.Clone(n.Owners)
	return n, true
}

// File fills in the hook file: links, library folders and modes of the plan, and
// the mount points in order. run says that cdi-hook has anything to do, apply that
// it has work in a container that has its mounts.
func (p *Placer) File(pl plan.Plan, container, spec string) (apply, run bool) {
	f := &p.Hook
	f.Version, f.Container, f.Spec, f.Strict = hookspec.Version, container, spec, pl.Strict
	root, mapped := plan.HostID(p.IDMap, 0)
	if !mapped {
		p.Refuse(ReasonUnmapped, "idmap", "the container's root has no counterpart on the host")
	}
	f.Owner = hookspec.Owner{UID: root, GID: root}
	for _, l := range pl.Links {
		f.Links = append(f.Links, p.link(l))
	}
	for _, d := range pl.LibraryDirs {
		if real := p.Path(d); !slices.Contains(f.LibraryDirs, real) {
			f.LibraryDirs = append(f.LibraryDirs, real)
		}
	}
	for _, m := range pl.Modes {
		f.Modes = append(f.Modes, hookspec.Mode{Path: m.Path, Mode: m.Mode})
	}
	slices.SortFunc(f.MountPoints, func(a, b hookspec.MountPoint) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(f.Links, func(a, b hookspec.Link) int { return cmp.Compare(a.Path, b.Path) })
	if err := f.Validate(); err != nil {
		p.Refusals = append(p.Refusals, refuse.New(ReasonHookFile, "", "cdi-hook would not take the file").WithErr(err))
		return false, false
	}
	apply = len(f.Links)+len(f.LibraryDirs)+len(f.Modes) > 0
	return apply, apply || len(f.MountPoints) > 0
}

// link places a link where its directory really is in the image, and counts its
// target, where that really is, from there.
func (p *Placer) link(l plan.Link) hookspec.Link {
	real := p.Path(l.Path)
	if real == l.Path {
		return hookspec.Link{Path: l.Path, Target: l.Target}
	}
	target, err := filepath.Rel(path.Dir(real), p.Path(path.Join(path.Dir(l.Path), l.Target)))
	if err != nil { // both are absolute: cannot happen
		p.Refuse(ReasonResolve, l.Path, "%v", err)
	}
	return hookspec.Link{Path: real, Target: target}
}
