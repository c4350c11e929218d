// Package aferofs converts between trees and afero: New makes an afero.Fs
// of a tree, NewRoot makes a host.Root of any afero.Fs.
//
// Links and device nodes are preserved, which plain afero file systems do not
// promise: FileInfo.Sys holds a *syscall.Stat_t with owner and number, as for
// a real file.
package aferofs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"gpurig/fakehw/tree"
)

// An FS is a tree as afero sees it. It is safe for several goroutines, as long
// as nobody changes the tree beside it. Permission bits are kept but not
// enforced: it acts with root's rights. Files have no times: ModTime is the
// zero time, and Chtimes is not supported.
//
// Relative paths start at the root directory.
type FS struct {
	mu sync.RWMutex
	t  *tree.Tree
}

var (
	_ afero.Fs        = (*FS)(nil)
	_ afero.Symlinker = (*FS)(nil)
)

// New returns t as an afero.Fs. Writes change t.
func New(t *tree.Tree) *FS { return &FS{t: t} }

func clean(name string) string { return path.Join("/", name) }

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// follow returns the entry that name leads to, every link followed.
func (f *FS) follow(op, name string) (*tree.Entry, error) {
	e, err := f.t.Follow(clean(name))
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return nil, fail(op, name, err)
	}
	return e, nil
}

// Name is part of afero.Fs.
func (f *FS) Name() string { return "tree" }

// Create is part of afero.Fs.
func (f *FS) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open is part of afero.Fs.
func (f *FS) Open(name string) (afero.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is part of afero.Fs. Device nodes and sockets cannot be opened:
// ENXIO, as where their driver is absent.
func (f *FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, err := f.follow("open", name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		if e, err = f.create(name, perm); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, fail("open", name, syscall.EEXIST)
	}
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case e.Mode.IsDir() && writes:
		return nil, fail("open", name, syscall.EISDIR)
	case !e.Mode.IsDir() && !e.Mode.IsRegular():
		return nil, fail("open", name, syscall.ENXIO)
	}
	if writes {
		if e, err = f.t.Own(clean(name)); err != nil {
			return nil, fail("open", name, err)
		}
	}
	if flag&os.O_TRUNC != 0 && writes {
		e.SetData(nil)
	}
	return &file{fs: f, e: e, name: name, flag: flag}, nil
}

// create makes an empty file where open(2) would: at the end of a dangling
// link too.
func (f *FS) create(name string, perm os.FileMode) (*tree.Entry, error) {
	p, err := f.t.CreatePath(clean(name))
	if err == nil {
		err = f.t.WriteFile(p, nil, perm)
	}
	if err != nil {
		return nil, fail("open", name, reason(err))
	}
	return f.follow("open", name)
}

// reason takes the bare error out of a tree's.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Mkdir is part of afero.Fs.
func (f *FS) Mkdir(name string, perm os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := clean(name)
	if _, err := f.t.Entry(p); err == nil {
		return fail("mkdir", name, syscall.EEXIST)
	}
	up, err := f.follow("mkdir", path.Dir(p))
	switch {
	case err != nil:
		return fail("mkdir", name, reason(err))
	case !up.Mode.IsDir():
		return fail("mkdir", name, syscall.ENOTDIR)
	}
	return f.t.Mkdir(p, perm)
}

// MkdirAll is part of afero.Fs.
func (f *FS) MkdirAll(name string, perm os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mkdirAll(name, clean(name), perm)
}

func (f *FS) mkdirAll(name, p string, perm os.FileMode) error {
	if e, err := f.t.Follow(p); err == nil {
		if !e.Mode.IsDir() {
			return fail("mkdir", name, syscall.ENOTDIR)
		}
		return nil
	}
	if err := f.mkdirAll(name, path.Dir(p), perm); err != nil {
		return err
	}
	return f.t.Mkdir(p, perm)
}

// Remove is part of afero.Fs. A directory must be empty.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := clean(name)
	e, err := f.t.Entry(p)
	switch {
	case err != nil:
		return fail("remove", name, reason(err))
	case len(e.Children) > 0:
		return fail("remove", name, syscall.ENOTEMPTY)
	}
	return f.t.Remove(p)
}

// RemoveAll is part of afero.Fs.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.t.Remove(clean(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Rename is part of afero.Fs.
func (f *FS) Rename(oldname, newname string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.t.Rename(clean(oldname), clean(newname)); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: reason(err)}
	}
	return nil
}

// Stat is part of afero.Fs.
func (f *FS) Stat(name string) (os.FileInfo, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	e, err := f.follow("stat", name)
	if err != nil {
		return nil, err
	}
	return newInfo(path.Base(clean(name)), e), nil
}

// LstatIfPossible is part of afero.Lstater. It is always possible.
func (f *FS) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	p := clean(name)
	e, err := f.t.Entry(p)
	if err != nil {
		return nil, true, fail("lstat", name, reason(err))
	}
	return newInfo(path.Base(p), e), true, nil
}

// ReadlinkIfPossible is part of afero.LinkReader.
func (f *FS) ReadlinkIfPossible(name string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	target, err := f.t.Readlink(clean(name))
	if err != nil {
		return "", fail("readlink", name, reason(err))
	}
	return target, nil
}

// SymlinkIfPossible is part of afero.Linker: newname becomes a link to oldname.
func (f *FS) SymlinkIfPossible(oldname, newname string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := clean(newname)
	bad := func(err error) error {
		return &os.LinkError{Op: "symlink", Old: oldname, New: newname, Err: reason(err)}
	}
	if _, err := f.t.Entry(p); err == nil {
		return bad(syscall.EEXIST)
	}
	if _, err := f.t.Follow(path.Dir(p)); err != nil {
		return bad(err)
	}
	if err := f.t.Symlink(p, oldname); err != nil {
		return bad(err)
	}
	return nil
}

// Chmod is part of afero.Fs.
func (f *FS) Chmod(name string, mode os.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.t.Chmod(clean(name), mode)
}

// Chown is part of afero.Fs. As with chown(2), links are followed and -1 keeps.
func (f *FS) Chown(name string, uid, gid int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.follow("chown", name); err != nil {
		return err
	}
	e, err := f.t.Own(clean(name))
	if err != nil {
		return fail("chown", name, err)
	}
	if uid >= 0 {
		e.UID = uint32(uid)
	}
	if gid >= 0 {
		e.GID = uint32(gid)
	}
	return nil
}

// Chtimes is part of afero.Fs. A tree has no times: it always refuses.
func (f *FS) Chtimes(name string, _, _ time.Time) error {
	return fail("chtimes", name, errors.ErrUnsupported)
}
