package sim

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/hookspec"
	"gpurig/fakehw/tree"
)

// errInTheWay marks something of the image's own where the hook shall make
// something else.
var errInTheWay = errors.New("something of the container's own is in the way")

// A journal is what the hook made in one root. It outlives a crash.
type journal struct {
	points []string // empty files
	dirs   []string // outermost first
	links  map[string]string
	was    map[string]string // texts of the image's own links that gave way
	linker bool              // the loader's configuration is ours
	conf   bool              // /etc/ld.so.conf is ours
	// noCache says that the image had no /etc/ld.so.cache.
	noCache bool
	cache   bool                // glibc's cache is ours
	musl    map[string]pathFile // musl's path files, as they were and as we wrote them
}

// A hooked is one run of cdi-hook on a root: what it would do there, by the
// same rules (package hook, which is run as a program and never imported).
type hooked struct {
	s       *space
	file    hookspec.File
	journal *journal
	uid     uint32            // of the container's root, as the root file system has it
	dirs    map[string]folder // directories found so far in this run

	caches   *memo[builtCache]
	cacheKey string
}

// prepare makes mount points, and takes back what this file does not want.
func (h *hooked) prepare() error {
	if err := h.takeBack(h.file); err != nil {
		return err
	}
	for _, m := range h.file.MountPoints {
		if err := h.mountPoint(m); err != nil {
			return fmt.Errorf("cdi-hook: mount point: %w", err)
		}
	}
	return nil
}

// apply makes links, library cache and modes, with everything mounted.
func (h *hooked) apply() error {
	for _, l := range h.file.Links {
		if err := h.link(l); err != nil {
			return fmt.Errorf("cdi-hook: link to %q: %w", l.Target, err)
		}
	}
	if err := h.linker(); err != nil {
		return fmt.Errorf("cdi-hook: %w", err)
	}
	for _, m := range h.file.Modes {
		if err := h.chmod(m); err != nil {
			return fmt.Errorf("cdi-hook: %w", err)
		}
	}
	return nil
}

// finish takes back empty mount points after a stop.
func (h *hooked) finish() error {
	keep := h.file
	keep.MountPoints = nil
	return h.takeBack(keep)
}

// clean takes back everything that was ever made in this root.
func (h *hooked) clean() error {
	h.file = hookspec.File{}
	if err := h.removeLinker(); err != nil {
		return err
	}
	return h.takeBack(hookspec.File{})
}

// mountPoint keeps what is there and of the right type, and replaces a link.
func (h *hooked) mountPoint(m hookspec.MountPoint) error {
	if m.Dir {
		_, err := h.dir(m.Path)
		return err
	}
	d, name, err := h.parent(m.Path)
	if err != nil {
		return err
	}
	switch e := d.child(name); {
	case e != nil && e.Mode.IsDir():
		return fmt.Errorf("%s: a directory, and a file shall be mounted: %w", m.Path, errInTheWay)
	case e != nil && !e.IsLink():
		return nil
	case e != nil:
		clear(h.dirs) // a link gives way: what was resolved may have led through it
	}
	if err := d.put(name, newFile(nil, 0o644, h.uid)); err != nil {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	if !slices.Contains(h.journal.points, m.Path) {
		h.journal.points = append(h.journal.points, m.Path)
	}
	return nil
}

// link makes a link; one that is there gives way, anything else does not.
func (h *hooked) link(l hookspec.Link) error {
	d, name, err := h.parent(l.Path)
	if err != nil {
		return err
	}
	switch e := d.child(name); {
	case e != nil && e.IsLink() && e.Target == l.Target:
		return nil
	case e != nil && !e.IsLink():
		return fmt.Errorf("%s: a file or directory: %w", l.Path, errInTheWay)
	case e != nil:
		clear(h.dirs)
		if ours, ok := h.journal.links[l.Path]; !ok || ours != e.Target {
			h.journal.was[l.Path] = e.Target
		}
	}
	if err := d.put(name, newLink(l.Target, h.uid)); err != nil {
		return fmt.Errorf("%s: %w", l.Path, err)
	}
	h.journal.links[l.Path] = l.Target
	return nil
}

func (h *hooked) chmod(m hookspec.Mode) error {
	real, _, _, err := h.s.find("chmod", m.Path, false)
	if err != nil {
		return err
	}
	d, err := h.s.own(path.Dir(real))
	if err != nil {
		return err
	}
	e := d.child(path.Base(real))
	switch {
	case h.s.top[real] != nil:
		return fmt.Errorf("chmod %s: %w", m.Path, syscall.EXDEV)
	case e == nil:
		return fmt.Errorf("chmod %s: %w", m.Path, syscall.ENOENT)
	case !e.Mode.IsDir() && !e.IsDevice():
		return fmt.Errorf("chmod %s: neither a directory nor a device node", m.Path)
	}
	e.Mode = e.Mode.Type() | m.Mode.Perm()
	return nil
}

// parent returns the directory of p in the container's own file system, after
// making what is missing, and the last component of p.
func (h *hooked) parent(p string) (folder, string, error) {
	i := strings.LastIndexByte(p, '/')
	d, err := h.dir(p[:max(i, 1)])
	if err != nil {
		return folder{}, "", fmt.Errorf("%s: %w", p, err)
	}
	return d, p[i+1:], nil
}

// dir returns the directory p, and makes it and its parents where they are
// missing.
func (h *hooked) dir(p string) (folder, error) {
	if d, ok := h.dirs[p]; ok {
		return d, nil
	}
	real, err := h.s.Resolve(p)
	if notExist(err) && p != "/" {
		return h.mkdir(p)
	}
	if err != nil {
		return folder{}, err
	}
	d, err := h.s.own(real)
	if err == nil {
		h.dirs[p] = d
	}
	return d, err
}

func (h *hooked) mkdir(p string) (folder, error) {
	up, name, err := h.parent(p)
	if err != nil {
		return folder{}, err
	}
	if up.child(name) != nil {
		return folder{}, fmt.Errorf("%s: a dangling link: %w", p, errInTheWay)
	}
	d := folder{e: newDir(h.uid)}
	if err := up.put(name, d.e); err != nil {
		return folder{}, fmt.Errorf("mkdir %s: %w", p, err)
	}
	if !slices.Contains(h.journal.dirs, p) {
		h.journal.dirs = append(h.journal.dirs, p)
	}
	h.dirs[p] = d
	return d, nil
}

// takeBack removes what the journal has and keep does not want. What somebody
// changed since stays.
func (h *hooked) takeBack(keep hookspec.File) error {
	point, dir, link := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range keep.MountPoints {
		point[m.Path], dir[m.Path] = !m.Dir, m.Dir
	}
	for _, l := range keep.Links {
		link[l.Path] = true
	}
	j := h.journal
	j.points = slices.DeleteFunc(j.points, func(p string) bool {
		if point[p] {
			return false
		}
		h.removeIf(p, func(e *tree.Entry) bool { return e.Mode.IsRegular() && len(e.Data) == 0 })
		return true
	})
	for p, text := range j.links {
		if !link[p] {
			h.removeIf(p, func(e *tree.Entry) bool { return e.IsLink() && e.Target == text })
			h.putBack(p)
			delete(j.links, p)
		}
	}
	for i := len(j.dirs) - 1; i >= 0; i-- {
		p := j.dirs[i]
		if !dir[p] && h.removeIf(p, func(e *tree.Entry) bool { return e.Mode.IsDir() && len(e.Children) == 0 }) {
			j.dirs = slices.Delete(j.dirs, i, i+1)
		}
	}
	return nil
}

// putBack makes a link again that had given way, unless something is there.
func (h *hooked) putBack(p string) {
	text, ok := h.journal.was[p]
	delete(h.journal.was, p)
	up, err := h.s.Resolve(path.Dir(p))
	if !ok || err != nil {
		return
	}
	if d, err := h.s.own(up); err == nil && d.child(path.Base(p)) == nil {
		_ = d.put(path.Base(p), newLink(text, h.uid)) // it is the image's: no harm without it
	}
}

// removeIf removes p if it is there, in the container's own file system, and as
// said.
func (h *hooked) removeIf(p string, still func(*tree.Entry) bool) bool {
	up, err := h.s.Resolve(path.Dir(p))
	if err != nil {
		return false
	}
	d, err := h.s.own(up)
	if err != nil {
		return false
	}
	name := path.Base(p)
	e := d.child(name)
	if e == nil || !still(e) {
		return false
	}
	clear(h.dirs)
	return d.remove(name) == nil
}
