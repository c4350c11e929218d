package inroot

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix starts every temporary name; what follows is random, so that the
// image cannot put something there beforehand.
const tempPrefix = ".cdi-hook-"

func tempName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the program instead
	return tempPrefix + hex.EncodeToString(b[:])
}

// A Change says what came of a request to make something.
type Change int

// What came of it.
const (
	Kept     Change = iota // it was there already, nothing was written
	Made                   // it is new
	Replaced               // something of the image's, or of an earlier run, gave way
)

// anchor returns the root to change p in, and p as seen from there. Below /dev
// that may be the fresh tmpfs which a container manager mounts there: the one
// mount that changes may go through, since it is the container's own and empty
// of the image's doing. Anything else mounted on /dev is refused later, by
// RESOLVE_NO_XDEV.
func (r *Root) anchor(p string) (*Root, string, error) {
	rest, ok := strings.CutPrefix(p, "/dev/")
	if !ok || r.beneath {
		return r, p, nil
	}
	if r.dev != nil {
		return r.dev, "/" + rest, nil
	}
	fd, err := r.open("/dev", unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, anyMount)
	if err != nil {
		if err == unix.ENOENT {
			return r, p, nil
		}
		return nil, "", explain("open", "/dev", err)
	}
	id, err := mountID(fd)
	if err != nil || id == r.mount {
		unix.Close(fd)
		return r, p, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		unix.Close(fd)
		return nil, "", &fs.PathError{Op: "open", Path: "/dev", Err: fmt.Errorf("what is mounted there is not a fresh tmpfs: %w", ErrMount)}
	}
	r.dev = &Root{fd: fd, mount: id, name: r.name + "/dev", owner: r.owner, walk: r.walk, beneath: true}
	return r.dev, "/" + rest, nil
}

// openDir opens the directory p for changes in it.
func (r *Root) openDir(p string) (int, error) {
	return r.open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, sameMount)
}

// MkdirAll makes the directory p and its parents, 0755, owned by the container's
// root, and returns the paths of those that it made, outermost first.
func (r *Root) MkdirAll(p string) ([]string, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return nil, err
	}
	var made []string
	mkdir := func() (err error) {
		made, err = a.mkdirAll(q)
		return err
	}
	if a == r {
		err := mkdir()
		return made, err
	}
	err = r.asOwner(mkdir)
	prefix := strings.TrimSuffix(p, q) // "/dev" for the second anchor
	for i := range made {
		made[i] = prefix + made[i]
	}
	return made, err
}

func (r *Root) mkdirAll(p string) ([]string, error) {
	fd, err := r.openDir(p)
	if err == nil {
		return nil, unix.Close(fd)
	}
	if err != unix.ENOENT || p == "/" {
		return nil, explain("open", p, err)
	}
	made, err := r.mkdirAll(path.Dir(p))
	if err != nil {
		return made, err
	}
	parent, err := r.openDir(path.Dir(p))
	if err != nil {
		return made, explain("open", path.Dir(p), err)
	}
	defer unix.Close(parent)
	name := path.Base(p)
	switch err := unix.Mkdirat(parent, name, 0o755); err {
	case nil:
		if err := r.giveAway(parent, name); err != nil {
			return made, explain("chown", p, err)
		}
		return append(made, p), nil
	case unix.EEXIST: // made by somebody else since, or a link that leads nowhere
		fd, err := r.openDir(p)
		if err == unix.ENOENT {
			return made, &fs.PathError{Op: "mkdir", Path: p, Err: fmt.Errorf("a dangling link of the image is there: %w", ErrInTheWay)}
		}
		if err != nil {
			return made, explain("open", p, err)
		}
		return made, unix.Close(fd)
	default:
		return made, explain("mkdir", p, err)
	}
}

// giveAway makes the container's root the owner of a new entry.
func (r *Root) giveAway(dir int, name string) error {
	if r.owner.UID == uint32(os.Geteuid()) && r.owner.GID == uint32(os.Getegid()) {
		return nil
	}
	return unix.Fchownat(dir, name, int(r.owner.UID), int(r.owner.GID), unix.AT_SYMLINK_NOFOLLOW)
}

// parentOf opens the directory of p for changes, making it where it is missing.
func (r *Root) parentOf(p string) (dir int, made []string, err error) {
	if made, err = r.mkdirAll(path.Dir(p)); err != nil {
		return -1, made, err
	}
	dir, err = r.openDir(path.Dir(p))
	return dir, made, explain("open", path.Dir(p), err)
}

// A Result is what a change left behind: the directories that were made for it,
// outermost first, and what came of the object itself.
type Result struct {
	Dirs   []string
	Change Change
}

// within runs f with the anchor of p and gives directory names back their
// prefix.
func (r *Root) within(p string, f func(a *Root, q string) (Result, error)) (Result, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return Result{}, err
	}
	var res Result
	if a == r {
		return f(a, q)
	}
	err = r.asOwner(func() error {
		var err error
		res, err = f(a, q)
		return err
	})
	for i := range res.Dirs {
		res.Dirs[i] = "/dev" + res.Dirs[i]
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		pe.Path = "/dev" + pe.Path
	}
	return res, err
}

// asOwner runs f with the container root's ids for file access: the tmpfs on /dev
// of a container with an idmap refuses new files of an owner that the idmap does
// not know (EOVERFLOW), the host's root among them.
func (r *Root) asOwner(f func() error) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid != 0 || r.owner == (Owner{}) {
		return f()
	}
	runtime.LockOSThread() // these ids belong to one thread
	defer runtime.UnlockOSThread()
	unix.Setfsgid(int(r.owner.GID))
	unix.Setfsuid(int(r.owner.UID))
	defer func() {
		unix.Setfsuid(uid)
		unix.Setfsgid(gid)
	}()
	return f()
}

// Symlink makes the link p with the given text. An equal link is kept without a
// write; another link is replaced; anything else in its place is ErrInTheWay.
func (r *Root) Symlink(p, text string) (Result, error) {
	return r.within(p, func(a *Root, q string) (Result, error) { return a.symlink(q, text) })
}

func (r *Root) symlink(p, text string) (Result, error) {
	if r.linkIs(p, text) {
		return Result{Change: Kept}, nil
	}
	dir, made, err := r.parentOf(p)
	if err != nil {
		return Result{Dirs: made}, err
	}
	defer unix.Close(dir)
	res := Result{Dirs: made, Change: Made}
	name := path.Base(p)
	switch old, err := readlinkat(dir, name); {
	case err == nil && old == text:
		res.Change = Kept
		return res, nil
	case err == nil:
		res.Change = Replaced
	case err == unix.EINVAL:
		return res, &fs.PathError{Op: "symlink", Path: p, Err: fmt.Errorf("the container has a file or directory of its own there: %w", ErrInTheWay)}
	case err != unix.ENOENT:
		return res, explain("readlink", p, err)
	}
	temp := tempName()
	if err := unix.Symlinkat(text, dir, temp); err != nil {
		return res, explain("symlink", p, err)
	}
	if err := r.giveAway(dir, temp); err != nil {
		unix.Unlinkat(dir, temp, 0)
		return res, explain("chown", p, err)
	}
	return res, r.moveIn(dir, temp, name, p)
}

// moveIn puts the finished temporary in its place and makes that durable.
func (r *Root) moveIn(dir int, temp, name, p string) error {
	if err := unix.Renameat(dir, temp, dir, name); err != nil {
		unix.Unlinkat(dir, temp, 0)
		return explain("rename", p, err)
	}
	if err := unix.Fsync(dir); err != nil && err != unix.EINVAL { // EINVAL: a file system without fsync of directories
		return explain("fsync", path.Dir(p), err)
	}
	return nil
}

// linkIs reports whether the link p is there with that text, on our own mount.
func (r *Root) linkIs(p, text string) bool {
	fd, err := r.open(p, unix.O_PATH|unix.O_NOFOLLOW, sameMount)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	old, err := readlinkat(fd, "")
	return err == nil && old == text
}

// WriteFile gives the regular file p these contents and permission bits. An
// equal file is kept without a write. Old and new are never mixed: the new file
// is complete, synced and owned by the container's root before it takes the
// name. A link in its place is replaced, never followed.
func (r *Root) WriteFile(p string, data []byte, perm fs.FileMode) (Result, error) {
	return r.within(p, func(a *Root, q string) (Result, error) { return a.writeFile(q, data, perm) })
}

func (r *Root) writeFile(p string, data []byte, perm fs.FileMode) (Result, error) {
	if r.fileIs(p, data, perm) {
		return Result{Change: Kept}, nil
	}
	dir, made, err := r.parentOf(p)
	res := Result{Dirs: made, Change: Made}
	if err != nil {
		return res, err
	}
	defer unix.Close(dir)
	name := path.Base(p)
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFLNK):
		res.Change = Replaced
	case err == nil:
		return res, &fs.PathError{Op: "write", Path: p, Err: fmt.Errorf("the container has something there that is no file: %w", ErrInTheWay)}
	case err != unix.ENOENT:
		return res, explain("stat", p, err)
	}
	temp := tempName()
	if err := r.writeTemp(dir, temp, data, perm); err != nil {
		unix.Unlinkat(dir, temp, 0)
		return res, explain("write", p, err)
	}
	return res, r.moveIn(dir, temp, name, p)
}

func (r *Root) writeTemp(dir int, temp string, data []byte, perm fs.FileMode) error {
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.Write(data)
	if err == nil {
		err = unix.Fchmod(fd, uint32(perm.Perm()))
	}
	if err == nil && (r.owner.UID != uint32(os.Geteuid()) || r.owner.GID != uint32(os.Getegid())) {
		err = unix.Fchown(fd, int(r.owner.UID), int(r.owner.GID))
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// fileIs reports whether p itself is a regular file on our mount with these
// contents, bits and owner.
func (r *Root) fileIs(p string, data []byte, perm fs.FileMode) bool {
	fd, err := r.open(p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, sameMount)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), p)
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(data)) ||
		fs.FileMode(st.Mode).Perm() != perm.Perm() || st.Uid != r.owner.UID || st.Gid != r.owner.GID {
		return false
	}
	old := make([]byte, len(data)+1)
	n := 0
	for n < len(old) {
		k, err := f.Read(old[n:])
		n += k
		if err != nil || k == 0 {
			break
		}
	}
	return n == len(data) && bytes.Equal(old[:n], data)
}

// MountPoint makes an empty file or a directory at p for something to be
// mounted on. What is there already is kept if it is of that type; a link is
// replaced (mounting would refuse it).
func (r *Root) MountPoint(p string, isDir bool) (Result, error) {
	return r.within(p, func(a *Root, q string) (Result, error) { return a.mountPoint(q, isDir) })
}

func (r *Root) mountPoint(p string, isDir bool) (Result, error) {
	if isDir {
		made, err := r.mkdirAll(p)
		res := Result{Dirs: made, Change: Kept}
		if err == nil && len(made) > 0 {
			res.Change, res.Dirs = Made, made[:len(made)-1]
		}
		return res, err
	}
	dir, made, err := r.parentOf(p)
	res := Result{Dirs: made, Change: Made}
	if err != nil {
		return res, err
	}
	defer unix.Close(dir)
	name := path.Base(p)
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
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
	temp := tempName()
	if err := r.writeTemp(dir, temp, nil, 0o644); err != nil {
		unix.Unlinkat(dir, temp, 0)
		return res, explain("write", p, err)
	}
	return res, r.moveIn(dir, temp, name, p)
}

// Chmod sets the permission bits of a directory or character node below /dev.
// Nothing else is touched, and no bit above 0777 is ever set.
func (r *Root) Chmod(p string, perm fs.FileMode) error {
	if !strings.HasPrefix(p, "/dev/") || perm&^0o777 != 0 {
		return &fs.PathError{Op: "chmod", Path: p, Err: errors.New("only permission bits below /dev can be changed")}
	}
	a, q, err := r.anchor(p)
	if err != nil {
		return err
	}
	fd, err := a.open(q, unix.O_PATH|unix.O_NOFOLLOW, sameMount)
	if err != nil {
		return explain("chmod", p, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return explain("chmod", p, err)
	}
	if t := st.Mode & unix.S_IFMT; t != unix.S_IFDIR && t != unix.S_IFCHR {
		return &fs.PathError{Op: "chmod", Path: p, Err: errors.New("neither a directory nor a character device")}
	}
	if fs.FileMode(st.Mode).Perm() == perm {
		return nil
	}
	// fchmod refuses O_PATH; the host's /proc/self/fd leads to the same inode.
	dir, err := hostProc()
	if err != nil {
		return explain("chmod", p, err)
	}
	return explain("chmod", p, unix.Fchmodat(dir, fmt.Sprint(fd), uint32(perm), 0))
}
