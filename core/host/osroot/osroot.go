// Package osroot reads a real directory as a host.Root: the machine itself
// ("/"), another machine's files mounted somewhere, or a recorded tree.
//
// New opens the directory, and links are resolved inside it as if it were the
// root directory of the process: no link and no ".." leads out of it, even if
// somebody changes the tree meanwhile. Mounts inside it are followed, since
// a machine's root consists of mounts; the kernel's magic links (/proc/1/root)
// are not.
//
// Only regular files are read, up to MaxFile bytes, and without blocking:
// opening a device node may affect the device, and opening a FIFO may block.
package osroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
)

// MaxFile is the size in bytes up to which ReadFile reads. The largest files
// that matter are loader caches and firmware lists, far below it.
const MaxFile = 16 << 20

// Sentinels; errors are *fs.PathError around them.
var (
	ErrTooLarge   = fmt.Errorf("larger than %d MiB", MaxFile>>20)
	ErrNotRegular = errors.New("not a regular file")
	ErrUnconfined = errors.New("no openat2 (Linux 5.6) to keep paths inside the directory")
)

// A Root is a real directory. Close gives the directory up; a Root that nobody
// refers to any more is closed by itself, since a host.Root has no Close.
type Root struct {
	dir *os.File
	// plain: the kernel has no openat2, and the directory is "/", where paths
	// need no confinement.
	plain bool
}

var _ host.Root = (*Root)(nil)

// New opens the directory dir, which may be a link. The error is an
// *fs.PathError; it wraps ErrUnconfined where the kernel cannot keep paths
// inside dir.
func New(dir string) (*Root, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	r := &Root{dir: f}
	fd, err := r.open("/", unix.O_PATH)
	switch {
	case err == nil:
		unix.Close(fd)
		return r, nil
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM): // EPERM: a seccomp filter
		if path.Clean(dir) == "/" {
			r.plain = true
			return r, nil
		}
		err = fmt.Errorf("%w: %w", ErrUnconfined, err)
	}
	f.Close()
	return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
}

// Dir returns what New was given, for messages.
func (r *Root) Dir() string { return r.dir.Name() }

// Close gives up the directory. All methods fail afterwards.
func (r *Root) Close() error { return r.dir.Close() }

// open opens p inside the root, links followed unless flags say O_NOFOLLOW.
func (r *Root) open(p string, flags int) (int, error) {
	if !path.IsAbs(p) {
		return -1, unix.EINVAL
	}
	// "/x/" would follow a link x in spite of O_NOFOLLOW (A39).
	p = path.Clean(p)
	flags |= unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	defer runtime.KeepAlive(r)
	// EAGAIN: the kernel saw a rename on the way and could not rule out an
	// escape. EINTR: a signal.
	for range 128 {
		var fd int
		var err error
		if r.plain {
			fd, err = unix.Open(p, flags, 0)
		} else {
			fd, err = unix.Openat2(int(r.dir.Fd()), p, &how)
		}
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// at opens p without following a link in its last component, for fstat and
// readlink. Nothing is opened for use: a device node stays asleep.
func (r *Root) at(op, p string) (int, error) {
	fd, err := r.open(p, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, &fs.PathError{Op: op, Path: p, Err: err}
	}
	return fd, nil
}

// Lstat is part of host.Root.
func (r *Root) Lstat(p string) (host.Info, error) {
	fd, err := r.at("lstat", p)
	if err != nil {
		return host.Info{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return host.Info{}, &fs.PathError{Op: "lstat", Path: p, Err: err}
	}
	return info(&st), nil
}

// info says in Go's words what stat(2) said.
func info(st *unix.Stat_t) host.Info {
	mode := host.ModeBits(st.Mode)
	out := host.Info{UID: st.Uid, GID: st.Gid, Size: st.Size}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
		out.Size = 0 // the file system's affair
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	}
	if mode&fs.ModeDevice != 0 {
		dev := uint64(st.Rdev)
		out.Num = device.Num{Major: unix.Major(dev), Minor: unix.Minor(dev)}
	}
	out.Mode = mode
	return out
}

// Readlink is part of host.Root.
func (r *Root) Readlink(p string) (string, error) {
	fd, err := r.at("readlink", p)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	// An O_PATH descriptor of a link reads as that link.
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(fd, "", buf)
		if err == unix.ENOENT {
			err = unix.EINVAL // what is not a link, asked by descriptor
		}
		if err != nil {
			return "", &fs.PathError{Op: "readlink", Path: p, Err: err}
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// ReadFile is part of host.Root. The error may wrap ErrNotRegular or
// ErrTooLarge. It reads to the end of file, as attributes of sysfs and procfs
// say nothing true about their size.
func (r *Root) ReadFile(p string) ([]byte, error) {
	fail := func(op string, err error) ([]byte, error) { return nil, &fs.PathError{Op: op, Path: p, Err: err} }
	fd, err := r.openRegular(p)
	if err != nil {
		return fail("open", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail("stat", err)
	}
	if st.Size > MaxFile {
		return fail("read", ErrTooLarge)
	}
	// One byte more than the size, to meet the end of file with the first
	// read; at least a page, which is what sysfs gives at once.
	buf := make([]byte, 0, max(int(st.Size)+1, 4096))
	for {
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fail("read", err)
		case n == 0:
			return buf, nil
		}
		if buf = buf[:len(buf)+n]; len(buf) > MaxFile {
			return fail("read", ErrTooLarge)
		}
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf))
		}
	}
}

// Open opens a regular file for reading at offsets, whatever its size. The error
// may wrap ErrNotRegular.
func (r *Root) Open(p string) (*os.File, error) {
	fd, err := r.openRegular(p)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	return os.NewFile(uintptr(fd), p), nil
}

// openRegular opens p for reading if it is a regular file. It looks before it
// opens, since to open a device node is to use the device, and again after, as
// the name may have changed hands; O_NONBLOCK is for that moment.
func (r *Root) openRegular(p string) (int, error) {
	var st unix.Stat_t
	look, err := r.open(p, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	err = unix.Fstat(look, &st)
	unix.Close(look)
	if err == nil {
		err = regular(&st)
	}
	if err != nil {
		return -1, err
	}
	fd, err := r.open(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = regular(&st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func regular(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	}
	return ErrNotRegular
}

// ReadDir is part of host.Root.
func (r *Root) ReadDir(p string) ([]string, error) {
	fd, err := r.open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	defer unix.Close(fd)
	names := []string{}
	buf := make([]byte, 8192)
	for {
		n, err := unix.ReadDirent(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "readdirent", Path: p, Err: err}
		case n <= 0:
			slices.Sort(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
