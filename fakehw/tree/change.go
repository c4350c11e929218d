package tree

import (
	"path"
	"syscall"

	"gpurig/core/host"
)

// SetData replaces the contents of a regular file of its own tree and keeps mode and
// owner, as writing into it does. The entry keeps data: do not change it afterwards.
func (e *Entry) SetData(data []byte) {
	if e.fixed != nil {
		panic("tree: a change of what several trees have")
	}
	e.Data, e.Size = data, int64(len(data))
}

// SetData is that of the file that p leads to, links followed.
func (t *Tree) SetData(p string, data []byte) error {
	e, err := t.own(p, true)
	if err == nil && (e == nil || !e.Mode.IsRegular()) {
		err = syscall.EINVAL
	}
	if err != nil {
		return pathError("write", p, err)
	}
	e.SetData(data)
	return nil
}

// Rename moves what is at from to the path to, whose directory must exist. Links
// in directories are followed, links themselves are moved. As with rename(2), a
// file or link at to is replaced, and so is an empty directory by a directory.
func (t *Tree) Rename(from, to string) error {
	from, to = path.Clean(from), path.Clean(to)
	if _, err := t.find("rename", from, false); err != nil {
		return err
	}
	if _, err := t.find("rename", path.Dir(to), true); err != nil {
		return err
	}
	source, err := t.own(path.Dir(from), true)
	if err != nil {
		return err
	}
	target, err := t.own(path.Dir(to), true)
	if err != nil {
		return err
	}
	e := source.Children[path.Base(from)]
	if e == nil {
		e = t.root
	}
	if !target.Mode.IsDir() {
		return pathError("rename", to, syscall.ENOTDIR)
	}
	if from == "/" || to == "/" {
		return pathError("rename", from, syscall.EBUSY)
	}
	if contains(e, target) {
		return pathError("rename", to, syscall.EINVAL)
	}
	name := path.Base(to)
	if old := target.Children[name]; old != nil && old != e {
		switch {
		case old.Mode.IsDir() && !e.Mode.IsDir():
			return pathError("rename", to, syscall.EISDIR)
		case !old.Mode.IsDir() && e.Mode.IsDir():
			return pathError("rename", to, syscall.ENOTDIR)
		case len(old.Children) > 0:
			return pathError("rename", to, syscall.ENOTEMPTY)
		}
	}
	delete(source.Children, path.Base(from))
	t.last.e = nil
	target.Children[name] = e
	return nil
}

// contains reports whether dir is e or below it.
func contains(e, dir *Entry) bool {
	if e == dir {
		return true
	}
	for _, child := range e.Children {
		if child.Mode.IsDir() && contains(child, dir) {
			return true
		}
	}
	return false
}

// Follow returns what p leads to, every link followed.
func (t *Tree) Follow(p string) (*Entry, error) { return t.find("stat", p, true) }

// CreatePath returns where a file would be made that is opened as p: at the end
// of a dangling link, as open(2) does, with links in directories resolved. The
// directory must exist.
func (t *Tree) CreatePath(p string) (string, error) {
	for range host.MaxLinks {
		real, err := t.ResolvePath(p, false)
		if err != nil {
			return "", pathError("open", p, err)
		}
		up := t.direct(path.Dir(real))
		e := t.direct(real)
		switch {
		case up == nil:
			return "", pathError("open", p, syscall.ENOENT)
		case !up.Mode.IsDir():
			return "", pathError("open", p, syscall.ENOTDIR)
		case e == nil || !e.IsLink():
			return real, nil
		case path.IsAbs(e.Target):
			p = e.Target
		default:
			p = path.Dir(real) + "/" + e.Target
		}
	}
	return "", pathError("open", p, syscall.ELOOP)
}
