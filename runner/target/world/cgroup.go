package world

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix starts the names of our cgroup directories; the process id and a
// count follow.
const cgroupPrefix = "gpurig-"

// hierarchies returns the mount points of cgroups at root: of version 2 root itself,
// of version 1 those below it, one for each controller. Ours have that of devices
// alone; a daemon that was joined has what the machine has.
func hierarchies(root string) ([]string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: root, Err: err}
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return []string{root}, nil
	}
	return filepath.Glob(filepath.Join(root, "*"))
}

// cgroupDirs returns directories of ours below root, a mount point of cgroups.
func cgroupDirs(root, pattern string) ([]string, error) {
	mounts, err := hierarchies(root)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, at := range mounts {
		dirs, err := filepath.Glob(filepath.Join(at, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, dirs...)
	}
	return out, nil
}

// removeCgroups removes the cgroup directories that match a pattern. Who made
// them removes those of a container that ended well; liblxc's "pivot" always
// stays.
func removeCgroups(root, pattern string) error {
	dirs, errs := cgroupDirs(root, pattern)
	for _, d := range dirs {
		errs = errors.Join(errs, removeCgroup(d))
	}
	return errs
}

// sweepCgroups removes what a run that was killed left behind. What is still
// ending there is no fault of this run: it stays for the next one.
func sweepCgroups(root string) error {
	dirs, errs := cgroupDirs(root, cgroupPrefix+"*-*")
	for _, d := range dirs {
		if !Dead(filepath.Base(d)) {
			continue
		}
		if err := removeCgroup(d); !errors.Is(err, unix.EBUSY) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// Dead reports whether a name starts with the Prefix of a process that has ended:
// whatever has it was left behind.
func Dead(name string) bool {
	rest, ours := strings.CutPrefix(name, cgroupPrefix)
	pid, _, more := strings.Cut(rest, "-")
	n, err := strconv.Atoi(pid)
	return ours && more && err == nil && n > 0 && unix.Kill(n, 0) == unix.ESRCH
}

// removeCgroup removes a cgroup and those below it. The kernel lets go of one
// a moment after its last process.
func removeCgroup(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			all = append(all, p)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if err := rmdirPatiently(all[i]); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

func rmdirPatiently(dir string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || wait > time.Second {
			return err
		}
		time.Sleep(wait)
	}
}
