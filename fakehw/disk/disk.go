// Package disk writes a tree as real files: directories, files, links, and,
// where the kernel permits, owners, device nodes, sockets and pipes.
//
// It only creates: if an object exists already, that is an error and the object is
// not changed. The result lists what the kernel did not permit, so that nothing
// is missing silently. Removing the files is left to the caller.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// ErrName marks a directory entry that no file system can hold.
var ErrName = errors.New("not a file name")

// Options adjust Write. The zero value makes no device nodes and reports them.
type Options struct {
	// Mknod makes device nodes, which takes privilege (CAP_MKNOD): without it
	// Write fails at the first. False: they are listed in the result.
	Mknod bool
	// Leave names directories of the tree that are made but left empty, since
	// something else is mounted there: "/dev".
	Leave []string
	// Only says what is written, by its name in a directory of the tree, and with it
	// what is below; nil: everything.
	Only func(dir, name string, e *tree.Entry) bool
}

// A Missing is one property of a tree that the files on disk do not have.
type Missing struct {
	Path string // in the tree
	What string // "char 195:0", "owner 0:44"
	Err  error  // why
}

func (m Missing) String() string { return fmt.Sprintf("%s: %s: %v", m.Path, m.What, m.Err) }

// ErrNotAsked is the reason of device nodes that Options did not ask for.
var ErrNotAsked = errors.New("device nodes were not asked for")

// Write makes the tree t below the directory dir, which is made if it is not
// there. It returns what could not be made, by path. Directories that nobody may
// write, those of procfs, can be written by their owner where that is not root,
// who could not remove them else.
//
// The error is the first failure; what was written until then stays.
func Write(ctx context.Context, t *tree.Tree, dir string, opts Options) ([]Missing, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write tree: %w", err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("write tree: %w", &fs.PathError{Op: "open", Path: dir, Err: err})
	}
	defer unix.Close(fd)
	return WriteAt(ctx, t, fd, opts)
}

// WriteAt is Write into the directory that dirfd refers to.
func WriteAt(ctx context.Context, t *tree.Tree, dirfd int, opts Options) ([]Missing, error) {
	root, err := t.Entry("/")
	if err != nil {
		return nil, err
	}
	w := &writer{opts: opts}
	w.probe(dirfd)
	if err := w.children(ctx, dirfd, "/", root); err != nil {
		return nil, fmt.Errorf("write tree: %w", err)
	}
	if err := w.finish(spot{dirfd, ".", "/"}, root); err != nil {
		return nil, fmt.Errorf("write tree: %w", err)
	}
	slices.SortStableFunc(w.missing, func(a, b Missing) int { return cmp.Compare(a.Path, b.Path) })
	return w.missing, nil
}

// A writer is one run of Write.
type writer struct {
	opts     Options
	known    bool        // what follows is known
	uid, gid uint32      // whom a new file belongs to
	grant    fs.FileMode // permission bits that a new file, folder or node gets when asked

	mu      sync.Mutex
	missing []Missing
}

// crowd is how many entries make a directory worth a goroutine.
const crowd = 256

// A spot is where something is made.
type spot struct {
	dirfd int
	name  string
	dir   string // the path of dirfd in the tree
}

// path is made where it is asked for: of thousands of files, for the few that fail.
func (s spot) path() string { return path.Join(s.dir, s.name) }

func (s spot) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: s.path(), Err: err}
}

// miss notes what could not be made.
func (w *writer) miss(m Missing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing = append(w.missing, m)
}

// probe finds out what a new file gets without asking twice, which halves the
// system calls. The umask does not tell: a default ACL takes its place, and a
// set-group-id directory hands its group down.
func (w *writer) probe(dirfd int) {
	fd, err := unix.Openat(dirfd, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o777)
	if err != nil {
		return // not every file system has it
	}
	defer unix.Close(fd)
	var st, dir unix.Stat_t
	if unix.Fstat(fd, &st) != nil || unix.Fstat(dirfd, &dir) != nil {
		return
	}
	if dir.Mode&unix.S_ISGID != 0 {
		return // folders would get the bit as well
	}
	w.known, w.uid, w.gid, w.grant = true, st.Uid, st.Gid, fs.FileMode(st.Mode&0o777)
}

// granted reports whether something new has the mode of e from the start.
func (w *writer) granted(e *tree.Entry) bool { return w.known && e.Mode&host.Bits&^w.grant == 0 }

// children writes what is in a directory. A crowd is written beside the rest: it is
// the kernel that takes the time, and it locks one directory at a time.
func (w *writer) children(ctx context.Context, dirfd int, at string, dir *tree.Entry) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", at, context.Cause(ctx))
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	failed := make(chan error, len(dir.Children))
	for _, name := range dir.Names() {
		to, e := spot{dirfd, name, at}, dir.Children[name]
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("%s: entry %q: %w", at, name, ErrName)
		}
		if w.opts.Only != nil && !w.opts.Only(at, name, e) {
			continue
		}
		if len(e.Children) >= crowd {
			beside.Go(func() {
				if err := w.entry(ctx, to, e); err != nil {
					failed <- err
				}
			})
		} else if err := w.entry(ctx, to, e); err != nil {
			return err
		}
	}
	beside.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (w *writer) entry(ctx context.Context, to spot, e *tree.Entry) error {
	switch {
	case e.Mode.IsDir():
		return w.dir(ctx, to, e)
	case e.Mode.IsRegular():
		return w.file(to, e)
	case e.IsLink():
		if err := unix.Symlinkat(e.Target, to.dirfd, to.name); err != nil {
			return to.failed("symlink", err)
		}
		return w.owner(to, e)
	}
	return w.node(to, e)
}

func (w *writer) dir(ctx context.Context, to spot, e *tree.Entry) error {
	mode, done := uint32(0o700), w.granted(e) && e.Mode.Perm()&0o700 == 0o700
	if done {
		mode = host.UnixBits(e.Mode)
	}
	if err := unix.Mkdirat(to.dirfd, to.name, mode); err != nil {
		return to.failed("mkdir", err)
	}
	if p := to.path(); len(e.Children) > 0 && !slices.Contains(w.opts.Leave, p) {
		if !w.known || w.grant&0o700 != 0o700 { // an umask that shuts us out
			if err := unix.Fchmodat(to.dirfd, to.name, 0o700, 0); err != nil {
				return to.failed("chmod", err)
			}
		}
		fd, err := unix.Openat(to.dirfd, to.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return to.failed("open", err)
		}
		err = w.children(ctx, fd, p, e)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	if done {
		return w.owner(to, e)
	}
	// Last, since the mode may forbid even us to make something below.
	return w.finish(to, e)
}

func (w *writer) file(to spot, e *tree.Entry) error {
	fd, err := unix.Openat(to.dirfd, to.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, host.UnixBits(e.Mode))
	if err != nil {
		return to.failed("create", err)
	}
	defer unix.Close(fd)
	for data := e.Data; len(data) > 0; {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return to.failed("write", err)
		}
		data = data[n:]
	}
	if err := w.owner(to, e); err != nil {
		return err
	}
	if w.granted(e) {
		return nil
	}
	if err := unix.Fchmod(fd, host.UnixBits(e.Mode)); err != nil {
		return to.failed("chmod", err)
	}
	return nil
}

// node makes a device node, socket or named pipe.
func (w *writer) node(to spot, e *tree.Entry) error {
	var kind uint32
	dev := 0
	switch {
	case e.IsDevice():
		if !w.opts.Mknod {
			w.miss(Missing{to.path(), Device(e), ErrNotAsked})
			return nil
		}
		kind = unix.S_IFBLK
		if e.DeviceType() == device.Char {
			kind = unix.S_IFCHR
		}
		dev = int(unix.Mkdev(e.Num.Major, e.Num.Minor))
	case e.Mode&fs.ModeSocket != 0:
		kind = unix.S_IFSOCK
	case e.Mode&fs.ModeNamedPipe != 0:
		kind = unix.S_IFIFO
	default:
		return to.failed("create", fmt.Errorf("file type %v: %w", e.Mode.Type(), errors.ErrUnsupported))
	}
	// A node that is another's is nobody's until it has its owner.
	mode, done := uint32(0o600), w.granted(e) && e.UID == w.uid && e.GID == w.gid
	if done {
		mode = host.UnixBits(e.Mode)
	}
	if err := unix.Mknodat(to.dirfd, to.name, kind|mode, dev); err != nil {
		return to.failed("mknod", err)
	}
	if done {
		return nil
	}
	return w.finish(to, e)
}

// Device says what a device node is, "char 195:0".
func Device(e *tree.Entry) string {
	if e.DeviceType() == device.Char {
		return "char " + e.Num.String()
	}
	return "block " + e.Num.String()
}

// finish sets owner and mode of what is no link.
func (w *writer) finish(to spot, e *tree.Entry) error {
	if err := w.owner(to, e); err != nil {
		return err
	}
	mode := host.UnixBits(e.Mode)
	if e.Mode.IsDir() && os.Geteuid() != 0 {
		mode |= 0o200
	}
	if err := unix.Fchmodat(to.dirfd, to.name, mode, 0); err != nil {
		return to.failed("chmod", err)
	}
	return nil
}

// owner changes the owner where it is another's. A refusal is not an error: it
// is in the result.
func (w *writer) owner(to spot, e *tree.Entry) error {
	if w.known && e.UID == w.uid && e.GID == w.gid {
		return nil
	}
	err := unix.Fchownat(to.dirfd, to.name, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW)
	switch err {
	case nil:
	case unix.EPERM, unix.EINVAL: // EINVAL: no such id in our user namespace
		w.miss(Missing{to.path(), fmt.Sprintf("owner %d:%d", e.UID, e.GID), err})
	default:
		return to.failed("chown", err)
	}
	return nil
}
