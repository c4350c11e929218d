package inroot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// An Info is what lstat(2) says of a path.
type Info struct {
	Mode     fs.FileMode // type and permission bits
	Size     int64
	UID, GID uint32
	Dev, Ino uint64
}

// Lstat returns what is at p; a link in the last component is not followed.
func (r *Root) Lstat(p string) (Info, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return Info{}, explain("lstat", p, err)
	}
	if st, ok, err := a.glance(q); ok {
		return Info{
			Mode: fileType(uint32(st.Mode)) | fs.FileMode(st.Mode&0o777), Size: int64(st.Size), UID: st.Uid, GID: st.Gid,
			Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino,
		}, explain("lstat", p, err)
	}
	fd, err := r.look(p, unix.O_NOFOLLOW)
	if err != nil {
		return Info{}, explain("lstat", p, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := calls.Fstat(fd, &st); err != nil {
		return Info{}, explain("lstat", p, err)
	}
	return Info{Mode: fileType(st.Mode) | fs.FileMode(st.Mode&0o777), Size: st.Size, UID: st.Uid, GID: st.Gid, Dev: st.Dev, Ino: st.Ino}, nil
}

func fileType(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	}
	return fs.ModeDevice
}

// Readlink returns the text of the link at p.
func (r *Root) Readlink(p string) (string, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return "", explain("readlink", p, err)
	}
	if st, ok, err := a.glance(q); ok {
		var text string
		if err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
			err = unix.EINVAL
		}
		if err == nil {
			text, err = calls.Readlinkat(a.pinned.fd, path.Base(q))
		}
		return text, explain("readlink", p, err)
	}
	fd, err := r.look(p, unix.O_NOFOLLOW)
	if err != nil {
		return "", explain("readlink", p, err)
	}
	defer unix.Close(fd)
	text, err := calls.Readlinkat(fd, "")
	if err == unix.ENOENT { // of a descriptor: no link
		err = unix.EINVAL
	}
	return text, explain("readlink", p, err)
}

// ReadFile reads the regular file at p, links followed. More than limit bytes,
// or anything but a regular file, is an error: a FIFO or a device never blocks or
// acts.
func (r *Root) ReadFile(p string, limit int64) ([]byte, error) {
	f, size, err := r.openRegular(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, p, size, limit)
}

func readAll(f io.Reader, p string, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("%w of %d bytes: has %d", ErrLimit, limit, size)}
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // some file systems say 0
	if _, err := buf.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, &fs.PathError{Op: "read", Path: p, Err: cause(err)}
	}
	data := buf.Bytes()
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("%w of %d bytes: it grew", ErrLimit, limit)}
	}
	return data, nil
}

// cause takes the path off an error: the path of a descriptor says nothing.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// OpenFile opens the regular file at p for reading, links followed. The caller
// bounds what it reads.
func (r *Root) OpenFile(p string) (File, error) {
	f, _, err := r.openRegular(p)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *Root) openRegular(p string) (*file, int64, error) {
	fd, err := r.look(p, 0)
	if err != nil {
		return nil, 0, explain("open", p, err)
	}
	defer unix.Close(fd)
	f, st, err := openFD(fd)
	if err == errNotRegular {
		return nil, 0, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	return f, st.Size, explain("open", p, err)
}

var errNotRegular = errors.New("not a regular file")

// openFD opens the object of an O_PATH descriptor for reading if it is a regular
// file. The open file and its size are of one inode.
func openFD(fd int) (*file, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := calls.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, errNotRegular
	}
	f, err := reopen(fd)
	return f, st, err
}

// ReadDir returns at most limit names of the directory at p, sorted, links
// followed. More than limit names is an error.
func (r *Root) ReadDir(p string, limit int) ([]string, error) {
	fd, err := r.look(p, unix.O_DIRECTORY)
	if err != nil {
		return nil, explain("open", p, err)
	}
	defer unix.Close(fd)
	f, err := listing(fd)
	if err != nil {
		return nil, explain("open", p, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: cause(err)}
	}
	if len(names) > limit {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: fmt.Errorf("%w of %d names", ErrLimit, limit)}
	}
	slices.Sort(names)
	return names, nil
}

// listing opens a directory, held by an O_PATH descriptor, for its names.
func listing(dir int) (*os.File, error) {
	fd, err := calls.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "."), nil
}
