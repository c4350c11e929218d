package inroot

import (
	"path"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// A pinned directory is the last one in which something was looked at. Every change of
// ours ends it, since paths may lead elsewhere then.
type pinned struct {
	name string // empty: none
	fd   int
}

func (r *Root) unpin() {
	if r.pinned.name != "" {
		unix.Close(r.pinned.fd)
		r.pinned = pinned{}
	}
}

// glance looks at p, whose last component is not followed, by one call in the
// directory that it is in. ok is false where that does not say all: look has to.
// A mount at p that is not admitted is such a case.
func (r *Root) glance(p string) (st unix.Statx_t, ok bool, err error) {
	if _, err := rel(p); err != nil || p == "/" {
		return st, false, nil
	}
	if err := r.pin(path.Dir(p)); err != nil {
		return st, false, nil
	}
	err = r.lstatx(r.pinned.fd, path.Base(p), &st)
	if err == unix.ENOENT {
		return st, true, err
	}
	if err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return st, false, nil
	}
	return st, st.Mnt_id == r.mount || r.admitted.objects[object{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}], nil
}

func (r *Root) lstatx(dir int, name string, st *unix.Statx_t) error {
	return calls.Again(func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, st)
	})
}

// pin opens a directory of the root's own mount and keeps it.
func (r *Root) pin(dir string) error {
	if r.pinned.name == dir {
		return nil
	}
	r.unpin()
	fd, err := r.openDir(dir)
	if err == nil {
		r.pinned = pinned{dir, fd}
	}
	return err
}
