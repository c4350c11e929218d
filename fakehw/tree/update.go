package tree

import (
	"bytes"
	"slices"
	"strings"
)

// A Change is one path at which a tree became another.
type Change struct {
	Path string
	Kind ChangeKind
}

// A ChangeKind says what became of a path.
type ChangeKind int

// An entry that turns into something else (a file into a directory, a link with
// another target, a node with another number) is Removed and then Added.
const (
	Altered ChangeKind = iota // content, mode, owner or size
	Removed
	Added
)

// Update makes t equal to next and says where it was not. What stays keeps its
// Entry, so whoever holds one sees its new content; what is removed keeps the
// content it had. A directory is listed before what is in it, and with it. Do
// not use next afterwards: t has taken entries of it.
func (t *Tree) Update(next *Tree) []Change {
	t.last.e = nil
	var out []Change
	update("/", t.root, next.root, &out)
	return out
}

func update(p string, old, next *Entry, out *[]Change) {
	if !same(old, next) {
		*out = append(*out, Change{p, Altered})
		old.Info, old.Data = next.Info, next.Data
	}
	at := strings.TrimSuffix(p, "/") + "/"
	var names []string
	for name, o := range old.Children {
		if n := next.Children[name]; n == nil || !sameThing(o, n) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		note(at+name, old.Children[name], Removed, out)
		delete(old.Children, name)
	}
	names = names[:0]
	for name, n := range next.Children {
		if o := old.Children[name]; o == nil || o.fixed == nil && (n.Mode.IsDir() || !same(o, n)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if o := old.Children[name]; o != nil {
			update(at+name, o, next.Children[name], out)
			continue
		}
		old.Children[name] = next.Children[name]
		note(at+name, next.Children[name], Added, out)
	}
}

func same(a, b *Entry) bool { return a.Info == b.Info && bytes.Equal(a.Data, b.Data) }

// sameThing reports whether a can become b without being another inode. What several
// trees have cannot become anything: it stays where b is equal.
func sameThing(a, b *Entry) bool {
	if a.fixed != nil || b.fixed != nil {
		return equal(a, b)
	}
	return a.Mode.Type() == b.Mode.Type() && a.Target == b.Target && a.Num == b.Num
}

// equal reports whether all of a is as it is in b.
func equal(a, b *Entry) bool {
	if a == b {
		return true
	}
	if !same(a, b) || a.Target != b.Target || len(a.Children) != len(b.Children) {
		return false
	}
	for name, child := range a.Children {
		if other := b.Children[name]; other == nil || !equal(child, other) {
			return false
		}
	}
	return true
}

// note lists e and all below it.
func note(p string, e *Entry, kind ChangeKind, out *[]Change) {
	_ = walk(p, e, func(at string, _ *Entry) error { // fails only if we do
		*out = append(*out, Change{at, kind})
		return nil
	})
}
