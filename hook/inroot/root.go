// Package inroot reads and changes files inside a container's root file system
// on behalf of a process with the host's privileges.
//
// The image is hostile: it may have any link, mount, device or FIFO anywhere,
// and may change them at any time. So the root directory is opened once, and
// every path is resolved by openat2(2) from that descriptor with RESOLVE_IN_ROOT
// (links mean what they mean to the container; ".." stops at the root),
// RESOLVE_NO_MAGICLINKS (nothing through /proc/1/root) and RESOLVE_NO_XDEV
// (nothing through a mount, which can lead to the host without any link). If
// openat2 is missing or filtered, a walker of O_PATH descriptors that checks mount
// ids does the same. No joined path ever reaches the kernel, and nothing is
// opened for reading before it is known to be a regular file: opening a device
// node can have side effects.
//
// Two mounts may be crossed: the fresh tmpfs on /dev, and, for reading, what
// the plan itself mounts (Admit). Everything is done with the rights of the
// container's root (Enter), not with the host's.
//
// It does not enter namespaces, it mounts only what its caller hands it (Attach),
// and it does not protect the result from later changes by the image.
package inroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// MaxRetries is how often one path is tried while the image changes under it:
// openat2 answers EAGAIN then. Under attack about 0.1 % of calls need one.
const MaxRetries = 128

// ErrMount marks a change that would go through a mount below the root.
var ErrMount = errors.New("a mount is in the way")

// ErrInTheWay marks an object of the image where one of ours shall be.
var ErrInTheWay = errors.New("something else is in the way")

// ErrLimit marks something of the image that is larger than the caller reads.
var ErrLimit = errors.New("over the limit")

// A Root is a pinned root directory. It is not safe for concurrent use.
type Root struct {
	fd       int
	mount    uint64
	walk     bool // openat2 cannot be used
	name     string
	owner    Owner
	tag      string
	dev      *Root           // the fresh tmpfs on /dev, once it was looked at; nil: none
	attached map[uint64]bool // mounts that Attach made
	// mapped says that the container's root has other ids than ours, on disk or by
	// its mounts.
	mapped   bool
	admitted admitted
	pinned   pinned
	// beneath refuses absolute links and ".." above the root, where the root is
	// not the root directory of the container but a second anchor in it.
	beneath  bool
	unsynced map[string]bool // directories that got or lost an entry
}

// An Owner is who shall own what is made, in the numbers of our user namespace.
type Owner struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// Options of Open. The zero value suits a root that the host's root owns.
type Options struct {
	Owner Owner
	// Tag tells this user's temporaries from those of others that work on the
	// same root: eight characters of [0-9a-f]; empty: "00000000".
	Tag string
	// Walk uses the walker even where openat2 works: for tests of the walker.
	Walk bool
}

// Open pins the directory at name, which is the caller's own, trusted path; its
// last component must not be a link.
func Open(name string, o Options) (*Root, error) {
	fd, err := calls.Openat(unix.AT_FDCWD, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		if err == unix.ELOOP || err == unix.ENOTDIR {
			return nil, fmt.Errorf("container root %q is not a directory: %w", name, err)
		}
		return nil, fmt.Errorf("container root %q: %w", name, err)
	}
	return OpenFD(fd, name, o)
}

// OpenFD takes over fd, an open directory; name is for messages.
func OpenFD(fd int, name string, o Options) (*Root, error) {
	_, err := hostProc() // without it, much could be made before a file must be read
	var id uint64
	if err == nil {
		id, err = mountID(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("container root %q: %w", name, err)
	}
	if o.Tag == "" {
		o.Tag = "00000000"
	}
	r := &Root{fd: fd, mount: id, name: name, owner: o.Owner, tag: o.Tag, walk: o.Walk, mapped: o.Owner != Owner{} && os.Geteuid() == 0, unsynced: map[string]bool{}}
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
		r.dev.Close()
		r.dev = nil
	}
	r.unpin()
	return unix.Close(r.fd)
}

// Pass shows f the descriptor of the root directory, for rules of the kernel's
// that name it.
func (r *Root) Pass(f func(dir int)) { f(r.fd) }

// IsMountPoint reports whether something is mounted on the root directory; up
// is the directory that it is in.
func (r *Root) IsMountPoint(up string) (bool, error) {
	fd, err := calls.Openat(unix.AT_FDCWD, up, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false, fmt.Errorf("%s: %w", up, err)
	}
	defer unix.Close(fd)
	id, err := mountID(fd)
	return id != r.mount, err
}

// crossing says whether a path may lead through mounts. What was found through
// one is only identified, never read, unless it is admitted.
type crossing bool

const (
	anyMount  crossing = true
	sameMount crossing = false
)

// find returns an O_PATH descriptor of what is at p inside the root. flags are
// O_NOFOLLOW, O_DIRECTORY or none.
func (r *Root) find(p string, flags int, x crossing) (int, error) {
	p, err := rel(p)
	if err != nil {
		return -1, err
	}
	if !r.walk {
		fd, err := r.find2(p, flags, x)
		if err != unix.ENOSYS && err != unix.EPERM {
			return fd, err
		}
		// A filter that came after our probe answers ENOSYS or EPERM; a plain
		// EPERM of the file system comes back from the walker.
		r.walk = true
	}
	return r.findWalking(p, flags, x)
}

func (r *Root) find2(p string, flags int, x crossing) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_PATH | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
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

// openDir opens the directory p for changes in it.
func (r *Root) openDir(p string) (int, error) { return r.find(p, unix.O_DIRECTORY, sameMount) }

// child opens what a directory of ours has under a name, by O_PATH, and refuses
// what is mounted there.
func (r *Root) child(dir int, name string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := calls.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, st, err
	}
	err = calls.Fstat(fd, &st)
	if err == nil {
		var id uint64
		if id, err = mountID(fd); err == nil && id != r.mount {
			err = unix.EXDEV
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
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
	if _, ok := err.(*fs.PathError); ok { // it is one already
		return err
	}
	switch err {
	case nil:
		return nil
	case unix.EXDEV:
		return &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("%w (%w)", ErrMount, err)}
	case unix.ELOOP:
		return &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("a link loop, or a link into /proc: %w", err)}
	case unix.EAGAIN:
		return &fs.PathError{Op: op, Path: p, Err: fmt.Errorf("the container keeps changing it: %w", err)}
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}
