package machine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
)

// dev makes /dev: the machine's own nodes and the host's. Where nodes can be
// made, it is a folder of the staging area, in which the caller adds and removes
// the host's nodes later. Else it is the FUSE mount, whose nodes can be seen but
// not opened, with the machine's own bound on top.
func (c *child) dev(*setup) error {
	if !c.mknod {
		return c.boundDev()
	}
	if err := c.copyDir("/dev", "dev", true); err != nil {
		return err
	}
	mnt, err := clone(c.stage, "dev")
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	return over(mnt, "/dev", c.table, gpuPath)
}

// gpuPath reports whether a path below /dev is a GPU's node or below a folder of
// such, which the host's own take the place of.
func gpuPath(p string) bool {
	for dir := p; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if path.Dir(dir) == "/dev" {
			return host.IsGPUNode(path.Base(dir))
		}
	}
	return false
}

// copyDir makes in the folder to of the staging area what is in the real
// directory from. What is mounted there comes later, by over.
func (c *child) copyDir(from, to string, top bool) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := from + "/" + e.Name()
		if top && host.IsGPUNode(e.Name()) {
			continue
		}
		if err := c.copyEntry(p, to+"/"+e.Name()); err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("copy %s: %w", p, err)
		}
	}
	return nil
}

func (c *child) copyEntry(p, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return err
	}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err = unix.Mkdirat(c.stage, to, st.Mode&0o7777); err != nil && err != unix.EEXIST {
			return err
		}
		if !slices.Contains(c.table, p) {
			err = c.copyDir(p, to, false)
		}
	case unix.S_IFLNK:
		target, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return unix.Symlinkat(target, c.stage, to)
	case unix.S_IFCHR, unix.S_IFBLK, unix.S_IFIFO:
		err = unix.Mknodat(c.stage, to, st.Mode, int(st.Rdev))
	default: // a socket or a file: the real one, bound
		if err = unix.Mknodat(c.stage, to, unix.S_IFREG|st.Mode&0o7777, 0); err == nil {
			c.table = append(c.table, p)
		}
	}
	if err != nil {
		return err
	}
	return unix.Fchownat(c.stage, to, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

// boundDev mounts the FUSE directory "dev" and puts everything real on top.
func (c *child) boundDev() error {
	mnt, err := clone(c.stage, "fuse/dev")
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	table := slices.Clone(c.table)
	for _, e := range entries {
		// Links are the FUSE mount's own; directories are bound whole.
		if !host.IsGPUNode(e.Name()) && e.Type()&os.ModeSymlink == 0 && e.Name() != "char" && e.Name() != "block" {
			table = append(table, "/dev/"+e.Name())
		}
	}
	return over(mnt, "/dev", table, gpuPath)
}
