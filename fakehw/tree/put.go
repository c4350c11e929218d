package tree

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// clean is path.Clean, which takes its time with paths that are clean already.
func clean(p string) string {
	rest, abs := strings.CutPrefix(p, "/")
	for abs && rest != "" {
		name, tail, more := strings.Cut(rest, "/")
		if name == "" || name == "." || name == ".." || more && tail == "" {
			return path.Clean(p)
		}
		rest = tail
	}
	if !abs {
		return path.Clean(p)
	}
	return p
}

// put places e at p. Missing parents are made, root:root and 0755, or 0555 below
// a directory that nobody may write, as procfs has them; links on the way are
// followed. What was at p is replaced, except that a directory stays one
// with its children when e is a directory too.
func (t *Tree) put(op, p string, e Entry) error {
	if cut := strings.LastIndexByte(p, '/'); cut > 0 && t.last.e != nil && p[:cut] == t.last.dir {
		if name := p[cut+1:]; name != "" && name != "." && name != ".." { // as clean as the one before
			return t.place(op, p, t.last.e, name, e)
		}
	}
	p = clean(p)
	if !path.IsAbs(p) {
		return pathError(op, p, syscall.EINVAL)
	}
	if p == "/" {
		if !e.Mode.IsDir() {
			return pathError(op, p, syscall.EISDIR)
		}
		t.root.Info = e.Info
		return nil
	}
	cut := strings.LastIndexByte(p, '/')
	dir := p[:max(cut, 1)]
	parent, err := t.parent(op, dir)
	if err != nil {
		return err
	}
	t.last.dir, t.last.e = dir, parent
	return t.place(op, p, parent, p[cut+1:], e)
}

// place is put in a directory that is known.
func (t *Tree) place(op, p string, parent *Entry, name string, e Entry) error {
	if old := parent.Children[name]; old != nil && old.Mode.IsDir() {
		if !e.Mode.IsDir() {
			return pathError(op, p, syscall.EISDIR)
		}
		if old.Info != e.Info {
			t.mine(parent, name).Info = e.Info
		}
		return nil
	}
	parent.Children[name] = t.keep(e)
	return nil
}

// keep returns where e is kept from now on. Room is made for many at a time, which
// takes half the time.
func (t *Tree) keep(e Entry) *Entry {
	if len(t.room) == 0 {
		t.room = make([]Entry, 64)
	}
	at := &t.room[0]
	t.room = t.room[1:]
	*at = e
	return at
}

// parent returns the directory p, making what is missing, and t's own what is shared.
func (t *Tree) parent(op, p string) (*Entry, error) {
	if e := t.straight(p); e != nil {
		return e, nil
	}
	if e, err := t.find(op, p, true); err == nil {
		if !e.Mode.IsDir() {
			return nil, pathError(op, p, syscall.ENOTDIR)
		}
		return t.own(p, true)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if e := t.direct(p); e != nil {
		return nil, pathError(op, p, syscall.ENOENT) // a dangling link
	}
	up, err := t.parent(op, path.Dir(p))
	if err != nil {
		return nil, err
	}
	e := t.keep(up.between())
	up.Children[path.Base(p)] = e
	return e, nil
}

// between makes a directory on the way to what is put below e.
func (e *Entry) between() Entry {
	if e.Mode.Perm()&0o222 == 0 {
		return dir(0o555)
	}
	return dir(0o755)
}

// straight does parent's work for the common case, a way of directories alone;
// nil where a link or something else stands in it, before anything was made.
func (t *Tree) straight(p string) *Entry {
	e, rest := t.root, strings.TrimPrefix(p, "/")
	if t.last.e != nil {
		if below, ok := strings.CutPrefix(p, t.last.dir+"/"); ok {
			e, rest = t.last.e, below
		}
	}
	for rest != "" {
		name, tail, _ := strings.Cut(rest, "/")
		next := e.Children[name]
		if next != nil && next.fixed != nil && next.Mode.IsDir() {
			next = t.mine(e, name)
		}
		if next == nil {
			next = t.keep(e.between())
			e.Children[name] = next
		}
		if !next.Mode.IsDir() {
			return nil
		}
		e, rest = next, tail
	}
	return e
}
