package inroot

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// tempPrefix starts every temporary name; a tag and something random follow, so
// that the image cannot put something there beforehand.
const tempPrefix = ".cdi-hook-"

const tempLength = len(tempPrefix) + 8 + 16

func (r *Root) tempName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the program instead
	return tempPrefix + r.tag + hex.EncodeToString(b[:])
}

// isTemp reports whether name is that of a temporary of ours.
func (r *Root) isTemp(name string) bool {
	return len(name) == tempLength && strings.HasPrefix(name, tempPrefix+r.tag)
}

// Symlink makes the link p with the given text. An equal link is kept without a
// write; another link is replaced; anything else in its place is ErrInTheWay.
func (r *Root) Symlink(p, text string) (Result, error) {
	return r.within(p, func(a *Root, q string) (Result, error) { return a.symlink(q, text) })
}

func (r *Root) symlink(p, text string) (Result, error) {
	dir, made, err := r.parentOf(p)
	if err != nil {
		return Result{Dirs: made}, err
	}
	defer unix.Close(dir)
	res := Result{Dirs: made, Change: Made}
	name := path.Base(p)
	switch old, err := calls.Readlinkat(dir, name); {
	case err == nil && old == text && r.linkIs(p, text):
		res.Change = Kept
		return res, nil
	case err == nil:
		res.Change = Replaced
	case err == unix.EINVAL:
		return res, &fs.PathError{Op: "symlink", Path: p, Err: fmt.Errorf("the container has a file or directory of its own there: %w", ErrInTheWay)}
	case err != unix.ENOENT:
		return res, explain("readlink", p, err)
	}
	temp := r.tempName()
	err = r.changing(dir, func() error { return unix.Symlinkat(text, dir, temp) })
	if err == nil {
		err = r.adopt(dir, temp, unix.S_IFLNK)
	}
	if err == nil {
		err = r.moveIn(dir, temp, p)
	}
	if err != nil {
		r.unlink(dir, temp, 0)
	}
	return res, explain("symlink", p, err)
}

// moveIn puts the finished temporary in its place.
func (r *Root) moveIn(dir int, temp, p string) error {
	r.unsynced[path.Dir(p)] = true
	return r.changing(dir, func() error { return unix.Renameat(dir, temp, dir, path.Base(p)) })
}

// linkIs reports whether the link p is there with that text, on our own mount.
func (r *Root) linkIs(p, text string) bool {
	fd, err := r.find(p, unix.O_NOFOLLOW, sameMount)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	old, err := calls.Readlinkat(fd, "")
	return err == nil && old == text
}

// An Attr is the permission bits of a file and whose it is. The zero Attr is 0644, of
// the container's root.
type Attr struct {
	Perm  fs.FileMode `json:"perm,omitempty"`
	Owner *Owner      `json:"owner,omitempty"`
}

// nobody is also the owner that an id map shows for one who is not in it, and no file
// becomes that user's.
const nobody = 65534

func (r *Root) complete(a Attr) (fs.FileMode, Owner) {
	owner := r.owner
	if a.Owner != nil && a.Owner.UID != nobody && a.Owner.GID != nobody {
		owner = *a.Owner
	}
	return cmp.Or(a.Perm.Perm(), 0o644), owner
}

// WriteFile gives the regular file p these contents and attributes. An
// equal file is kept without a write. Old and new are never mixed: the new file
// is complete, synced and its owner's before it takes the
// name. A link in its place is replaced, never followed.
func (r *Root) WriteFile(p string, data []byte, as Attr) (Result, error) {
	return r.within(p, func(a *Root, q string) (Result, error) { return a.writeFile(q, data, as) })
}

func (r *Root) writeFile(p string, data []byte, as Attr) (Result, error) {
	if r.fileIs(p, data, as) {
		return Result{Change: Kept}, nil
	}
	dir, made, err := r.parentOf(p)
	res := Result{Dirs: made, Change: Made}
	if err != nil {
		return res, err
	}
	defer unix.Close(dir)
	fd, st, err := r.child(dir, path.Base(p)) // a mount there would go with what it is on
	if err == nil {
		unix.Close(fd)
	}
	switch {
	case err == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFLNK):
		res.Change = Replaced
	case err == nil:
		return res, &fs.PathError{Op: "write", Path: p, Err: fmt.Errorf("the container has something there that is no file: %w", ErrInTheWay)}
	case err != unix.ENOENT:
		return res, explain("stat", p, err)
	}
	return res, explain("write", p, r.put(dir, p, data, as))
}

// put writes a temporary beside p and moves it in.
func (r *Root) put(dir int, p string, data []byte, as Attr) error {
	temp := r.tempName()
	err := r.writeTemp(dir, temp, data, as)
	if err == nil {
		err = r.moveIn(dir, temp, p)
	}
	if err != nil {
		r.unlink(dir, temp, 0)
	}
	return err
}

func (r *Root) writeTemp(dir int, temp string, data []byte, as Attr) error {
	var fd int
	err := r.changing(dir, func() (err error) {
		fd, err = calls.Create(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.Write(data)
	perm, owner := r.complete(as)
	if err == nil {
		err = f.Chown(int(r.owner.UID), int(r.owner.GID))
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil && owner != r.owner {
		err = giveTo(f, owner)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := calls.Closed(f.Close()); err == nil {
		err = cerr
	}
	return cause(err)
}

// fileIs reports whether p itself is a regular file on our mount with these
// contents, bits and owner.
func (r *Root) fileIs(p string, data []byte, as Attr) bool {
	perm, owner := r.complete(as)
	fd, err := r.find(p, unix.O_NOFOLLOW, sameMount)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if calls.Fstat(fd, &st) != nil || st.Size != int64(len(data)) || st.Mode&0o7777 != uint32(perm) ||
		st.Uid != owner.UID || st.Gid != owner.GID {
		return false
	}
	f, st, err := openFD(fd)
	if err != nil {
		return false
	}
	defer f.Close()
	old, err := readAll(f, p, st.Size, int64(len(data)))
	return err == nil && bytes.Equal(old, data)
}

// MountPoint makes an empty file or a directory at p for something to be
// mounted on. What is there already is kept if it is of that type; a link is
// replaced (mounting would refuse it).
func (r *Root) MountPoint(p string, isDir bool) (Result, error) {
	if isDir {
		return r.MkdirAll(p)
	}
	return r.within(p, func(a *Root, q string) (Result, error) { return a.mountPoint(q) })
}

func (r *Root) mountPoint(p string) (Result, error) {
	dir, made, err := r.parentOf(p)
	res := Result{Dirs: made, Change: Made}
	if err != nil {
		return res, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	switch err := calls.Lstatat(dir, path.Base(p), &st); {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return res, &fs.PathError{Op: "mount point", Path: p, Err: fmt.Errorf("the container has a directory there, a file shall be mounted: %w", ErrInTheWay)}
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK:
		res.Change = Kept
		return res, nil
	case err == nil:
		res.Change = Replaced
	case err != unix.ENOENT:
		return res, explain("stat", p, err)
	}
	return res, explain("mount point", p, r.put(dir, p, nil, Attr{}))
}
