package machine

import (
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
	if !mountRoot(at, "") {
		return nil
	}
	var names []string
	switch k.kindOf(unix.Gettid(), at) {
	case "proc":
		names = k.below(at)
	case "fuse":
		for _, rel := range k.keep { // but for what the caller mounted on it
			fd, err := unix.Openat(at, rel, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
			if err != nil {
				continue
			}
			if k.kindOf(unix.Gettid(), fd) == "sysfs" && mountRoot(fd, "") {
				names = append(names, rel)
			}
			unix.Close(fd)
		}
	}
	var out []point
	for _, rel := range names {
		if mnt, err := clone(at, rel); err == nil {
			out = append(out, point{rel, mnt})
		}
	}
	return out
}

// mountRoot reports whether the top of a mount is at a path.
func mountRoot(at int, p string) bool {
	var st unix.Statx_t
	err := unix.Statx(at, p, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// kindOf says what file system a file is of: "proc", "sysfs", "fuse" for that of the
// host, or nothing for another. The file's mount is one that a thread of the machine
// can reach. No file system is asked: the server of one may be who waits for us.
func (k *containers) kindOf(tid, fd int) string {
	const flags = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	var st, fuse unix.Statx_t
	if unix.Statx(fd, "", flags, unix.STATX_MNT_ID, &st) != nil || unix.Statx(k.fuse, "", flags, 0, &fuse) != nil || st.Dev_major != 0 {
		return ""
	}
	if st.Dev_minor == fuse.Dev_minor {
		return "fuse"
	}
	table, err := mountcall.Call{TID: tid}.Caller(k.proc).Mounts()
	if err != nil {
		return ""
	}
	if kind := table[st.Mnt_id]; namespaceOf[kind] != "" {
		return kind
	}
	return ""
}
