package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newRoot shows "/" with further entries. Nothing can be added to it, and what is
// mounted on it is not seen by those who are there already. So a folder that has
// the new entries becomes the root directory, and everything that is in the old
// one is bound into it.
func (c *child) newRoot(a annex) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	var old []point
	defer func() {
		for _, p := range old {
			unix.Close(p.mnt)
		}
	}()
	for _, e := range entries {
		p, to := "/"+e.Name(), a.Stage+"/"+e.Name()
		var st unix.Stat_t
		if unix.Fstatat(c.stage, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			continue // the host's own
		}
		if err := c.placeholder(p, to); err != nil {
			return fmt.Errorf("add to /: %w", err)
		}
		if e.Type()&os.ModeSymlink != 0 {
			continue
		}
		mnt, err := clone(unix.AT_FDCWD, p)
		if err != nil {
			return err
		}
		old = append(old, point{p, mnt})
	}
	top, err := clone(c.stage, a.Stage)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	if err := c.clear(); err != nil {
		return err
	}
	if err := attach(top, "/"); err != nil {
		return err
	}
	// The top of what is mounted on the namespace's root directory is no
	// chroot(2) to the kernel: user namespaces can be made in here.
	if err := unix.Fchdir(top); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	for _, p := range old {
		if err := attach(p.mnt, p.path); err != nil {
			return err
		}
	}
	return nil
}
