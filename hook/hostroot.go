package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
	"gpurig/hook/inroot"
)

// notTheHost refuses a root that is a part of the running host, by whatever name or
// mount: what is at the top of its tree, and every directory above our own program,
// the hook file and its journal.
func notTheHost(root *inroot.Root, name, hookFile string) error {
	in, err := root.Lstat("/")
	if err != nil {
		return err
	}
	parts, err := hostParts(hookFile)
	if err != nil {
		return err
	}
	for _, p := range parts {
		var out unix.Stat_t
		err := calls.Again(func() error { return unix.Stat(p, &out) })
		if err != nil || out.Dev != in.Dev || out.Ino != in.Ino { // what is gone, or closed to us, is not what we have open
			continue
		}
		why := fmt.Sprintf("container root %s is %s of the host", name, p)
		if p == "/" {
			why = fmt.Sprintf("container root %s is the host's own root", name)
		}
		return &UsageError{Msg: why, Hint: "a container's root file system is a directory of its own, not one that the host itself runs from"}
	}
	return nil
}

func hostParts(hookFile string) ([]string, error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("which program this is: %w", err)
	}
	top, err := os.ReadDir("/")
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	parts := []string{"/"}
	for _, e := range top {
		parts = append(parts, "/"+e.Name())
	}
	for _, dir := range []string{path.Dir(program), path.Dir(hookFile)} {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
			parts = append(parts, dir)
		}
	}
	return parts, nil
}

// sharesMounts reports whether a process is in our own mount namespace.
func sharesMounts(pid int) (bool, error) {
	var own, its unix.Stat_t
	if err := calls.Again(func() error { return unix.Stat("/proc/self/ns/mnt", &own) }); err != nil {
		return false, fmt.Errorf("mount namespace: %w", err)
	}
	if err := calls.Again(func() error { return unix.Stat(fmt.Sprintf("/proc/%d/ns/mnt", pid), &its) }); err != nil {
		return false, fmt.Errorf("mount namespace: %w", err)
	}
	return own.Dev == its.Dev && own.Ino == its.Ino, nil
}
