package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/runner/observe"
)

// PIDNS is the first process of a process namespace: it gives that a /proc of its
// own, binds the file subids over the lists of subordinate ids, says so on out,
// and stays until in ends. The kernel then ends every process of the namespace,
// daemons and containers too, however our parent went (F29). Processes that are
// left to it meanwhile are waited for.
func PIDNS(subids string, in io.Reader, out io.Writer) error {
	if os.Getpid() != 1 {
		return errors.New("not the first process of a process namespace: nothing is mounted")
	}
	outlive()
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)
	go func() {
		for range child {
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
					break
				}
			}
		}
	}()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := ownProc(); err != nil {
		return err
	}
	for _, list := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := unix.Mount(subids, list, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind our ids over %s: %w", list, err)
		}
	}
	if _, err := io.WriteString(out, Ready); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// ownProc mounts the /proc of this process namespace. What is mounted below the one
// that is there, such as files of a fake machine, is put back on it.
func ownProc() error {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("mount /proc: %w", os.NewSyscallError("fsconfig", err))
	}
	proc, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("mount /proc: %w", os.NewSyscallError("fsmount", err))
	}
	defer unix.Close(proc)
	// Our own entry is in the new one alone: the other may be of processes that we are not among.
	table, err := mountTable(proc)
	if err != nil {
		return err
	}
	type point struct {
		at  string
		mnt int
	}
	var back []point
	defer func() {
		for _, p := range back {
			unix.Close(p.mnt)
		}
	}()
	for _, m := range table {
		within := func(p point) bool { return m.Target == p.at || strings.HasPrefix(m.Target, p.at+"/") }
		if !strings.HasPrefix(m.Target, "/proc/") || slices.ContainsFunc(back, within) {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, m.Target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return &os.PathError{Op: "open_tree", Path: m.Target, Err: err}
		}
		back = append(back, point{m.Target, fd})
	}
	if err := unix.MoveMount(proc, "", unix.AT_FDCWD, "/proc", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount /proc: %w", os.NewSyscallError("move_mount", err))
	}
	for _, p := range back {
		if err := unix.MoveMount(p.mnt, "", unix.AT_FDCWD, p.at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("put back %s: %w", p.at, os.NewSyscallError("move_mount", err))
		}
	}
	return nil
}

// mountTable reads our mounts in a /proc that is mounted nowhere.
func mountTable(proc int) ([]observe.MountLine, error) {
	fd, err := unix.Openat(proc, "self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc/self/mountinfo", Err: err}
	}
	f := os.NewFile(uintptr(fd), "mountinfo")
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	lines, err := observe.ParseMountinfo(string(text))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(lines, func(a, b observe.MountLine) int { return strings.Compare(a.Target, b.Target) })
	return lines, nil
}
