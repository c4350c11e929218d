package inroot

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// Attach mounts tree, a mount that is attached nowhere (open_tree(2)), on the mount
// point p: on the root's own mount, on the container's own /dev, or in a directory
// that was attached before. Where the very file, or a node of its number, is mounted
// there already, nothing is done. What is there afterwards is looked at once more.
//
// The caller is in the mount namespace of the container, and has CAP_SYS_ADMIN there.
func (r *Root) Attach(p string, tree int) error {
	var want unix.Stat_t
	if err := calls.Fstat(tree, &want); err != nil {
		return explain("mount", p, err)
	}
	at, err := r.attachable(p, want)
	if err != nil || at < 0 {
		return err
	}
	err = unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	unix.Close(at)
	if err != nil {
		return explain("mount", p, err)
	}
	id, err := mountID(tree)
	if err != nil {
		return explain("mount", p, err)
	}
	if r.attached == nil {
		r.attached = map[uint64]bool{}
	}
	r.attached[id] = true
	if at, err = r.attachable(p, want); err == nil && at >= 0 {
		unix.Close(at)
		err = &fs.PathError{Op: "mount", Path: p, Err: errors.New("it is not there: the container changed its root meanwhile")}
	}
	return err
}

// attachable opens the mount point p by O_PATH; -1: want is mounted there already.
func (r *Root) attachable(p string, want unix.Stat_t) (int, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return -1, err
	}
	fd, err := a.find(q, unix.O_NOFOLLOW, anyMount)
	if err != nil {
		return -1, explain("mount", p, err)
	}
	var st unix.Stat_t
	var id uint64
	if err = calls.Fstat(fd, &st); err == nil {
		id, err = mountID(fd)
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case err != nil:
	case st.Dev == want.Dev && st.Ino == want.Ino, kind == unix.S_IFCHR && kind == want.Mode&unix.S_IFMT && st.Rdev == want.Rdev:
		unix.Close(fd)
		return -1, nil
	case id != a.mount && !r.attached[id]:
		err = fmt.Errorf("the container has another mount there: %w", ErrMount)
	case kind == unix.S_IFLNK || (kind == unix.S_IFDIR) != (want.Mode&unix.S_IFMT == unix.S_IFDIR):
		err = fmt.Errorf("the container exchanged the mount point: %w", ErrInTheWay)
	default:
		return fd, nil
	}
	unix.Close(fd)
	return -1, explain("mount", p, err)
}

// Covered reports whether the container has a mount on the way to p, other than its
// own /dev.
func (r *Root) Covered(p string) bool {
	a, q, err := r.anchor(p)
	for ; err == nil && q != "/"; q = path.Dir(q) {
		fd, err := a.find(q, 0, sameMount)
		if err == nil {
			unix.Close(fd)
			return false
		}
		if err != unix.ENOENT {
			return err == unix.EXDEV
		}
	}
	return false
}
