// Package fusefs serves a tree as a FUSE file system to every program on the
// machine, including device nodes with their numbers, owners and modes, and
// without privileges.
//
// Mount mounts it, MountAt does so on a descriptor. Both use mount
// system calls if this process may mount (as root, or inside its own user
// namespace), otherwise the set-uid helper fusermount3.
//
// Nothing is copied: each operation uses the tree's current entry.
// Unless Options say otherwise the mount is read-only, and device nodes are
// visible but cannot be opened. Never memory-map a file of a mount that the same
// process serves: the page fault waits for a server that waits for the page fault.
//
// Reference: https://docs.kernel.org/filesystems/fuse/fuse.html
package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	fusenode "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"gpurig/fakehw/tree"
)

// Name is the file system's name in the mount table: "fuse.gpurig".
const Name = "gpurig"

// ErrUnavailable marks a machine on which this process can mount no FUSE.
var ErrUnavailable = errors.New("FUSE is not available here")

// An Error says why a tree was not mounted.
type Error struct {
	Dir  string // mount point; empty when it was a descriptor
	Err  error
	Hint string // what to allow, one sentence
}

func (e *Error) Error() string {
	if e.Dir == "" {
		return fmt.Sprintf("mount tree: %v", e.Err)
	}
	return fmt.Sprintf("mount tree on %s: %v", e.Dir, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Options adjust a mount. The zero value offers the whole of a tree that does
// not change.
type Options struct {
	// Sub is the directory of the tree to offer, "/dev"; empty: its root.
	Sub string
	// Lock is held while the tree is read. Setting it also says that the tree
	// changes while it is mounted: the kernel is told to keep nothing, but for Watch.
	Lock sync.Locker
	// Watch has changed called after each change of the tree, before the write that
	// made it returns and without Lock. The kernel then keeps what it saw until it
	// is told otherwise.
	Watch func(changed func([]tree.Change))
	// Write has what a program wrote to a file below /sys of the tree, by its path
	// there, and must not keep data; all else stays as it is. It is called without
	// Lock. Whoever mounted the tree may then do what root may on a machine, whoever
	// they are here; by fusermount3, they alone see the mount. Nil: the mount is
	// read-only.
	Write func(path string, data []byte) syscall.Errno
	// OneOwner gives everything of the tree to root, for a mount of a user
	// namespace that knows nobody else (see Union).
	OneOwner bool
	// Dev lets device nodes be opened, which takes a mount by real root.
	Dev bool
	// Helper mounts by fusermount3 though we might mount ourselves.
	Helper bool
	// Log receives what the FUSE library has to say, at level Debug; nil
	// discards it. Requests that fail are answered with an errno, not logged.
	Log *slog.Logger

	writable bool // the mount is not read-only
}

// A Mounted is a mounted tree. Call Unmount when done; a server that dies takes
// its mount's contents with it, but not the mount.
type Mounted struct {
	Dir    string // mount point, absolute; empty for MountAt
	helper string // fusermount3, when it made the mount
	server *fuse.Server
	served chan struct{} // closed when no request will come any more
	once   sync.Once
	lazy   bool
	err    error
}

// Mount offers t on the directory dir, which must exist. Other users see it
// too, except that fusermount3 allows this only where /etc/fuse.conf has
// user_allow_other. The error is an *Error.
func Mount(ctx context.Context, t *tree.Tree, dir string, opts Options) (*Mounted, error) {
	fail := func(err error, hint string) (*Mounted, error) {
		return nil, &Error{Dir: dir, Err: err, Hint: hint}
	}
	if ctx.Err() != nil {
		return fail(context.Cause(ctx), "")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fail(err, "")
	}
	if !opts.Helper {
		fd, err := unix.Open(abs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail(&fs.PathError{Op: "open", Path: abs, Err: err}, "")
		}
		defer unix.Close(fd)
		opts.writable = opts.Write != nil
		m, err := MountAt(ctx, t, fd, opts)
		if err == nil {
			m.Dir = abs
			return m, nil
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSYS) {
			if e, ok := errors.AsType[*Error](err); ok {
				return fail(e.Err, e.Hint)
			}
			return fail(err, "")
		}
	}
	helper, err := exec.LookPath("fusermount3")
	if err != nil {
		return fail(fmt.Errorf("%w: no right to mount, and no fusermount3", ErrUnavailable), "install fuse3, or run as root")
	}
	conn, err := viaHelper(ctx, helper, abs, opts.Write != nil)
	if err != nil {
		return fail(err, "see fusermount3(1): the mount point must be yours, and /dev/fuse must exist")
	}
	m, err := Serve(ctx, t, conn, opts)
	if err != nil {
		_ = unmountAt(abs, helper, true) // the first error is the one to tell
		return fail(err, "")
	}
	m.Dir, m.helper = abs, helper
	return m, m.settle(abs)
}

// MountAt offers t on the directory that dirfd refers to, by mount system
// calls. Unmount the mount yourself (umount2, or the end of the namespace):
// Unmount only waits for that.
func MountAt(ctx context.Context, t *tree.Tree, dirfd int, opts Options) (*Mounted, error) {
	conn, mnt, err := direct(opts)
	if err != nil {
		return nil, &Error{Err: err, Hint: "mounting takes root or a user namespace of one's own, and /dev/fuse open to the user (mode 0666)"}
	}
	defer unix.Close(mnt)
	m, err := Serve(ctx, t, conn, opts)
	if err != nil {
		return nil, &Error{Err: err}
	}
	if err := unix.MoveMount(mnt, "", dirfd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return nil, &Error{Err: fmt.Errorf("attach: %w", err)}
	}
	return m, m.settleAt(mnt)
}

// Serve answers requests on the connection conn (see Connect), which it owns from
// now on, until its last mount is gone.
func Serve(ctx context.Context, t *tree.Tree, conn int, opts Options) (*Mounted, error) {
	if opts.Sub == "" {
		opts.Sub = "/"
	}
	if opts.Lock == nil {
		opts.Lock = noLock{}
	}
	shared := &view{t: t, sub: opts.Sub, lock: opts.Lock, write: opts.Write, oneOwner: opts.OneOwner}
	root, err := shared.top()
	if err == nil && !root.Mode.IsDir() {
		err = &fs.PathError{Op: "mount", Path: opts.Sub, Err: unix.ENOTDIR}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		unix.Close(conn)
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	keep := stable
	if _, static := opts.Lock.(noLock); !static {
		shared.live = true
		if opts.Watch == nil {
			keep = 0
		}
	}
	o := &fusenode.Options{
		EntryTimeout: &keep, AttrTimeout: &keep, NegativeTimeout: &keep,
		NullPermissions: true,
		MountOptions: fuse.MountOptions{
			Name: Name, FsName: Name, DisableXAttrs: true, MaxWrite: 128 << 10,
			EnableSymlinkCaching: !shared.live,
			Logger:               slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
		},
	}
	top := &node{v: shared, path: path.Clean(opts.Sub), born: time.Now()}
	raw := fusenode.NewNodeFS(top, o)
	server, err := fuse.NewServer(raw, fmt.Sprintf("/dev/fd/%d", conn), &o.MountOptions)
	if err != nil {
		return nil, err // the server has closed conn
	}
	l, err := newLoop(server, raw, &o.MountOptions, conn)
	if err != nil {
		return nil, err // conn goes with the server
	}
	if opts.Watch != nil {
		opts.Watch(func(changes []tree.Change) {
			for _, c := range changes {
				if rel, ok := below(c.Path, top.path); ok && rel != "" {
					forget(top.EmbeddedInode(), rel, c.Kind)
				}
			}
		})
	}
	m := &Mounted{server: server, served: make(chan struct{})}
	go func() {
		defer close(m.served)
		l.serve()
		server.Serve() // has nothing to serve: it closes the connection
	}()
	return m, nil
}

// Served is closed when the mount is gone and its last user too.
func (m *Mounted) Served() <-chan struct{} { return m.served }

// Unmount takes the mount away at once. Programs that use it, by a file that
// they have open or their working directory, keep what they have until the
// server ends: Lazy then says so. A second call returns what the first did.
func (m *Mounted) Unmount() error {
	m.once.Do(func() { m.err = m.unmount() })
	return m.err
}

// Lazy reports whether programs used the mount when Unmount took it away.
func (m *Mounted) Lazy() bool { return m.lazy }

func (m *Mounted) unmount() error {
	select {
	case <-m.served:
		return nil // somebody else has
	default:
	}
	if m.Dir == "" {
		return nil // whoever gave the descriptor unmounts it
	}
	if unmountAt(m.Dir, m.helper, false) == nil {
		return nil
	}
	m.lazy = true
	return unmountAt(m.Dir, m.helper, true)
}

// unmountAt takes what is mounted on dir away, by the program helper if there is
// one to name. Lazy says that it need not be unused.
func unmountAt(dir, helper string, lazy bool) error {
	if helper != "" {
		args := []string{"-u", "-z", "--", dir}
		if !lazy {
			args = []string{"-u", "--", dir}
		}
		cmd := exec.Command(helper, args...)
		cmd.SysProcAttr = alone()
		if out, err := cmd.CombinedOutput(); err != nil {
			return &Error{Dir: dir, Err: fmt.Errorf("unmount: %s: %w", firstLine(out), err)}
		}
		return nil
	}
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	if err := unix.Unmount(dir, flags); err != nil {
		return &Error{Dir: dir, Err: os.NewSyscallError("umount2", err)}
	}
	return nil
}

// alone has a helper be in no process group of ours: what the keys of a terminal
// send us must not kill it half-way.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// firstLine makes what a program wrote one line.
func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return cmp.Or(line, "it says nothing")
}

type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}
