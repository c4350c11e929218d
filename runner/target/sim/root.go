package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/hookspec"
	"gpurig/fakehw/tree"
	"gpurig/hook/inroot"
	"gpurig/hook/stage"
)

// A root is a space as the hook works in it. It answers as inroot.Root does: reads
// are made with the ids of the container's root and no rights over modes, and cross
// the plan's own mounts, of which there are no others; changes are made on the container's own file systems alone, the
// root and the fresh /dev, and their paths cross no other.
type root struct {
	*mountNS
	uid   uint32         // of the container's root, as the file system has it
	owner hookspec.Owner // and as the host has it
}

var _ stage.Root = root{}

// reach walks to p. It must be permitted to read it, or, for want 0, to find it: the
// folders on the way must let pass.
func (r root) reach(op, p string, follow bool, want uint32) (source, error) {
	real, at, via, err := r.find(op, p, follow)
	if err == nil && !(r.may(at, via, want) && (real == "/" || r.passes(parent(real)))) {
		err = &fs.PathError{Op: op, Path: p, Err: syscall.EACCES}
	}
	return at, err
}

// parent is path.Dir of a clean path.
func parent(p string) string { return p[:max(strings.LastIndexByte(p, '/'), 1)] }

// may reports whether the container's root has these bits of access.
func (r root) may(at source, via *mount, want uint32) bool {
	i, own := at.info(), r.owner
	if via.own {
		own = hookspec.Owner{UID: r.uid, GID: r.uid}
	}
	bits := uint32(i.Mode.Perm())
	switch {
	case i.UID == own.UID:
		bits >>= 6
	case i.GID == own.GID:
		bits >>= 3
	}
	return bits&want == want
}

// passes reports whether a directory, a path without links, lets pass to what is in it.
func (r root) passes(dir string) bool {
	ok, known := r.passable[dir]
	if !known {
		at, via, _ := r.direct(dir)
		ok = r.may(at, via, 1) && (dir == "/" || r.passes(parent(dir)))
		if r.passable != nil {
			r.passable[dir] = ok
		}
	}
	return ok
}

func (r root) Readlink(p string) (string, error) {
	at, err := r.reach("readlink", p, false, 0)
	if err == nil && !at.info().IsLink() {
		err = &fs.PathError{Op: "readlink", Path: p, Err: syscall.EINVAL}
	}
	if err != nil {
		return "", err
	}
	return at.readlink(), nil
}

func (r root) Lstat(p string) (inroot.Info, error) {
	at, err := r.reach("lstat", p, false, 0)
	if err != nil {
		return inroot.Info{}, err
	}
	i := at.info()
	return inroot.Info{Mode: i.Mode, Size: i.Size, UID: i.UID, GID: i.GID, Ino: at.ino()}, nil
}

func (r root) ReadFile(p string, limit int64) ([]byte, error) {
	at, err := r.reach("open", p, true, 4)
	if err != nil {
		return nil, err
	}
	data, err := head(p, at, -1)
	if err == nil && int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: inroot.ErrLimit}
	}
	return data, err
}

func (r root) OpenFile(p string) (inroot.File, error) {
	data, err := r.ReadFile(p, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return file{bytes.NewReader(data)}, nil
}

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

func (r root) ReadDir(p string, limit int) ([]string, error) {
	at, err := r.reach("open", p, true, 0)
	if err == nil && !at.info().Mode.IsDir() { // which is told first
		err = &fs.PathError{Op: "readdirent", Path: p, Err: syscall.ENOTDIR}
	}
	if err == nil {
		at, err = r.reach("open", p, true, 4)
	}
	if err != nil {
		return nil, err
	}
	names := at.names()
	if len(names) > limit {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: inroot.ErrLimit}
	}
	return names, nil
}

// anchor is the mount that p is changed on.
func (r root) anchor(p string) *mount {
	if dev := r.top["/dev"]; dev != nil && strings.HasPrefix(p, "/dev/") {
		return dev
	}
	return r.top["/"]
}

func (r root) OnDev(p string) (bool, error) { return r.anchor(p).target == "/dev", nil }

// Missing is inroot.Root.Missing.
func (r root) Missing(p string) ([]string, error) {
	var out []string
	for m := r.anchor(p); p != m.target; p = path.Dir(p) {
		if _, err := r.Resolve(p); !notExist(err) {
			break
		}
		out = append(out, p)
	}
	slices.Reverse(out)
	return out, nil
}

// folder opens the directory p of the mount m for changes in it, and makes it and
// its parents where they are missing if that is wanted.
func (r root) folder(m *mount, p string, create bool) (d folder, err error) {
	real, at, via, err := r.on(m, "open", p, true)
	switch {
	case create && p != m.target && notExist(err):
		up, old, err := r.parent(p, true)
		if err == nil && old != nil {
			err = &fs.PathError{Op: "mkdir", Path: p, Err: fmt.Errorf("a dangling link of the image is there: %w", inroot.ErrInTheWay)}
		}
		if err == nil {
			err = r.changing(up, func() error { return up.put(path.Base(p), newDir(r.uid)) })
		}
		if err != nil {
			return d, err
		}
		return r.folder(m, p, false)
	case err != nil:
		return d, err
	case via != m || !m.own:
		return d, &fs.PathError{Op: "open", Path: p, Err: errMount}
	case !at.info().Mode.IsDir():
		return d, &fs.PathError{Op: "open", Path: p, Err: syscall.ENOTDIR}
	}
	return folder{at.(entry).e, real, slices.Contains(m.flags, "ro")}, nil
}

var errMount = fmt.Errorf("%w (%w)", inroot.ErrMount, syscall.EXDEV)

// parent opens the directory of p for changes in it and returns what is at p.
func (r root) parent(p string, create bool) (folder, *tree.Entry, error) {
	i := strings.LastIndexByte(p, '/')
	d, err := r.folder(r.anchor(p), p[:max(i, 1)], create)
	if err == nil && r.top[strings.TrimSuffix(d.path, "/")+p[i:]] != nil {
		err = &fs.PathError{Op: "open", Path: p, Err: errMount}
	}
	if err != nil {
		return d, nil, err
	}
	return d, d.child(p[i+1:]), nil
}

// put makes e at p, in a directory that is made where it is missing, unless what
// is there stays or does not give way.
func (r root) put(p string, e *tree.Entry, judge func(old *tree.Entry) (inroot.Change, error)) (res inroot.Result, err error) {
	d, old, err := r.parent(p, true)
	if err != nil {
		return res, err
	}
	res.Change = inroot.Made
	if old != nil {
		if res.Change, err = judge(old); err != nil || res.Change == inroot.Kept {
			return res, err
		}
	}
	return res, r.changing(d, func() error { return d.put(path.Base(p), e) })
}

// changing makes one change in a directory: of the container's root, or of anybody's
// where no ids are mapped, whatever its mode.
func (r root) changing(d folder, change func() error) error {
	if r.owner != (hookspec.Owner{}) && d.e.UID != r.uid && d.e.Mode&0o002 == 0 {
		return &fs.PathError{Op: "open", Path: d.path, Err: syscall.EACCES}
	}
	return change()
}

func inTheWay(op, p, what string) error {
	return &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("the container has %s there: %w", what, inroot.ErrInTheWay)}
}

func (r root) MountPoint(p string, dir bool) (inroot.Result, error) {
	if dir {
		_, err := r.folder(r.anchor(p), p, true)
		return inroot.Result{}, err
	}
	return r.put(p, newFile(nil, 0o644, r.uid), func(old *tree.Entry) (inroot.Change, error) {
		switch {
		case old.Mode.IsDir():
			return 0, inTheWay("mount point", p, "a directory")
		case old.IsLink():
			return inroot.Replaced, nil
		}
		return inroot.Kept, nil
	})
}

func (r root) Symlink(p, text string) (inroot.Result, error) {
	return r.put(p, newLink(text, r.uid), func(old *tree.Entry) (inroot.Change, error) {
		switch {
		case !old.IsLink():
			return 0, inTheWay("symlink", p, "a file or directory of its own")
		case old.Target == text:
			return inroot.Kept, nil
		}
		return inroot.Replaced, nil
	})
}

func (r root) WriteFile(p string, data []byte, as inroot.Attr) (inroot.Result, error) {
	file := newFile(data, cmp.Or(as.Perm, 0o644), r.uid)
	if as.Owner != nil {
		file.UID, file.GID = as.Owner.UID, as.Owner.GID
	}
	return r.put(p, file, func(old *tree.Entry) (inroot.Change, error) {
		switch {
		case !old.Mode.IsRegular() && !old.IsLink():
			return 0, inTheWay("write", p, "something that is no file")
		case old.Mode == file.Mode && old.UID == file.UID && old.GID == file.GID && bytes.Equal(old.Data, data):
			return inroot.Kept, nil
		}
		return inroot.Replaced, nil
	})
}

func (r root) Chmod(p string, perm fs.FileMode) error {
	_, e, err := r.parent(p, false)
	switch {
	case err != nil:
		return err
	case e == nil:
		return &fs.PathError{Op: "chmod", Path: p, Err: syscall.ENOENT}
	case !e.Mode.IsDir() && e.Mode.Type() != fs.ModeDevice|fs.ModeCharDevice:
		return &fs.PathError{Op: "chmod", Path: p, Err: errors.New("neither a directory nor a character device")}
	}
	e.Mode = e.Mode.Type() | perm.Perm()
	return nil
}

// removeIf removes what is at p if it is ours. Where nothing of ours can be is no error.
func (r root) removeIf(p string, ours func(*tree.Entry) bool) (bool, error) {
	d, e, err := r.parent(p, false)
	if inroot.OfTheImage(err) || err == nil && (e == nil || !ours(e)) {
		return false, nil
	}
	if err == nil {
		err = r.changing(d, func() error { return d.remove(path.Base(p)) })
	}
	return err == nil, err
}

func (r root) RemoveLink(p string, texts ...string) (bool, error) {
	return r.removeIf(p, func(e *tree.Entry) bool { return e.IsLink() && slices.Contains(texts, e.Target) })
}

func (r root) RemoveEmpty(p string, isDir bool) (bool, error) {
	return r.removeIf(p, func(e *tree.Entry) bool {
		if isDir {
			return e.Mode.IsDir() && len(e.Children) == 0
		}
		return e.Mode.IsRegular() && len(e.Data) == 0
	})
}

func (r root) RemoveFile(p string, limit int64, same func([]byte) bool) (bool, error) {
	return r.removeIf(p, func(e *tree.Entry) bool {
		return e.Mode.IsRegular() && int64(len(e.Data)) <= limit && same(e.Data)
	})
}

func (root) Sweep(string) (int, error) { return 0, nil } // no run is killed here
func (root) Sync() error               { return nil }
