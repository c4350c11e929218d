package agent

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A Change is what is done to the mounts of a running container, in this order:
// Unmount, Remove, Mount.
type Change struct {
	PID     int      `json:"pid"`               // the container's first process
	Unmount []string `json:"unmount,omitempty"` // mount points
	Remove  []string `json:"remove,omitempty"`  // links, empty files and folders below /dev that go
	Mount   []Bind   `json:"mount,omitempty"`
}

// A Bind is one bind mount, from the mount namespace that the agent was started
// in to the container's.
type Bind struct {
	Source string   `json:"source"`
	Target string   `json:"target"`
	Create string   `json:"create,omitempty"` // "file" or "dir": make the mount point
	Flags  []string `json:"flags,omitempty"`  // of ro, nosuid, nodev, noexec
}

// Join carries a change out. The process is of no use afterwards: it is in the
// container's mount namespace.
func Join(c Change) error {
	runtime.LockOSThread()
	trees := make([]int, 0, len(c.Mount))
	for _, b := range c.Mount {
		fd, err := detach(b)
		if err != nil {
			return err
		}
		trees = append(trees, fd)
	}
	if err := enter(c.PID); err != nil {
		return err
	}
	for _, p := range c.Unmount {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return &os.PathError{Op: "unmount", Path: p, Err: err}
		}
	}
	for _, p := range c.Remove {
		if err := remove(p); err != nil {
			return err
		}
	}
	for i, b := range c.Mount {
		if err := attach(trees[i], b); err != nil {
			return err
		}
	}
	return nil
}

// detach clones what is at the source as a mount of its own, with its flags.
func detach(b Bind) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, b.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: b.Source, Err: err}
	}
	var attr unix.MountAttr
	for _, f := range b.Flags {
		switch f {
		case "ro":
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		case "nosuid":
			attr.Attr_set |= unix.MOUNT_ATTR_NOSUID
		case "nodev":
			attr.Attr_set |= unix.MOUNT_ATTR_NODEV
		case "noexec":
			attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
		default:
			return -1, fmt.Errorf("mount %s: unknown flag %q", b.Target, f)
		}
	}
	attr.Propagation = unix.MS_PRIVATE
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return -1, &os.PathError{Op: "mount_setattr", Path: b.Source, Err: err}
	}
	return fd, nil
}

// enter joins a process's mount namespace; the root directory is that
// namespace's afterwards. The kernel asks for a file system context of our own.
func enter(pid int) error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("container process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace of %d: %w", pid, err)
	}
	return nil
}

// remove takes away what nothing is mounted on any more. It only works below
// /dev, which is the container's own tmpfs.
func remove(p string) error {
	if !strings.HasPrefix(p, "/dev/") {
		return fmt.Errorf("remove %s: not below /dev", p)
	}
	err := unix.Unlink(p)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Rmdir(p)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) {
		return &os.PathError{Op: "remove", Path: p, Err: err}
	}
	return nil
}

// attach puts a detached mount at its target, which has no link on its way.
func attach(tree int, b Bind) error {
	if err := create(b); err != nil {
		return err
	}
	to, err := unix.Openat2(unix.AT_FDCWD, b.Target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return &os.PathError{Op: "open", Path: b.Target, Err: err}
	}
	defer unix.Close(to)
	if err := unix.MoveMount(tree, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: b.Target, Err: err}
	}
	return nil
}

// create makes a mount point below /dev as liblxc's create= does.
func create(b Bind) error {
	if b.Create == "" {
		return nil
	}
	if !strings.HasPrefix(b.Target, "/dev/") {
		return fmt.Errorf("mount point %s: made below /dev only", b.Target)
	}
	back, err := asOwner("/dev")
	if err != nil {
		return err
	}
	defer back()
	dir := b.Target
	if b.Create == "file" {
		dir = path.Dir(dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil || b.Create == "dir" {
		return err
	}
	fd, err := unix.Open(b.Target, unix.O_CREAT|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "create", Path: b.Target, Err: err}
	}
	return unix.Close(fd)
}

// asOwner makes files as the owner of dir until back is called: a tmpfs of a
// user namespace can hold no file of an id that the namespace does not have.
func asOwner(dir string) (back func(), err error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	gid, err := unix.SetfsgidRetGid(int(st.Gid))
	if err != nil {
		return nil, os.NewSyscallError("setfsgid", err)
	}
	uid, err := unix.SetfsuidRetUid(int(st.Uid))
	if err != nil {
		return nil, os.NewSyscallError("setfsuid", err)
	}
	return func() {
		// Back to what it was: neither call can fail.
		_ = unix.Setfsuid(uid)
		_ = unix.Setfsgid(gid)
	}, nil
}
