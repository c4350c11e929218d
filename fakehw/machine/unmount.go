package machine

import (
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/mountcall"
)

// unmount is umount2(2) of what is not in use. A mount with others below it is, so
// ours are taken off first, and put back where the kernel refuses.
func (k *containers) unmount(call mountcall.Call, who mountcall.Caller) error {
	target, err := who.String(call.Args[0])
	if err != nil {
		return errNotOurs
	}
	if err := who.Enter(); err != nil {
		return err
	}
	flags, open := int(call.Args[1]), 0
	if flags&unix.UMOUNT_NOFOLLOW != 0 {
		open = unix.O_NOFOLLOW
	}
	at, err := who.Path(target, open)
	if err != nil {
		return errNotOurs
	}
	off := k.takeOff(at)
	defer closeAll(off)
	if len(off) == 0 {
		unix.Close(at)
		return errNotOurs
	}
	err = unix.Fchdir(at)
	for _, p := range off {
		if err == nil {
			err = unix.Unmount(p.path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	unix.Close(at)
	if back := who.Enter(); back != nil { // the directory that is to be unmounted is ours no more
		return back
	}
	if err == nil && !k.calls.Waits(call) {
		err = errNotOurs
	}
	if err == nil {
		err = unix.Unmount(target, flags)
	}
	if err == nil {
		return nil
	}
	if at, again := who.Path(target, open); again == nil {
		for _, p := range off {
			_ = unix.MoveMount(p.mnt, "", at, p.path, unix.MOVE_MOUNT_F_EMPTY_PATH) // what stayed is covered by itself
		}
		unix.Close(at)
	}
	return err
}

// takeOff copies what we mounted on a procfs or on the host's /sys, if that is what
// is mounted here.
func (k *containers) takeOff(at int) []point {
	var fuse, st unix.Stat_t
	if !mountRoot(at, "") || unix.Fstat(k.fuse, &fuse) != nil || unix.Fstat(at, &st) != nil {
		return nil
	}
	var names []string
	switch {
	case st.Dev == fuse.Dev:
		names = slices.DeleteFunc(slices.Clone(k.keep), func(rel string) bool { return !mountRoot(at, rel) || !isSysfs(at, rel) })
	case isProcfs(at):
		names = k.below(at)
	}
	var out []point
	for _, rel := range names {
		if mnt, err := clone(at, rel); err == nil {
			out = append(out, point{rel, mnt})
		}
	}
	return out
}

// isSysfs reports whether what is at a path is of a sysfs, and not what the caller
// mounted on it.
func isSysfs(at int, p string) bool {
	fd, err := unix.Openat(at, p, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.SYSFS_MAGIC
}

// mountRoot reports whether the top of a mount is at a path.
func mountRoot(at int, p string) bool {
	var st unix.Statx_t
	err := unix.Statx(at, p, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
