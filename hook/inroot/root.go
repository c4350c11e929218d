// Package inroot reads and changes files inside a container's root file system
// on behalf of a process with the host's rights.
//
// The image is hostile: it may have any link, mount, device or FIFO anywhere,
// and may change them while we work. So the root directory is opened once, and
// every path goes through openat2(2) from that descriptor with RESOLVE_IN_ROOT
// (links mean what they mean to the container; ".." stops at the root),
// RESOLVE_NO_MAGICLINKS (nothing through /proc/1/root) and, for every change,
// RESOLVE_NO_XDEV (nothing through a mount, where no link is needed to reach the
// host). Where openat2 is missing or filtered, a walker of O_PATH descriptors
// with a mount id check does the same. No joined path ever reaches the kernel.
//
// What it does not do: it does not enter namespaces, and it does not make the
// outcome right if the image changes it afterwards.
package inroot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxRetries is how often one path is tried while the image changes under it:
// openat2 answers EAGAIN then. Under attack about 0.1 % of calls need one.
const MaxRetries = 128

// ErrMount marks a change that would go through a mount below the root.
var ErrMount = errors.New("a mount is in the way")

// ErrInTheWay marks an object of the image where one of ours shall be.
var ErrInTheWay = errors.New("something else is in the way")

// A Root is a pinned root directory. It is not safe for concurrent use.
type Root struct {
	fd    int
	mount uint64
	walk  bool // openat2 cannot be used
	name  string
	owner Owner
	dev   *Root // the fresh tmpfs on /dev, once it was looked at; nil: none
	// beneath refuses absolute links and ".." above the root, where the root is
	// not the root directory of the container but a second anchor in it.
	beneath bool
}

// An Owner is who shall own what is made, in the host's numbers.
type Owner struct{ UID, GID uint32 }

// Options of Open. The zero value suits a root that the host's root owns.
type Options struct {
	Owner Owner
	// Walk uses the walker even where openat2 works: for tests of the walker.
	Walk bool
}

// Open pins the directory at name, which is the caller's own, trusted path; its
// last component must not be a link.
func Open(name string, o Options) (*Root, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if err == unix.ELOOP || err == unix.ENOTDIR {
			return nil, fmt.Errorf("container root %q is not a directory: %w", name, err)
		}
		return nil, fmt.Errorf("container root %q: %w", name, err)
	}
	return pin(fd, name, o)
}

// OpenFD takes over fd, an open directory; name is for messages.
func OpenFD(fd int, name string, o Options) (*Root, error) { return pin(fd, name, o) }

func pin(fd int, name string, o Options) (*Root, error) {
	id, err := mountID(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("container root %q: %w", name, err)
	}
	r := &Root{fd: fd, mount: id, name: name, owner: o.Owner, walk: o.Walk}
	if !r.walk {
		probe, err := unix.Openat2(fd, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
		if err == nil {
			unix.Close(probe)
		} else {
			r.walk = true
		}
	}
	return r, nil
}

// Close releases the root.
func (r *Root) Close() error {
	if r.dev != nil {
		unix.Close(r.dev.fd)
		r.dev = nil
	}
	return unix.Close(r.fd)
}

// Name is what the root was opened as, for messages.
func (r *Root) Name() string { return r.name }

// mountID returns the id of the mount that fd is on. Kernels before 5.8 have no
// STATX_MNT_ID; the device number stands in for it there, which still tells a
// bind mount of another file system.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st); err != nil {
		return 0, fmt.Errorf("statx: %w", err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return math.MaxUint32<<32 | uint64(st.Dev_major)<<20 | uint64(st.Dev_minor), nil
	}
	return st.Mnt_id, nil
}

// crossing says whether a path may lead through mounts.
type crossing bool

const (
	anyMount  crossing = true  // for reading
	sameMount crossing = false // for changing
)

// open opens p inside the root. flags must not have O_CREAT.
func (r *Root) open(p string, flags int, x crossing) (int, error) {
	p, err := rel(p)
	if err != nil {
		return -1, err
	}
	flags |= unix.O_CLOEXEC
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NOCTTY // openat2 refuses it beside O_PATH
	}
	if !r.walk {
		fd, err := r.open2(p, flags, x)
		if err != unix.ENOSYS && err != unix.EPERM {
			return fd, err
		}
		// A filter that came after our probe answers ENOSYS or EPERM; a plain
		// EPERM of the file system comes back from the walker.
		r.walk = true
	}
	return r.openWalking(p, flags, x)
}

func (r *Root) open2(p string, flags int, x crossing) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if r.beneath {
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	}
	if x == sameMount {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	var err error
	for range MaxRetries {
		var fd int
		fd, err = unix.Openat2(r.fd, p, &how)
		if err == nil {
			return fd, nil
		}
		if err != unix.EAGAIN && err != unix.EINTR {
			break
		}
	}
	return -1, err
}

// rel turns an absolute, clean path into one relative to the root descriptor.
func rel(p string) (string, error) {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
		return "", fmt.Errorf("path %q is not absolute and clean: %w", p, unix.EINVAL)
	}
	if p == "/" {
		return ".", nil
	}
	return p[1:], nil
}

// explain turns an errno into a sentence with the path.
func explain(op, p string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.EXDEV:
		return &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("%w (%w)", ErrMount, err)}
	case unix.ELOOP:
		return &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("a link loop, or a link into /proc: %w", err)}
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// Lstat returns what is at p; a link in the last component is not followed.
func (r *Root) Lstat(p string) (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := r.open(p, unix.O_PATH|unix.O_NOFOLLOW, anyMount)
	if err != nil {
		return st, explain("lstat", p, err)
	}
	defer unix.Close(fd)
	return st, explain("lstat", p, unix.Fstat(fd, &st))
}

// Readlink returns the text of the link at p.
func (r *Root) Readlink(p string) (string, error) {
	fd, err := r.open(p, unix.O_PATH|unix.O_NOFOLLOW, anyMount)
	if err != nil {
		return "", explain("readlink", p, err)
	}
	defer unix.Close(fd)
	text, err := readlinkat(fd, "")
	return text, explain("readlink", p, err)
}

func readlinkat(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// ReadFile reads the regular file at p, links followed, mounts crossed. More
// than limit bytes, or anything but a regular file, is an error: a FIFO or a
// device never blocks or acts.
func (r *Root) ReadFile(p string, limit int64) ([]byte, error) {
	f, size, err := r.openRegular(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("has %d bytes, the limit is %d", size, limit)}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: p, Err: err}
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("grew over the limit of %d bytes", limit)}
	}
	return data, nil
}

// OpenFile opens the regular file at p for reading, links followed, mounts
// crossed. The caller bounds what it reads.
func (r *Root) OpenFile(p string) (*os.File, error) {
	f, _, err := r.openRegular(p)
	return f, err
}

func (r *Root) openRegular(p string) (*os.File, int64, error) {
	fd, err := r.open(p, unix.O_RDONLY|unix.O_NONBLOCK, anyMount)
	if err != nil {
		return nil, 0, explain("open", p, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, 0, explain("stat", p, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, 0, &fs.PathError{Op: "open", Path: p, Err: errors.New("not a regular file")}
	}
	return os.NewFile(uintptr(fd), p), st.Size, nil
}

// ReadDir returns at most limit names of the directory at p, sorted, links
// followed, mounts crossed. More than limit names is an error.
func (r *Root) ReadDir(p string, limit int) ([]string, error) {
	fd, err := r.open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, anyMount)
	if err != nil {
		return nil, explain("open", p, err)
	}
	return readNames(os.NewFile(uintptr(fd), p), p, limit)
}

func readNames(f *os.File, p string, limit int) ([]string, error) {
	defer f.Close()
	names, err := f.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: err}
	}
	if len(names) > limit {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: fmt.Errorf("more than %d names", limit)}
	}
	slices.Sort(names)
	return names, nil
}
