package machine

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/tree"
)

// annexes shows real directories with further entries. Everything that is there
// is bound into a folder of the staging area that has the new entries.
func (c *child) annexes(s *setup) error {
	for _, a := range s.Annexes {
		if a.Dir == "/" {
			c.root = &a // at the end, when all else is in its place
			continue
		}
		if err := c.annex(a); err != nil {
			return fmt.Errorf("add to %s: %w", a.Dir, err)
		}
	}
	return nil
}

func (c *child) annex(a annex) error {
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return err
	}
	table := slices.Clone(c.table)
	for _, e := range entries {
		p, to := path.Join(a.Dir, e.Name()), a.Stage+"/"+e.Name()
		var st unix.Stat_t
		if err := unix.Fstatat(c.stage, to, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			continue // the host's own
		}
		if err := c.placeholder(p, to); errors.Is(err, unix.ENOENT) {
			continue // gone meanwhile
		} else if err != nil {
			return err
		}
		if e.Type()&os.ModeSymlink == 0 {
			table = append(table, p)
		}
	}
	// The sticky bit too: in /tmp, who may make files may not remove others'.
	var st unix.Stat_t
	if err := unix.Stat(a.Dir, &st); err != nil {
		return err
	}
	if err := unix.Fchmodat(c.stage, a.Stage, st.Mode&0o7777, 0); err != nil {
		return os.NewSyscallError("chmod", err)
	}
	mnt, err := clone(c.stage, a.Stage)
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	return over(mnt, a.Dir, table, nil)
}

// placeholder makes what something real can be mounted on; a link is copied.
func (c *child) placeholder(p, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return unix.Symlinkat(target, c.stage, to)
	case unix.S_IFDIR:
		return unix.Mkdirat(c.stage, to, 0o755)
	}
	return unix.Mknodat(c.stage, to, unix.S_IFREG|0o600, 0)
}

// insteadOf says how the real directory can be had: a folder of the host that is there
// already is mounted on, and the directory above it stays as it is. Empty: the host
// has more than folders in it.
func insteadOf(t *tree.Tree, a annex) string {
	names, err := t.ReadDir("/" + a.Stage)
	var missing []string
	for _, name := range names {
		info, lerr := t.Lstat("/" + path.Join(a.Stage, name))
		err = cmp.Or(err, lerr)
		if !info.Mode.IsDir() {
			return ""
		}
		missing = append(missing, path.Join(a.Dir, name))
	}
	if err != nil || len(missing) == 0 {
		return ""
	}
	return "; mkdir " + strings.Join(missing, " ") + " before keeps it, and nothing is put there"
}

// everybodys reports whether every user makes files in a directory, as in /tmp.
//
// Files made there anew are lost, for want of a clean way to keep them beside a folder
// that is not to be seen outside:
//   - A folder made in the real directory to mount on is seen outside, and stays when
//     we are killed. One that is removed again takes the mount with it in every
//     namespace (detach_mounts in fs/namei.c).
//   - An overlay with the real directory as its upper layer needs a working directory
//     on the same mount, where it is seen outside and stays when we are killed; the
//     removal of a file of the host leaves a whiteout there; and what others change
//     below it meanwhile is undefined (Documentation/filesystems/overlayfs.rst).
//   - FUSE that passes new files on: a socket is found by its inode (unix_find_bsd in
//     net/unix/af_unix.c), which is FUSE's inside and the real one's outside. One made
//     on either side is refused on the other, such as X11's of a server that starts
//     later. And the server would make files as root for users, past their quotas.
func everybodys(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o002 != 0
}
