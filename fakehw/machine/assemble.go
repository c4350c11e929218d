package machine

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// pointName is an empty folder in /proc/driver that no listing has. In a container
// /run/gpurig is mounted there: libraries that CDI mounts look for the host's state
// in both places.
const pointName = ".gpurig"

// enter puts the calling thread into the namespace behind the machine's.
func (k *containers) enter() error {
	if err := unix.Setns(k.back, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.Fchdir(k.stage)
}

// whole mounts what a context has, attached nowhere, with the host's files in their
// place. The calling thread has entered.
func (k *containers) whole(kind string, ctx, attr int) (int, error) {
	mnt, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, err
	}
	defer unix.Close(mnt)
	// A copy of a mount with what is below it can be made of one that is attached.
	k.mu.Lock()
	defer k.mu.Unlock()
	if kind == "proc" {
		return k.procfs(mnt)
	}
	return k.sysfs(mnt, attr)
}

// procfs puts the host's files on a procfs.
func (k *containers) procfs(mnt int) (int, error) {
	if err := unix.MoveMount(mnt, "", k.stage, scratch+"/proc", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, err
	}
	defer unix.Unmount(scratch+"/proc", unix.MNT_DETACH)
	if err := k.cover(mnt); err != nil {
		return -1, err
	}
	return unix.OpenTree(mnt, "", openTreeClone|atRecursive|unix.AT_EMPTY_PATH|unix.O_CLOEXEC)
}

// cover mounts the host's files on a procfs that is attached. One that shows
// processes alone has no place for them.
func (k *containers) cover(mnt int) error {
	for _, f := range k.fakes {
		rel, ok := strings.CutPrefix(f.To, "/proc/")
		if !ok {
			continue
		}
		if err := k.graft(k.fuse, f.From, mnt, rel); err != nil {
			return err
		}
	}
	if k.live == "" {
		return nil
	}
	return k.graft(k.stage, k.live, mnt, "driver/"+pointName)
}

// sysfs puts the parts of a sysfs that are of its network namespace, and the places
// to mount on, back on the host's /sys.
func (k *containers) sysfs(mnt, attr int) (int, error) {
	if err := unix.MoveMount(mnt, "", k.stage, scratch+"/real", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, err
	}
	defer unix.Unmount(scratch+"/real", unix.MNT_DETACH)
	sys, err := clone(k.fuse, "sys")
	if err != nil {
		return -1, errors.Unwrap(err)
	}
	defer unix.Close(sys)
	if err := unix.MountSetattr(sys, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: uint64(attr), Attr_clr: unix.MOUNT_ATTR__ATIME}); err != nil {
		return -1, err
	}
	if err := unix.MoveMount(sys, "", k.stage, scratch+"/sys", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, err
	}
	defer unix.Unmount(scratch+"/sys", unix.MNT_DETACH)
	for _, rel := range k.keep {
		if err := k.graft(mnt, rel, sys, rel); err != nil {
			return -1, err
		}
	}
	return unix.OpenTree(sys, "", openTreeClone|atRecursive|unix.AT_EMPTY_PATH|unix.O_CLOEXEC)
}

// graft mounts what is at a path of one mount on a path of another, where both are.
func (k *containers) graft(from int, p string, to int, at string) error {
	mnt, err := unix.OpenTree(from, p, openTreeClone|unix.O_CLOEXEC|unix.AT_NO_AUTOMOUNT|unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	err = unix.MoveMount(mnt, "", to, path.Clean(at), unix.MOVE_MOUNT_F_EMPTY_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
