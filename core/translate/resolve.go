package translate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/plan"
)

func cleanAbs(p string) string { return path.Clean("/" + p) }

// resolve makes one whole of what the edits brought, and refuses what does not
// go together.
func (w *work) resolve() {
	w.refuseMissing()
	w.resolveModes()
	w.resolveLinks()
	w.resolvePaths()
	w.resolveNested()
	w.hidden()
	if len(w.links) > maxEntries || len(w.modes) > maxEntries {
		w.refuseAt("containerEdits", ReasonTooMany, "%d links and %d modes, at most %d of each are made", len(w.links), len(w.modes), maxEntries)
	}
	if len(w.folders) > maxFolders {
		w.refuseAt("containerEdits", ReasonTooMany, "%d library folders, at most %d are searched", len(w.folders), maxFolders)
	}
}

// resolveModes gives a mode that is meant for a node of the plan to that node.
func (w *work) resolveModes() {
	for _, at := range sortedKeys(w.modes) {
		n := w.nodes[at]
		if n == nil {
			continue
		}
		if m := w.modes[at].v; n.v.Mode != m.Mode && w.opts.Mode == nil {
			n.v.Mode, n.v.Own = m.Mode, true
			if n.v.UID == nobody {
				n.v.UID = 0
			}
			if n.v.GID == nobody {
				n.v.GID = 0
			}
		}
		delete(w.modes, at)
	}
}

// resolveLinks takes out links that mounts stand for, puts links below linked
// directories where they really are, refuses loops, and makes targets relative.
func (w *work) resolveLinks() {
	for _, at := range sortedKeys(w.links) {
		l := w.links[at]
		if m := w.mounts[at]; m != nil {
			w.notes = append(w.notes, plan.Note{
				Device: deviceOf(l.from), Edit: editOf(l.from), What: "link " + quote(at), Reason: ReasonOverMount,
				Detail: fmt.Sprintf("%s is mounted at that path and replaces the link", m.v.Source),
			})
			delete(w.links, at)
		}
		if n := w.nodes[at]; n != nil {
			w.refuseAt(l.from, ReasonConflict, "link %s is at the path of a device node (%s)", quote(at), n.from)
		}
	}
	w.resolveOthers()
	moved := map[string]*entry[plan.Link]{}
	for _, at := range sortedKeys(w.links) {
		l := w.links[at]
		place, to, err := w.follow(at, l.v.Target)
		switch {
		case errors.Is(err, syscall.ELOOP):
			w.refuseAt(l.from, ReasonLinkLoop, "link %s to %s leads back to itself", quote(at), quote(l.v.Target))
			continue
		case err != nil:
			w.refuseAt(l.from, ReasonLink, "link %s to %s: %v", quote(at), quote(l.v.Target), err)
			continue
		case pathProblem(place) != "":
			w.refuseAt(l.from, ReasonLink, "link %s, which is %s by way of other links, %s", quote(at), quote(place), pathProblem(place))
			continue
		}
		l.v.Path, l.v.Target = place, to
		if old := moved[place]; old != nil {
			if old.v.Target != l.v.Target {
				w.refuseAt(l.from, ReasonConflict, "link %s: to %s here, to %s elsewhere (%s)", quote(place), quote(l.v.Target), quote(old.v.Target), old.from)
			}
			old.v.Owners = union(old.v.Owners, l.v.Owners)
			continue
		}
		moved[place] = l
	}
	for _, l := range moved {
		l.v.Target = relative(l.v.Path, l.v.Target)
	}
	w.links = moved
}

// resolveOthers merges links at one path whose targets end at the same file, and
// refuses the others. NVIDIA's library brings both for a Jetson: libcuda.so to
// libcuda.so.1, as for every driver library, and to libcuda.so.1.1, as the
// board's CSV file and the host have it. The last is kept, as its hook has it.
func (w *work) resolveOthers() {
	for _, o := range w.others {
		l := w.links[o.at]
		if l == nil {
			continue // a mount stands for it
		}
		kept, err1 := host.Resolve(w.view, l.v.Target)
		other, err2 := host.Resolve(w.view, o.to)
		if err1 == nil && err2 == nil && kept == other {
			w.notes = append(w.notes, plan.Note{
				Device: deviceOf(l.from), Edit: editOf(l.from), What: fmt.Sprintf("link %s to %s", quote(o.at), quote(l.v.Target)), Reason: ReasonSameEnd,
				Detail: fmt.Sprintf("a later one leads to %s too, by way of %s", kept, quote(o.to)),
			})
			l.v.Target, l.from = o.to, o.from
			continue
		}
		w.refuseAt(o.from, ReasonConflict, "link %s: to %s here, to %s elsewhere (%s)", quote(o.at), quote(o.to), quote(l.v.Target), l.from)
	}
}

// relative returns the text of a link at place that leads to the absolute path
// to. It is always relative: the root may be looked at from elsewhere.
func relative(place, to string) string {
	rel, err := filepath.Rel(path.Dir(place), to)
	if err != nil { // both are absolute: cannot happen
		return to
	}
	return rel
}

// follow returns where a link and its target really are, and an error when it
// leads back to itself. Most links have nothing to do with another one.
func (w *work) follow(at, target string) (place, to string, err error) {
	if !w.isLinkAbove(at) && !w.isLinkAbove(target) && w.links[target] == nil {
		return at, target, nil
	}
	if place, err = host.ResolveDir(w.view, at); err != nil {
		return "", "", err
	}
	if to, err = host.ResolveDir(w.view, target); err != nil {
		return "", "", err
	}
	_, err = host.Resolve(w.view, at)
	return place, to, err
}

// isLinkAbove reports whether a directory above p is a link of the plan.
func (w *work) isLinkAbove(p string) bool {
	linked := false
	parents(p, func(dir string) bool { linked = w.links[dir] != nil; return !linked })
	return linked
}

// linkView is a container that has nothing but the plan's links.
type linkView map[string]*entry[plan.Link]

func (v linkView) Lstat(p string) (host.Info, error) {
	if v[p] != nil {
		return host.Info{Mode: fs.ModeSymlink | 0o777}, nil
	}
	return host.Info{Mode: fs.ModeDir | 0o755}, nil
}

func (v linkView) Readlink(p string) (string, error) { return v[p].v.Target, nil }
func (v linkView) ReadFile(string) ([]byte, error)   { return nil, fs.ErrNotExist }
func (v linkView) ReadDir(string) ([]string, error)  { return nil, fs.ErrNotExist }

// resolvePaths refuses what lies below a path that will be no directory.
func (w *work) resolvePaths() {
	leaf := map[string]string{}
	all := map[string]string{}
	for at, e := range w.nodes {
		leaf[at], all[at] = "a device node", e.from
		if m := w.mounts[at]; m != nil {
			w.refuseAt(e.from, ReasonConflict, "%s is a device node here and a mount elsewhere (%s)", quote(at), m.from)
		}
	}
	for at, e := range w.links {
		leaf[at], all[at] = "a link", e.from
	}
	for at, e := range w.mounts {
		all[at] = e.from
		if !e.v.Dir {
			leaf[at] = "a mounted file"
		}
	}
	for _, at := range sortedKeys(all) {
		parents(at, func(dir string) bool {
			if what := leaf[dir]; what != "" {
				w.refuseAt(all[at], ReasonInTheWay, "%s is below %s, which is %s (%s)", quote(at), quote(dir), what, all[dir])
				return false
			}
			return true
		})
	}
}

// resolveNested refuses mounts, nodes and links inside a mounted directory that
// has nothing to mount on: nothing can be made in the host's directory.
func (w *work) resolveNested() {
	inside := func(at string) (*entry[plan.Mount], string) {
		var m *entry[plan.Mount]
		parents(at, func(dir string) bool { m = w.mounts[dir]; return m == nil })
		if m == nil {
			return nil, ""
		}
		return m, path.Join(m.v.Source, strings.TrimPrefix(at, m.v.Target))
	}
	check := func(at, from string, dir bool) {
		m, source := inside(at)
		if m == nil {
			return
		}
		if m.v.Type != "" {
			w.refuseAt(from, ReasonNoPoint, "%s is inside %s, where an empty %s is mounted (%s)", quote(at), quote(m.v.Target), m.v.Type, m.from)
			return
		}
		if f := w.look.at(source); f.err != nil || f.link || f.info.Mode.IsDir() != dir {
			w.refuseAt(from, ReasonNoPoint, "%s is inside %s, where %s is mounted (%s), and there is nothing of its kind at %s",
				quote(at), quote(m.v.Target), quote(m.v.Source), m.from, quote(source))
		}
	}
	for _, at := range sortedKeys(w.mounts) {
		check(at, w.mounts[at].from, w.mounts[at].v.Dir)
	}
	for _, at := range sortedKeys(w.nodes) {
		check(at, w.nodes[at].from, false)
	}
	for _, at := range sortedKeys(w.links) {
		l := w.links[at]
		m, source := inside(at)
		if m == nil {
			continue
		}
		if f := w.look.at(source); f.link && m.v.Type == "" {
			w.notes = append(w.notes, plan.Note{
				Device: deviceOf(l.from), Edit: editOf(l.from), What: "link " + quote(at), Reason: ReasonOverMount,
				Detail: fmt.Sprintf("%s is mounted at %s and has the link already", m.v.Source, m.v.Target),
			})
			delete(w.links, at)
			continue
		}
		w.refuseAt(l.from, ReasonNoPoint, "link %s is inside %s, where %s is mounted (%s), and cannot be made there",
			quote(at), quote(m.v.Target), quote(m.v.Source), m.from)
	}
}

// volatile are directories that an init mounts over when it starts.
var volatile = []string{"/run", "/var/run", "/tmp"}

// hidden notes mounts and links that a container's init may hide.
func (w *work) hidden() {
	for _, at := range sortedKeys(w.mounts) {
		for _, dir := range volatile {
			if !isBelow(at, dir) {
				continue
			}
			from := w.mounts[at].from
			w.notes = append(w.notes, plan.Note{
				Device: deviceOf(from), Edit: editOf(from), What: "mount of " + at, Reason: ReasonHidden, Done: true,
				Detail: fmt.Sprintf("an init that mounts its own %s, as systemd does, hides it", dir),
			})
		}
	}
}

// deviceOf and editOf take apart what part.at put together.
func deviceOf(from string) string {
	if name, _, ok := cutLast(from, ": "); ok && !strings.HasSuffix(name, " containerEdits") {
		return name
	}
	return ""
}

func editOf(from string) string {
	_, edit, _ := cutLast(from, ": ")
	return edit
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// plan returns the whole, in the plan's order.
func (w *work) plan() plan.Plan {
	out := plan.Plan{Devices: w.devices, Strict: w.opts.Strict}
	said := map[plan.Note]bool{} // a device that is there twice says everything twice
	for _, n := range w.notes {
		if !said[n] {
			out.Notes = append(out.Notes, n)
		}
		said[n] = true
	}
	out.Nodes = values(w.nodes)
	out.Links = values(w.links)
	out.Modes = values(w.modes)
	out.Env = values(w.env)
	out.Mounts = values(w.mounts)
	slices.SortStableFunc(out.Mounts, func(a, b plan.Mount) int {
		return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/"))
	})
	for _, dir := range sortedKeys(w.folders) {
		out.LibraryDirs = append(out.LibraryDirs, dir)
		out.LibraryOwners = append(out.LibraryOwners, w.folders[dir])
	}
	for _, g := range sortedKeys(w.groups) {
		out.Groups = append(out.Groups, g)
		out.GroupOwners = append(out.GroupOwners, w.groups[g])
	}
	return out
}

func values[T any](m map[string]*entry[T]) []T {
	var out []T
	for _, k := range sortedKeys(m) {
		out = append(out, m[k].v)
	}
	return out
}
