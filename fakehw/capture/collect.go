package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/fixtures/hosts"
)

// A collector keeps what is recorded, by path.
type collector struct {
	r       host.Root
	entries map[string]hosts.Entry
	infos   map[string]host.Info // of the same paths
	notes   notes
}

// missing reports whether err says that nothing is at a path.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// take records p: every link on the way to it, and what they lead to. It returns
// the path without links, and whether something is there. Of a directory only
// itself is recorded.
func (c *collector) take(p string) (real string, info host.Info, ok bool) {
	real, err := host.Resolve(recording{c.r, c}, p)
	if err != nil {
		return "", host.Info{}, false
	}
	if info, ok = c.infos[real]; !ok {
		info = host.Info{Mode: fs.ModeDir | 0o755} // the root, or a ".." at the end
	}
	return real, info, true
}

// recording is a root that records what is looked at.
type recording struct {
	host.Root
	to *collector
}

func (r recording) Lstat(p string) (host.Info, error) {
	if info, ok := r.to.look(p); ok {
		return info, nil
	}
	return host.Info{}, fs.ErrNotExist
}

func (r recording) Readlink(p string) (string, error) { return r.to.entries[p].Target, nil }

// look records one inode whose directory is without links.
func (c *collector) look(p string) (host.Info, bool) {
	if info, known := c.infos[p]; known {
		return info, true
	}
	info, err := c.r.Lstat(p)
	if err == nil {
		err = c.record(p, info)
	}
	if err != nil {
		if !missing(err) {
			c.notes.unread(p, err)
		}
		return host.Info{}, false
	}
	c.infos[p] = info
	return info, true
}

// each calls f for every path that a pattern matches, component by component,
// links followed. Nothing is recorded by it.
func (c *collector) each(pattern string, f func(p string)) {
	c.expand("/", strings.Split(pattern, "/")[1:], f)
}

func (c *collector) expand(at string, rest []string, f func(string)) {
	for len(rest) > 0 && !strings.ContainsAny(rest[0], "*?[") {
		at, rest = path.Join(at, rest[0]), rest[1:]
	}
	if len(rest) == 0 {
		f(at)
		return
	}
	for _, name := range c.list(at) {
		if ok, err := path.Match(rest[0], name); ok && err == nil {
			c.expand(path.Join(at, name), rest[1:], f)
		}
	}
}

// list reads a directory that may be missing.
func (c *collector) list(p string) []string {
	names, err := c.r.ReadDir(p)
	if err != nil && !missing(err) {
		c.notes.unread(p, err)
	}
	return names
}

// glob records everything that the patterns match.
func (c *collector) glob(patterns ...string) {
	for _, pattern := range patterns {
		c.each(pattern, func(p string) { c.take(p) })
	}
}

// maxDepth is how deep below its top a folder is recorded as a whole.
const maxDepth = 8

// whole records p and, if it is a directory, all that is in it. Links are
// recorded with what they lead to, but folders behind links are not entered.
func (c *collector) whole(patterns ...string) {
	for _, pattern := range patterns {
		c.each(pattern, func(p string) {
			if real, info, ok := c.take(p); ok && info.Mode.IsDir() {
				c.below(real, 1)
			}
		})
	}
}

func (c *collector) below(dir string, depth int) {
	if depth > maxDepth {
		c.notes.add("deeper than %d folders and left out: %s", maxDepth, dir)
		return
	}
	for _, name := range c.list(dir) {
		p := path.Join(dir, name)
		if real, info, ok := c.take(p); ok && real == p && info.Mode.IsDir() {
			c.below(p, depth+1)
		}
	}
}

// notes say what a recording lacks, and why.
type notes struct {
	said   []string
	denied []string
	others int
}

const maxUnread = 20

func (n *notes) add(format string, args ...any) {
	n.said = append(n.said, fmt.Sprintf(format, args...))
}

// unread notes a path that could not be looked at.
func (n *notes) unread(p string, err error) {
	if len(n.denied) >= maxUnread {
		n.others++
		return
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	n.denied = append(n.denied, fmt.Sprintf("not read: %s: %v", p, err))
}

func (n *notes) lines() []string {
	out := append(n.said, n.denied...)
	if n.others > 0 {
		out = append(out, fmt.Sprintf("not read: %d paths more", n.others))
	}
	return out
}
