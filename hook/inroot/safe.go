//go:build !naive

package inroot

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// What keeps a path inside the root and away from mounts. The tests' negative
// control, naive.go, stands in for it.

// asTheContainer: everything in the root is done with the rights of its own root.
const asTheContainer = true

// find returns an O_PATH descriptor of what is at p inside the root. flags are
// O_NOFOLLOW, O_DIRECTORY or none.
func (r *Root) find(p string, flags int, x crossing) (int, error) {
	p, err := rel(p)
	if err != nil {
		return -1, err
	}
	if !r.walk {
		fd, err := r.find2(p, flags, x)
		if err != unix.ENOSYS && err != unix.EPERM {
			return fd, err
		}
		// A filter that came after our probe answers ENOSYS or EPERM; a plain
		// EPERM of the file system comes back from the walker.
		r.walk = true
	}
	return r.findWalking(p, flags, x)
}

func (r *Root) find2(p string, flags int, x crossing) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_PATH | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if r.beneath {
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	}
	if x == sameMount {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	var err error
	for range MaxRetries {
		var fd int
		fd, err = unix.Openat2(r.fd, p, &how)
		if err == nil {
			return fd, nil
		}
		if err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return -1, err
}

// put writes a temporary beside p and moves it in.
func (r *Root) put(dir int, p string, data []byte, perm fs.FileMode) error {
	temp := r.tempName()
	err := r.writeTemp(dir, temp, data, perm)
	if err == nil {
		err = r.moveIn(dir, temp, p)
	}
	if err != nil {
		r.unlink(dir, temp, 0)
	}
	return err
}

// mountID returns the id of the mount that fd is on. Kernels before 5.8 have no
// STATX_MNT_ID, and some filters no statx: procfs tells it too.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	err := calls.Again(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	})
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	return mountIDFromProc(fd)
}
