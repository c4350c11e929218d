package inroot

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSweep bounds how many names of one directory a sweep looks at.
const maxSweep = 20_000

// RemoveLink removes the link p if it still has that text, and reports whether
// it did. Anything else there is left alone.
func (r *Root) RemoveLink(p, text string) (bool, error) {
	return r.removeIf(p, 0, func(dir int, name string) bool {
		old, err := readlinkat(dir, name)
		return err == nil && old == text
	})
}

// RemoveEmpty removes the file p if it is still regular and empty, or the
// directory p if it is still there and empty, and reports whether it did.
func (r *Root) RemoveEmpty(p string, isDir bool) (bool, error) {
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	return r.removeIf(p, flags, func(dir int, name string) bool {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return false
		}
		if isDir {
			return st.Mode&unix.S_IFMT == unix.S_IFDIR // rmdir itself refuses a full one
		}
		return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0
	})
}

// RemoveFile removes the regular file p if same says so of its contents.
func (r *Root) RemoveFile(p string, same func(data []byte) bool) (bool, error) {
	data, err := r.ReadFile(p, 1<<20)
	if err != nil || !same(data) {
		return false, nil
	}
	return r.removeIf(p, 0, func(dir int, name string) bool {
		var st unix.Stat_t
		return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
	})
}

func (r *Root) removeIf(p string, flags int, still func(dir int, name string) bool) (bool, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return false, err
	}
	dir, err := a.openDir(path.Dir(q))
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return false, nil
	}
	if err != nil {
		return false, explain("open", path.Dir(p), err)
	}
	defer unix.Close(dir)
	name := path.Base(q)
	if !still(dir, name) {
		return false, nil
	}
	switch err := unix.Unlinkat(dir, name, flags); err {
	case nil:
		return true, nil
	case unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST:
		return false, nil
	default:
		return false, explain("remove", p, err)
	}
}

// Sweep removes temporaries that a killed run left in the directory p, and
// returns how many. They are known by their name; a directory of that name is
// not ours and stays.
func (r *Root) Sweep(p string) (int, error) {
	a, q, err := r.anchor(path.Join(p, "x"))
	if err != nil {
		return 0, err
	}
	q = path.Dir(q)
	dir, err := a.openDir(q)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EXDEV {
		return 0, nil
	}
	if err != nil {
		return 0, explain("open", p, err)
	}
	defer unix.Close(dir)
	list, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return 0, explain("open", p, err)
	}
	names, err := readNames(os.NewFile(uintptr(list), p), p, maxSweep)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		if len(name) == len(tempPrefix)+16 && strings.HasPrefix(name, tempPrefix) && unix.Unlinkat(dir, name, 0) == nil {
			n++
		}
	}
	return n, nil
}
