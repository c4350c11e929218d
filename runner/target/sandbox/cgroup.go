package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupParents returns the folders in which containers have their cgroups that are made
// by a process with this root directory: the root of each hierarchy, and, where that is
// another, the cgroup of its PID 1, in which liblxc makes those of root (cgfsng.c). Ours have the hierarchy of devices alone;
// a daemon that was joined has what the machine has.
func cgroupParents(rootDir string) ([]string, error) {
	root := rootDir + "/sys/fs/cgroup"
	mounts, err := hierarchies(root)
	if err != nil {
		return nil, err
	}
	first, err := os.ReadFile(rootDir + "/proc/1/cgroup")
	if err != nil {
		return nil, err
	}
	out := slices.Clone(mounts)
	for line := range strings.Lines(string(first)) { // ID:CONTROLLERS:PATH
		_, line, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, p, _ := strings.Cut(line, ":")
		p = strings.TrimSuffix(p, "/init.scope")
		at := root
		if controllers != "" {
			at = filepath.Join(root, strings.TrimPrefix(controllers, "name="))
		}
		if p != "" && p != "/" && !strings.HasPrefix(p, "/..") && slices.Contains(mounts, at) {
			out = append(out, filepath.Join(at, p))
		}
	}
	return out, nil
}

// hierarchies returns the mount points of cgroups at root: of version 2 root itself,
// of version 1 those below it, one for each controller.
func hierarchies(root string) ([]string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: root, Err: err}
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return []string{root}, nil
	}
	all, err := filepath.Glob(filepath.Join(root, "*"))
	return slices.DeleteFunc(all, func(p string) bool { // "cpu" may be a link to "cpu,cpuacct"
		st, err := os.Lstat(p)
		return err != nil || !st.IsDir()
	}), err
}

// globIn returns what matches a pattern in any of folders.
func globIn(folders []string, pattern string) ([]string, error) {
	var out []string
	for _, at := range folders {
		dirs, err := filepath.Glob(filepath.Join(at, pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, dirs...)
	}
	return out, nil
}

// removeCgroups removes the cgroup directories that match patterns of ours. Who made
// them removes those of a container that ended well; liblxc's "pivot" always
// stays.
func removeCgroups(parents []string, patterns ...string) error {
	var errs []error
	for _, pattern := range patterns {
		if !strings.HasPrefix(pattern, prefixStart) {
			continue // nothing was claimed
		}
		dirs, err := globIn(parents, pattern)
		errs = append(errs, err)
		for _, d := range dirs {
			errs = append(errs, removeCgroup(d))
		}
	}
	return errors.Join(errs...)
}

// containerCgroups are the patterns of a container: of c1 c1 and c1.monitor, never c12.
func containerCgroups(prefix, name string) []string {
	return []string{filepath.Join(prefix, name), filepath.Join(prefix, name+".*")}
}

// sweepCgroups removes what a run that was killed left behind. What is still
// ending there is no fault of this run: it stays for the next one.
func sweepCgroups(parents []string) error {
	dirs, err := globIn(parents, prefixStart+"*-*")
	return errors.Join(err, sweep(dirs, func(d string) error {
		if err := removeCgroup(d); !errors.Is(err, unix.EBUSY) {
			return err
		}
		return nil
	}))
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
