package inroot

import (
	"errors"
	"io"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// maxSweep bounds how many names of one directory a sweep looks at.
const maxSweep = 200_000

// A judge says whether what a directory has under a name is ours to remove. An
// error is neither yes nor no.
type judge func(a *Root, dir int, name string) (bool, error)

// RemoveLink removes the link p if its text is one of texts, and reports whether
// it did. Anything else there is left alone.
func (r *Root) RemoveLink(p string, texts ...string) (bool, error) {
	return r.removeIf(p, 0, func(_ *Root, dir int, name string) (bool, error) {
		old, err := calls.Readlinkat(dir, name)
		if err == unix.EINVAL { // no link
			err = nil
		}
		return old != "" && slices.Contains(texts, old), err
	})
}

// RemoveEmpty removes the file p if it is still regular and empty, or the
// directory p if it is still there and empty, and reports whether it did.
func (r *Root) RemoveEmpty(p string, isDir bool) (bool, error) {
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	return r.removeIf(p, flags, func(a *Root, dir int, name string) (bool, error) {
		fd, st, err := a.child(dir, name)
		if err != nil {
			return false, err
		}
		defer unix.Close(fd)
		if isDir {
			return st.Mode&unix.S_IFMT == unix.S_IFDIR && isEmpty(fd), nil
		}
		f, _, err := openFD(fd)
		if err == errNotRegular {
			return false, nil
		}
		if err == unix.EACCES { // LXD makes mount points that nobody may read
			return st.Mode&0o777 == 0 && st.Size == 0, nil
		}
		if err != nil {
			return false, err
		}
		defer f.Close()
		// Some file systems say that every file has a size of 0.
		if _, err = f.Read(make([]byte, 1)); err == io.EOF {
			return true, nil
		}
		return false, err
	})
}

// isEmpty looks into a directory: rmdir refuses a full one too, but on a
// read-only file system it says something else of it.
func isEmpty(dir int) bool {
	f, err := listing(dir)
	if err != nil {
		return true // let rmdir tell
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return err != nil
}

// RemoveFile removes the regular file p of at most limit bytes if same says so
// of its contents, and reports whether it did.
func (r *Root) RemoveFile(p string, limit int64, same func(data []byte) bool) (bool, error) {
	return r.removeIf(p, 0, func(a *Root, dir int, name string) (bool, error) {
		fd, _, err := a.child(dir, name)
		if err != nil {
			return false, err
		}
		defer unix.Close(fd)
		f, st, err := openFD(fd)
		if err == errNotRegular {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer f.Close()
		data, err := readAll(f, p, st.Size, limit)
		if errors.Is(err, ErrLimit) {
			return false, nil
		}
		return err == nil && same(data), cause(err)
	})
}

// removeIf removes p if ours says that it is. A path that leads nowhere, or by
// now through a mount or a link loop, has nothing of ours.
func (r *Root) removeIf(p string, flags int, ours judge) (bool, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return false, nothing(err)
	}
	dir, err := a.openDir(path.Dir(q))
	if err != nil {
		return false, nothing(explain("open", path.Dir(p), err))
	}
	defer unix.Close(dir)
	yes, err := ours(a, dir, path.Base(q))
	if err != nil || !yes {
		return false, nothing(explain("remove", p, err))
	}
	err = a.unlink(dir, path.Base(q), flags)
	switch err {
	case nil:
		a.unsynced[path.Dir(q)] = true
		return true, nil
	case unix.ENOTEMPTY, unix.EEXIST, unix.EISDIR:
		return false, nil
	}
	return false, nothing(explain("remove", p, err))
}

// nothing turns the errors of a place that cannot hold anything of ours into nil.
func nothing(err error) error {
	for _, none := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, ErrMount} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// Sweep removes temporaries that a killed run with our tag left in the directory
// p, and returns how many. They are known by their name; a directory of that
// name is not ours and stays.
func (r *Root) Sweep(p string) (int, error) {
	a, q, err := r.anchor(path.Join(p, "x"))
	if err != nil {
		return 0, nothing(err)
	}
	dir, err := a.openDir(path.Dir(q))
	if err != nil {
		return 0, nothing(explain("open", p, err))
	}
	defer unix.Close(dir)
	temps, err := r.temps(dir)
	if err != nil {
		return 0, explain("readdir", p, cause(err))
	}
	n := 0
	for _, name := range temps {
		switch err := a.unlink(dir, name, 0); err {
		case nil:
			n++
		case unix.ENOENT, unix.EISDIR, unix.EROFS:
		default:
			return n, explain("remove", path.Join(p, name), err)
		}
	}
	return n, nil
}

// temps lists the temporaries in a directory.
func (r *Root) temps(dir int) ([]string, error) {
	f, err := listing(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	for seen := 0; seen < maxSweep; {
		names, err := f.Readdirnames(1024)
		for _, n := range names {
			if r.isTemp(n) {
				out = append(out, n)
			}
		}
		seen += len(names)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
