package tree

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"gpurig/core/host"
)

// A frozen is what marks entries that several trees have, with their digest.
type frozen struct {
	once sync.Once
	sum  [sha256.Size]byte
}

// file marks what is no directory and has no digest of its own.
var file = &frozen{}

// Freeze makes everything in t what nobody changes any more, so that other trees can
// have it too.
func (t *Tree) Freeze() *Tree {
	freeze(t.root)
	return t
}

func freeze(e *Entry) {
	if e.fixed != nil {
		return
	}
	if e.fixed = file; e.Mode.IsDir() {
		e.fixed = &frozen{}
	}
	for _, child := range e.Children {
		freeze(child)
	}
}

// Share adds what a frozen tree has and t has not, without a copy. What both have stays
// t's, and of directories what is in them. A change of what is shared makes it t's own,
// with the directories on the way.
func (t *Tree) Share(from *Tree) {
	t.last.e = nil
	t.share(t.root, from.root)
}

// Same makes p the directory q, which nobody changes any more, without a copy.
func (t *Tree) Same(p, q string) error {
	e, err := t.find("link", q, false)
	if err != nil {
		return err
	}
	freeze(e)
	up, err := t.parent("link", path.Dir(p))
	if err != nil {
		return err
	}
	up.Children[path.Base(p)] = e
	return nil
}

// Fill makes a directory, 0755, of files that everybody may read, each a name and what it
// says: WriteFile for many at once, into a directory that is not there yet.
func (t *Tree) Fill(p string, files [][2]string) error {
	up, err := t.parent("mkdir", path.Dir(p))
	if err != nil {
		return err
	}
	if up.Children[path.Base(p)] != nil {
		return pathError("mkdir", p, syscall.EEXIST)
	}
	entries := make([]Entry, len(files)+1)
	d := &entries[len(files)]
	*d = Entry{Info: host.Info{Mode: fs.ModeDir | 0o755}, Children: make(map[string]*Entry, len(files))}
	for i, f := range files {
		entries[i] = Entry{Info: host.Info{Mode: 0o444, Size: int64(len(f[1]))}, Data: []byte(f[1])}
		d.Children[f[0]] = &entries[i]
	}
	up.Children[path.Base(p)] = d
	return nil
}

func (t *Tree) share(to, from *Entry) {
	both := maps.Clone(from.Children) // which is faster than to add one by one
	for name, old := range to.Children {
		if child := both[name]; child != nil && child != old && old.Mode.IsDir() && child.Mode.IsDir() {
			old = t.mine(to, name)
			t.share(old, child)
		}
		both[name] = old
	}
	to.Children = both
}

// mine makes the entry of a directory that is t's own t's own too.
func (t *Tree) mine(dir *Entry, name string) *Entry {
	e := dir.Children[name]
	if e == nil || e.fixed == nil {
		return e
	}
	e = t.keep(*e)
	e.fixed, e.Children = nil, maps.Clone(e.Children)
	dir.Children[name] = e
	t.last.e = nil
	return e
}

// ours makes what is at p, a path without links, t's own.
func (t *Tree) ours(p string) *Entry {
	e := t.root
	for name := range strings.SplitSeq(strings.Trim(path.Clean(p), "/"), "/") {
		if name != "" && e != nil {
			e = t.mine(e, name)
		}
	}
	return e
}

// Own returns what p leads to, links followed, for a change: no other tree has it.
func (t *Tree) Own(p string) (*Entry, error) { return t.own(p, true) }

// own makes what p leads to t's own, links followed, of the last component if last.
func (t *Tree) own(p string, last bool) (*Entry, error) {
	real, err := t.ResolvePath(p, last)
	if err != nil {
		return nil, err
	}
	return t.ours(real), nil
}

// digest is that of everything in a directory.
func (e *Entry) digest() [sha256.Size]byte {
	if e.fixed != nil {
		e.fixed.once.Do(func() { e.fixed.sum = e.sum() })
		return e.fixed.sum
	}
	return e.sum()
}

func (e *Entry) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(e.Children)) {
		describe(h, name, e.Children[name])
	}
	return [sha256.Size]byte(h.Sum(nil))
}
