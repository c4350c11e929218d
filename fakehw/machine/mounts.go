package machine

import (
	"errors"
	"fmt"
	"gpurig/fakehw/mountcall"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Flags of open_tree(2) and its kin that package unix lacks.
const (
	openTreeClone = 1
	atRecursive   = 0x8000
)

// clone returns a mount, attached nowhere, of what is at p below dirfd, with all
// that is mounted below it.
func clone(dirfd int, p string) (int, error) {
	fd, err := unix.OpenTree(dirfd, p, openTreeClone|atRecursive|unix.O_CLOEXEC|unix.AT_NO_AUTOMOUNT|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("bind %s: %w", p, os.NewSyscallError("open_tree", err))
	}
	return fd, nil
}

// attach mounts mnt on what is at p. It does not close mnt.
func attach(mnt int, p string) error {
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, p, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount on %s: %w", p, os.NewSyscallError("move_mount", err))
	}
	return nil
}

// A point is a mount that has to be put back.
type point struct {
	path string
	mnt  int
}

// over mounts mnt on dir and puts what was mounted below dir back on top of it,
// except where skip says so. What has no place in the new mount is left out.
func over(mnt int, dir string, table []string, skip func(p string) bool) error {
	back, err := copied(dir, table, skip)
	defer closeAll(back)
	if err != nil {
		return err
	}
	return cover(mnt, dir, back)
}

// instead is over for a mount that takes the place of what was mounted on dir.
//
// What a mount covers stays in the table of mounts. Who looks there for the place
// of a file system finds it twice: runc then takes a controller of cgroups for
// mounted which nobody can reach.
func instead(mnt int, dir string, table []string) error {
	back, err := copied(dir, table, nil)
	defer closeAll(back)
	if err != nil {
		return err
	}
	for _, p := range table {
		if p != dir {
			continue
		}
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err == unix.EINVAL || err == unix.EPERM {
			break // locked, in a user namespace
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", dir, os.NewSyscallError("umount2", err))
		}
	}
	return cover(mnt, dir, back)
}

// copied returns copies of what is mounted below dir, except where skip says so.
func copied(dir string, table []string, skip func(p string) bool) ([]point, error) {
	var out []point
	for _, p := range below(table, dir) {
		if skip != nil && skip(p) {
			continue
		}
		fd, err := clone(unix.AT_FDCWD, p)
		if errors.Is(err, unix.ENOENT) {
			continue // gone since it was listed, as files of /tmp may be
		}
		if err != nil {
			return out, err
		}
		out = append(out, point{p, fd})
	}
	return out, nil
}

func closeAll(list []point) {
	for _, p := range list {
		unix.Close(p.mnt)
	}
}

// cover mounts mnt on dir, and back on top of it.
func cover(mnt int, dir string, back []point) error {
	if err := attach(mnt, dir); err != nil {
		return err
	}
	for _, p := range back {
		var st unix.Stat_t
		if unix.Lstat(p.path, &st) != nil {
			continue
		}
		err := attach(p.mnt, p.path)
		if errors.Is(err, unix.ENOENT) && removed(p.mnt) {
			continue // gone since it was copied: the kernel mounts nothing that was removed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removed reports whether what a mount shows was removed from its directory.
func removed(mnt int) bool {
	var st unix.Stat_t
	return unix.Fstat(mnt, &st) == nil && st.Nlink == 0
}

// below returns the mount points below dir that are below no other such one,
// sorted.
func below(table []string, dir string) []string {
	var out []string
	prefix := strings.TrimSuffix(dir, "/") + "/"
	for _, p := range slices.Sorted(slices.Values(table)) {
		inside := func(have string) bool { return p == have || strings.HasPrefix(p, have+"/") }
		if strings.HasPrefix(p, prefix) && !slices.ContainsFunc(out, inside) {
			out = append(out, p)
		}
	}
	return out
}

// mountTable returns all mount points of this namespace.
func mountTable() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 6 {
			return nil, fmt.Errorf("mountinfo line %q is not understood", strings.TrimSpace(line))
		}
		out = append(out, unescape(words[4]))
	}
	return out, nil
}

// unescape undoes what the kernel does to blanks in mountinfo: \040 and such.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			var c byte
			if _, err := fmt.Sscanf(s[i+1:i+4], "%03o", &c); err == nil {
				b.WriteByte(c)
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// overlay lays the folder upper of the staging area over dir. Directories are
// named by descriptors: the option lowerdir has a syntax of its own.
func overlay(stage int, dir string, user bool) (int, error) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	name := func(dirfd int, p string) (string, error) {
		fd, err := unix.Openat(dirfd, p, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", &os.PathError{Op: "open", Path: p, Err: err}
		}
		fds = append(fds, fd)
		return fmt.Sprintf("/proc/self/fd/%d", fd), nil
	}
	lower, err := name(unix.AT_FDCWD, dir)
	if err != nil {
		return -1, err
	}
	upper, err := name(stage, path.Join("upper", dir))
	if err != nil {
		return -1, err
	}
	work, err := name(stage, path.Join("work", dir))
	if err != nil {
		return -1, err
	}
	attr := 0
	params := [][2]string{{"source", "gpurig"}, {"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}}
	if user {
		params = append(params, [2]string{"userxattr", ""})
	}
	mnt, err := mountcall.New("overlay", attr, params...)
	if err == nil {
		return mnt, nil
	}
	// A tmpfs without the attributes that an upper layer needs still serves as a
	// lower one; then nothing can be written there.
	again, err2 := mountcall.New("overlay", unix.MOUNT_ATTR_RDONLY, [2]string{"source", "gpurig"}, [2]string{"lowerdir", upper + ":" + lower})
	if err2 != nil {
		return -1, fmt.Errorf("lay files over %s: %w", dir, err)
	}
	return again, nil
}
