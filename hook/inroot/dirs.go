package inroot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// A Change says what came of a request to make something.
type Change int

// What came of it.
const (
	Kept     Change = iota // it was there already, nothing was written
	Made                   // it is new
	Replaced               // something of the image's, or of an earlier run, gave way
)

// A Result is what a change left behind: the directories that were made for it,
// outermost first, and what came of the object itself.
type Result struct {
	Dirs   []string
	Change Change
}

// anchor returns the root to change p in, and p as seen from there. Below /dev
// that may be the fresh tmpfs which a container manager mounts there: the one
// mount that changes may go through, since it is the container's own and empty
// of the image's doing. Anything else mounted on /dev is refused: the host's own
// /dev, bound there, looks like a tmpfs too, but the host has it mounted as well.
func (r *Root) anchor(p string) (*Root, string, error) {
	rest, ok := strings.CutPrefix(p, "/dev/")
	if !ok || r.beneath {
		return r, p, nil
	}
	if r.dev != nil {
		return r.dev, "/" + rest, nil
	}
	fd, err := r.find("/dev", unix.O_NOFOLLOW|unix.O_DIRECTORY, anyMount)
	if err == unix.ENOENT {
		return r, p, nil
	}
	if err != nil {
		return nil, "", explain("open", "/dev", err)
	}
	id, err := mountID(fd)
	if err != nil || id == r.mount {
		unix.Close(fd)
		return r, p, err
	}
	if why := r.notFresh(fd, id); why != nil {
		unix.Close(fd)
		return nil, "", &fs.PathError{Op: "open", Path: "/dev", Err: fmt.Errorf("%w: %w", why, ErrMount)}
	}
	r.dev = &Root{fd: fd, mount: id, name: r.name + "/dev", owner: r.owner, tag: r.tag, walk: r.walk, mapped: r.mapped, beneath: true, unsynced: map[string]bool{}}
	return r.dev, "/" + rest, nil
}

// notFresh says why what is mounted on /dev is not a tmpfs of the container's own.
func (r *Root) notFresh(fd int, id uint64) error {
	var sfs unix.Statfs_t
	if err := calls.Again(func() error { return unix.Fstatfs(fd, &sfs) }); err != nil {
		return err
	}
	if sfs.Type != unix.TMPFS_MAGIC {
		return errors.New("what is mounted there is not a fresh tmpfs")
	}
	var st unix.Stat_t
	if err := calls.Fstat(fd, &st); err != nil {
		return err
	}
	shared, err := mountedElsewhere(st.Dev, id)
	if err == nil && shared {
		err = errors.New("what is mounted there is a file system of the host's")
	}
	return err
}

// OnDev reports whether p is below a /dev that goes with the container.
func (r *Root) OnDev(p string) (bool, error) {
	a, _, err := r.anchor(p)
	return err == nil && a != r, err
}

// within runs f with the anchor of p and gives directory names back their
// prefix.
func (r *Root) within(p string, f func(a *Root, q string) (Result, error)) (Result, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return Result{}, err
	}
	res, err := f(a, q)
	if a == r {
		return res, err
	}
	for i := range res.Dirs {
		res.Dirs[i] = "/dev" + res.Dirs[i]
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		pe.Path = "/dev" + pe.Path
	}
	return res, err
}

// AtRest has the root's own owner own what is made, where that is the host's
// root: on such a disk the container's root has no other number, and the mount
// that its container gets maps ids (mount_setattr(2)), as Incus 6 has it, and LXD
// where the kernel passes its check.
func (r *Root) AtRest() error {
	i, err := r.Lstat("/")
	if err != nil {
		return err
	}
	if i.UID == 0 && i.GID == 0 {
		r.owner = Owner{}
	}
	return nil
}

// MkdirAll makes the directory p and its parents, 0755, owned by the container's
// root.
func (r *Root) MkdirAll(p string) (Result, error) {
	return r.within(p, func(a *Root, q string) (Result, error) {
		made, err := a.mkdirAll(q)
		res := Result{Dirs: made}
		if len(made) > 0 {
			res.Change = Made
		}
		return res, err
	})
}

// Missing returns p and those of its parents that are not there, outermost
// first: what MkdirAll would make. A path on which nothing can be made is no
// error here; not being told what is there is one.
func (r *Root) Missing(p string) ([]string, error) {
	var out []string
	for a, q, err := r.anchor(p); err == nil && q != "/"; q, p = path.Dir(q), path.Dir(p) {
		fd, err := a.find(q, 0, sameMount)
		if err == nil {
			unix.Close(fd)
			break
		}
		if err != unix.ENOENT {
			if !OfTheImage(err) {
				return nil, explain("open", p, err)
			}
			break
		}
		out = append(out, p)
	}
	slices.Reverse(out)
	return out, nil
}

// OfTheImage reports whether an error says how the image is, and not that we
// could not look: a limit of ours, a disk that fails, a path that keeps changing.
func OfTheImage(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EINVAL, unix.ENAMETOOLONG, ErrMount} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// BeyondReach reports whether an error says that something may be there, and is not
// for us to look at: it is on a mount, or the container's root may not.
func BeyondReach(err error) bool {
	return errors.Is(err, ErrMount) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EACCES)
}

func (r *Root) mkdirAll(p string) ([]string, error) {
	fd, err := r.openDir(p)
	if err == nil {
		return nil, calls.Closed(unix.Close(fd))
	}
	if err != unix.ENOENT || p == "/" {
		return nil, explain("open", p, err)
	}
	parent, made, err := r.parentOf(p)
	if err != nil {
		return made, err
	}
	defer unix.Close(parent)
	name := path.Base(p)
	err = r.changing(parent, func() error { return unix.Mkdirat(parent, name, 0o755) })
	switch err {
	case nil:
		r.unsynced[path.Dir(p)] = true
		return append(made, p), explain("mkdir", p, r.adopt(parent, name, unix.S_IFDIR))
	case unix.EEXIST: // made by somebody else since, or a link that leads nowhere
		fd, err := r.openDir(p)
		if err == unix.ENOENT {
			return made, &fs.PathError{Op: "mkdir", Path: p, Err: fmt.Errorf("a dangling link of the image is there: %w", ErrInTheWay)}
		}
		if err != nil {
			return made, explain("open", p, err)
		}
		return made, calls.Closed(unix.Close(fd))
	default:
		return made, explain("mkdir", p, err)
	}
}

// parentOf opens the directory of p for changes, making it where it is missing.
func (r *Root) parentOf(p string) (dir int, made []string, err error) {
	up := path.Dir(p)
	if dir, err = r.openDir(up); err == nil {
		return dir, nil, nil
	}
	if made, err = r.mkdirAll(up); err != nil {
		return -1, made, err
	}
	dir, err = r.openDir(up)
	return dir, made, explain("open", up, err)
}

// adopt makes the container's root the owner of an entry that we made just now:
// a set-group-id directory, or our own ids, gave it another one. What is there by
// now is looked at first: on a foreign mount, or of another type, it is not ours.
func (r *Root) adopt(dir int, name string, kind uint32) error {
	var now unix.Statx_t
	if err := r.lstatx(dir, name, &now); err == nil && uint32(now.Mode)&unix.S_IFMT == kind && now.Uid == r.owner.UID && now.Gid == r.owner.GID &&
		now.Mask&unix.STATX_MNT_ID != 0 && now.Mnt_id == r.mount {
		return nil
	}
	fd, st, err := r.child(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT != kind {
		return fmt.Errorf("the container exchanged it: %w", ErrInTheWay)
	}
	if st.Uid == r.owner.UID && st.Gid == r.owner.GID {
		return nil
	}
	return calls.Again(func() error {
		return unix.Fchownat(fd, "", int(r.owner.UID), int(r.owner.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Sync makes every entry made or removed so far durable.
func (r *Root) Sync() error {
	for _, p := range slices.Sorted(maps.Keys(r.unsynced)) {
		if err := r.syncDir(p); err != nil {
			return err
		}
		delete(r.unsynced, p)
	}
	return nil // the tmpfs on /dev ends with the container
}

func (r *Root) syncDir(p string) error {
	fd, err := r.openDir(p)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EXDEV {
		return nil // it is gone, or was moved: it holds nothing of ours
	}
	if err != nil {
		return explain("open", p, err)
	}
	defer unix.Close(fd)
	f, err := listing(fd)
	if err != nil {
		return explain("open", p, err)
	}
	defer f.Close()
	return explain("fsync", p, calls.Fsync(int(f.Fd())))
}

// Chmod sets the permission bits of a directory below /dev, or of a character node
// on a /dev that goes with the container. Nothing else is touched, and no bit above
// 0777 is ever set.
func (r *Root) Chmod(p string, perm fs.FileMode) error {
	if !strings.HasPrefix(p, "/dev/") || perm&^0o777 != 0 {
		return &fs.PathError{Op: "chmod", Path: p, Err: errors.New("only permission bits below /dev can be changed")}
	}
	a, q, err := r.anchor(p)
	if err != nil {
		return err
	}
	fd, err := a.find(q, unix.O_NOFOLLOW, sameMount)
	if err != nil {
		return explain("chmod", p, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := calls.Fstat(fd, &st); err != nil {
		return explain("chmod", p, err)
	}
	if why := notOurs(st, a != r); why != nil {
		return &fs.PathError{Op: "chmod", Path: p, Err: why}
	}
	if st.Mode&0o7777 == uint32(perm) {
		return nil
	}
	return explain("chmod", p, chmodFD(fd, uint32(perm)))
}

// notOurs says why the mode of what is below /dev is not for us to change. A node
// of the image's, or one that has a second name, may be the host's own.
func notOurs(st unix.Stat_t, onDev bool) error {
	switch t := st.Mode & unix.S_IFMT; {
	case t == unix.S_IFDIR:
		return nil
	case t != unix.S_IFCHR:
		return errors.New("neither a directory nor a character device")
	case st.Nlink > 1:
		return fmt.Errorf("the node has %d names, and the others may be the host's", st.Nlink)
	case !onDev:
		return errors.New("the node is the image's, not one that was made for the container")
	}
	return nil
}
