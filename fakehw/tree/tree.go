// Package tree is a file tree in memory with the kinds of files that machines have:
// directories, files, symbolic links, device nodes with numbers, sockets, each
// with mode and owner.
//
// A Tree is a host.Root. Other packages serve it as an afero.Fs, as a FUSE
// mount or as files on disk; package fakehw makes trees from host models. A
// Tree must not be used while it is being changed.
package tree

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/device"
	"gpurig/core/host"
)

// A Tree is a file tree. The zero Tree is not ready: call New.
type Tree struct {
	root *Entry
	last struct { // where put made something, since much is made in one place
		dir string
		e   *Entry // nil: nowhere that is known still to be there
	}
	room []Entry // for entries to come
}

var _ host.Root = (*Tree)(nil)

// An Entry is one inode. Fields are for reading; change a tree by its methods.
type Entry struct {
	host.Info
	Data     []byte            // of a regular file
	Target   string            // of a symbolic link
	Children map[string]*Entry // of a directory
	fixed    *frozen           // nil: no other tree has it
}

// Names are those of what is in a directory, sorted.
func (e *Entry) Names() []string {
	out := slices.AppendSeq(make([]string, 0, len(e.Children)), maps.Keys(e.Children))
	slices.Sort(out)
	return out
}

// New returns a tree that has only its root directory, 0755 root:root.
func New() *Tree {
	root := dir(0o755)
	return &Tree{root: &root}
}

func dir(perm fs.FileMode) Entry {
	return Entry{Info: host.Info{Mode: fs.ModeDir | perm&host.Bits}, Children: map[string]*Entry{}}
}

// pathError makes the error that the os package would.
func pathError(op, p string, err error) error { return &fs.PathError{Op: op, Path: p, Err: err} }

// find walks to p. Links in directories are followed; the last component's only
// if follow.
func (t *Tree) find(op, p string, follow bool) (*Entry, error) {
	if !path.IsAbs(p) {
		return nil, pathError(op, p, syscall.EINVAL)
	}
	if e := t.direct(p); e != nil && (!follow || !e.IsLink()) {
		return e, nil // the common case: no link on the way
	}
	e, _, err := t.walkTo(p, follow)
	if err == nil && e == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return nil, pathError(op, p, err)
	}
	return e, nil
}

// ResolvePath is part of host.Resolver.
func (t *Tree) ResolvePath(p string, last bool) (string, error) {
	_, names, err := t.walkTo(p, last)
	return "/" + strings.Join(names, "/"), err
}

// walkTo follows the links of p, of its last component only if last, and returns what
// is there and its path without links. Without last nothing need be there.
func (t *Tree) walkTo(p string, last bool) (*Entry, []string, error) {
	at := append(make([]*Entry, 0, 24), t.root)
	names := make([]string, 0, 24)
	links := 0
	for name, rest := "", path.Clean(p)[1:]; rest != ""; {
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			if len(names) > 0 {
				at, names = at[:len(at)-1], names[:len(names)-1]
			}
			continue
		}
		next := at[len(at)-1].Children[name]
		switch {
		case rest == "" && !last:
			return next, append(names, name), nil
		case next == nil:
			return nil, nil, syscall.ENOENT
		case !next.IsLink():
			if rest != "" && !next.Mode.IsDir() {
				return nil, nil, syscall.ENOTDIR
			}
			at, names = append(at, next), append(names, name)
			continue
		}
		if links++; links > host.MaxLinks {
			return nil, nil, syscall.ELOOP
		}
		if path.IsAbs(next.Target) {
			at, names = at[:1], names[:0]
		}
		rest = next.Target + "/" + rest
	}
	return at[len(at)-1], names, nil
}

// direct walks p without following any link; nil if something is missing.
func (t *Tree) direct(p string) *Entry {
	e := t.root
	for rest := strings.TrimPrefix(clean(p), "/"); rest != ""; {
		name, tail, _ := strings.Cut(rest, "/")
		if e = e.Children[name]; e == nil {
			return nil
		}
		rest = tail
	}
	return e
}

// Entry returns what is at p, no link followed in the last component.
func (t *Tree) Entry(p string) (*Entry, error) { return t.find("lstat", p, false) }

// Lstat is part of host.Root.
func (t *Tree) Lstat(p string) (host.Info, error) {
	e, err := t.find("lstat", p, false)
	if err != nil {
		return host.Info{}, err
	}
	return e.Info, nil
}

// Readlink is part of host.Root.
func (t *Tree) Readlink(p string) (string, error) {
	e, err := t.find("readlink", p, false)
	if err != nil {
		return "", err
	}
	if !e.IsLink() {
		return "", pathError("readlink", p, syscall.EINVAL)
	}
	return e.Target, nil
}

// ReadFile is part of host.Root. The bytes are a copy.
func (t *Tree) ReadFile(p string) ([]byte, error) {
	e, err := t.find("open", p, true)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Mode.IsDir():
		return nil, pathError("read", p, syscall.EISDIR)
	case !e.Mode.IsRegular():
		return nil, pathError("open", p, syscall.ENXIO)
	}
	return slices.Clone(e.Data), nil
}

// ReadDir is part of host.Root.
func (t *Tree) ReadDir(p string) ([]string, error) {
	e, err := t.find("open", p, true)
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return nil, pathError("readdirent", p, syscall.ENOTDIR)
	}
	return e.Names(), nil
}

// Mkdir makes the directory p and its parents. A directory that is there already
// keeps its children and becomes 0perm root:root; so does one that a link at p
// leads to. Anything else at p is an error.
func (t *Tree) Mkdir(p string, perm fs.FileMode) error {
	old, err := t.find("mkdir", p, false)
	if err == nil && old.IsLink() {
		if old, err = t.find("mkdir", p, true); err != nil {
			return pathError("mkdir", p, syscall.EEXIST) // a dangling link
		}
	}
	switch {
	case err != nil:
		return t.put("mkdir", p, dir(perm)) // which reports what else is wrong
	case !old.Mode.IsDir():
		return pathError("mkdir", p, syscall.EEXIST)
	case old.Info == dir(perm).Info:
		return nil
	}
	if old, err = t.own(p, true); err == nil {
		old.Info = dir(perm).Info
	}
	return err
}

// WriteFile makes the regular file p. A link at p is replaced, not followed.
// The tree keeps data: do not change it afterwards.
func (t *Tree) WriteFile(p string, data []byte, perm fs.FileMode) error {
	return t.put("write", p, Entry{Info: host.Info{Mode: perm & host.Bits, Size: int64(len(data))}, Data: data})
}

// Symlink makes the link p. Its target is stored as given; as with symlink(2),
// an empty one is refused.
func (t *Tree) Symlink(p, target string) error {
	if target == "" {
		return pathError("symlink", p, syscall.ENOENT)
	}
	return t.put("symlink", p, Entry{Info: host.Info{Mode: fs.ModeSymlink | 0o777, Size: int64(len(target))}, Target: target})
}

// Mknod makes a device node. Its type must be device.Char or device.Block, its
// number within the limits of dev_t.
func (t *Tree) Mknod(n device.Node) error {
	if n.Type != device.Char && n.Type != device.Block || n.Num.Major > device.MaxMajor || n.Num.Minor > device.MaxMinor {
		return pathError("mknod", n.Path, syscall.EINVAL)
	}
	mode := n.Mode&host.Bits | fs.ModeDevice
	if n.Type == device.Char {
		mode |= fs.ModeCharDevice
	}
	return t.put("mknod", n.Path, Entry{Info: host.Info{Mode: mode, UID: n.UID, GID: n.GID, Num: n.Num}})
}

// Socket makes a socket.
func (t *Tree) Socket(p string, perm fs.FileMode) error {
	return t.put("mknod", p, Entry{Info: host.Info{Mode: fs.ModeSocket | perm&host.Bits}})
}

// Fifo makes a named pipe.
func (t *Tree) Fifo(p string, perm fs.FileMode) error {
	return t.put("mknod", p, Entry{Info: host.Info{Mode: fs.ModeNamedPipe | perm&host.Bits}})
}

// Chown changes the owner of p, no link followed.
func (t *Tree) Chown(p string, uid, gid uint32) error {
	_, err := t.find("lchown", p, false)
	if err != nil {
		return err
	}
	e, err := t.own(p, false)
	if err == nil {
		e.UID, e.GID = uid, gid
	}
	return err
}

// Chmod changes the permission bits of p, links followed.
func (t *Tree) Chmod(p string, perm fs.FileMode) error {
	_, err := t.find("chmod", p, true)
	if err != nil {
		return err
	}
	e, err := t.own(p, true)
	if err == nil {
		e.Mode = e.Mode.Type() | perm&host.Bits
	}
	return err
}

// Remove removes p and all below it, no link followed. A missing p is an error.
func (t *Tree) Remove(p string) error {
	p = path.Clean(p)
	if p == "/" {
		return pathError("remove", p, syscall.EBUSY)
	}
	parent, err := t.find("remove", path.Dir(p), true)
	if err != nil {
		return err
	}
	if !parent.Mode.IsDir() {
		return pathError("remove", p, syscall.ENOTDIR)
	}
	if _, ok := parent.Children[path.Base(p)]; !ok {
		return pathError("remove", p, syscall.ENOENT)
	}
	if parent, err = t.own(path.Dir(p), true); err != nil {
		return err
	}
	delete(parent.Children, path.Base(p))
	t.last.e = nil
	return nil
}

// Walk calls f for every path in lexical order, a directory before what is in
// it, the root first. It stops at the first error; fs.SkipDir leaves out what is
// in the directory, and is none.
func (t *Tree) Walk(f func(p string, e *Entry) error) error { return walk("/", t.root, f) }

func walk(p string, e *Entry, f func(string, *Entry) error) error {
	if err := f(p, e); err == fs.SkipDir && e.Mode.IsDir() {
		return nil
	} else if err != nil {
		return err
	}
	for _, name := range e.Names() {
		if err := walk(path.Join(p, name), e.Children[name], f); err != nil {
			return err
		}
	}
	return nil
}

// Clone returns a tree of its own. File contents are shared, which is safe:
// WriteFile replaces, it never changes bytes; and so is what is frozen.
func (t *Tree) Clone() *Tree {
	out := New()
	*out.root = out.clone(t.root)
	return out
}

func (t *Tree) clone(e *Entry) Entry {
	c := *e
	if e.Children != nil {
		c.Children = make(map[string]*Entry, len(e.Children))
		for name, child := range e.Children {
			if child.fixed == nil {
				child = t.keep(t.clone(child))
			}
			c.Children[name] = child
		}
	}
	c.fixed = nil
	return c
}

// Sum returns a digest (SHA-256, hex) of everything in the tree: paths, types,
// modes, owners, numbers, contents, link targets.
func (t *Tree) Sum() string {
	h := sha256.New()
	describe(h, "/", t.root)
	return hex.EncodeToString(h.Sum(nil))
}

// describe writes all of an entry.
func describe(h io.Writer, name string, e *Entry) {
	fmt.Fprintf(h, "%q %o %d %d %s %q %d %d\n", name, uint32(e.Mode), e.UID, e.GID, e.Num, e.Target, len(e.Data), e.Size)
	h.Write(e.Data)
	if e.Mode.IsDir() {
		sum := e.digest()
		h.Write(sum[:])
	}
}

// Nodes returns the device nodes below p, by path.
func (t *Tree) Nodes(p string) []device.Node {
	top, err := t.find("open", p, true)
	if err != nil {
		return nil
	}
	var out []device.Node
	_ = walk(p, top, func(at string, e *Entry) error {
		if e.IsDevice() {
			out = append(out, device.Node{Path: at, Type: e.DeviceType(), Num: e.Num, Mode: e.Mode & host.Bits, UID: e.UID, GID: e.GID})
		}
		return nil
	})
	slices.SortFunc(out, func(a, b device.Node) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
