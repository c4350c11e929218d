package fusefs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// A State is what a directory is to whoever wants to mount a tree on it.
type State int

// The states.
const (
	Free   State = iota // nothing of ours is mounted on it
	InUse               // a tree is mounted on it
	Orphan              // the server of the tree that is mounted on it was killed
)

// Look returns the path of a directory, absolute and without links, and its
// state. It works where a killed server makes every other look fail.
func Look(dir string) (string, State, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", Free, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", Free, err
	}
	ours, err := isTree(fd, real)
	if err != nil || !ours {
		return real, Free, err
	}
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) == unix.ENOTCONN {
		return real, Orphan, nil
	}
	return real, InUse, nil
}

// isTree reports whether fd, of that path, is the top of a mount of this package.
func isTree(fd int, path string) (bool, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return false, err
	}
	_, rest, _ := strings.Cut(string(info), "mnt_id:")
	id, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(table)) {
		before, after, ok := strings.Cut(line, " - ")
		words, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(words) > 4 && len(kind) > 0 && words[0] == id {
			return kind[0] == "fuse."+Name && escape(path) == words[4], nil
		}
	}
	return false, nil
}

// escape does what the kernel does to mount points in mountinfo (show_mountinfo
// in fs/proc_namespace.c).
var escape = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace

// Clear takes away what a killed server has left mounted on dir, a path that Look
// returned.
func Clear(dir string) error {
	err := unmountAt(dir, "", true)
	if errors.Is(err, unix.EPERM) {
		if helper, look := exec.LookPath("fusermount3"); look == nil {
			err = unmountAt(dir, helper, true)
		}
	}
	return err
}
