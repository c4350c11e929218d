package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	fusenode "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"gpurig/fakehw/tree"
)

// A Union is a file system of several directories side by side, its branches,
// and of files that are made when they are read. Each branch shows a directory
// of a tree in the place of, or among, what a directory of the real machine has.
//
// The kernel keeps what it saw of the tree until Changed tells it otherwise, so
// a path of the tree is as fast as one of a local file system. What is real is
// asked for each time.
type Union struct {
	Tree *tree.Tree
	// Lock is held while the tree is read.
	Lock sync.Locker
	// Write has what a program wrote to a file of the tree, by its path there.
	// It is called without Lock and must not keep data. Nil: the tree is not
	// written to.
	Write func(path string, data []byte) syscall.Errno
	// OneOwner gives everything of the tree to root, for a mount of a user
	// namespace that knows nobody else: the kernel lets no one, not even root,
	// write to what belongs to a stranger (HAS_UNMAPPED_ID).
	OneOwner bool
	Branches map[string]Branch        // by name at the top; names are clean and without a slash
	Files    map[string]func() []byte // read-only files at the top
	Log      *slog.Logger             // nil discards

	given map[*tree.Entry]given // under Lock
	pass  *passthrough
}

// A Branch is one directory at the top of a Union. Its functions get paths below
// it, without a slash in front, "" for itself, and must not keep anything.
type Branch struct {
	Sub string // directory of the tree
	// Point is the name of an empty directory in it that no listing has, to mount
	// on; empty: none.
	Point string
	Real  int // descriptor of a real directory, which must stay open; -1: none
	// Merge reports whether a directory that the tree and the real machine both
	// have shows the entries of both. Else the tree's stands alone.
	Merge func(rel string) bool
	// Hide reports whether something real is not shown.
	Hide func(rel string) bool
	// Deny reports whether a real file must not be written.
	Deny func(rel string) bool
}

// Connect opens a connection to the kernel and makes a mount for it that is not
// attached anywhere yet. Both descriptors are the caller's: conn for Serve, in
// whatever process, mnt for move_mount(2). The owner of the mount is the user
// namespace of the caller. Writable says that the mount is not read-only.
func Connect(opts Options, writable bool) (conn, mnt int, err error) {
	opts.writable = writable
	conn, mnt, err = direct(opts)
	if err != nil {
		return -1, -1, &Error{Err: err, Hint: "mounting takes root or a user namespace of one's own, and /dev/fuse open to the user (mode 0666)"}
	}
	return conn, mnt, nil
}

// stable is how long the kernel may keep what it is told of when it changes.
const stable = 365 * 24 * time.Hour

// A Served is a Union that is being served.
type Served struct {
	top    *top
	server *fuse.Server
	done   chan struct{}
}

// Serve answers requests on conn, which it owns from now on.
func (u Union) Serve(conn int) (*Served, error) {
	for name, b := range u.Branches {
		e, err := u.Tree.Entry(b.Sub)
		if err == nil && !e.Mode.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil && b.Real < 0 {
			syscall.Close(conn)
			return nil, &Error{Err: fmt.Errorf("%s of %s: %w", b.Sub, name, err)}
		}
	}
	if u.Log == nil {
		u.Log = slog.New(slog.DiscardHandler)
	}
	t := &top{u: &u, born: time.Now()}
	o := &fusenode.Options{
		NullPermissions: true,
		MountOptions: fuse.MountOptions{
			Name: Name, FsName: Name, DisableXAttrs: true, MaxWrite: 128 << 10, EnableSymlinkCaching: true,
			Logger: slog.NewLogLogger(u.Log.Handler(), slog.LevelDebug),
		},
	}
	u.pass = newPassthrough(fusenode.NewNodeFS(t, o), u.Lock)
	server, err := fuse.NewServer(u.pass, fmt.Sprintf("/dev/fd/%d", conn), &o.MountOptions)
	if err != nil {
		return nil, &Error{Err: err} // the server has closed conn
	}
	l, err := newLoop(server, u.pass, &o.MountOptions, conn)
	if err != nil {
		return nil, &Error{Err: err} // conn goes with the server
	}
	s := &Served{top: t, server: server, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		l.serve()
		server.Serve() // has nothing to serve: it closes the connection
		u.pass.close()
	}()
	return s, nil
}

// Done is closed when the last mount is gone and its last user too.
func (s *Served) Done() <-chan struct{} { return s.done }

// Changed makes the kernel forget what it knows of these paths of the tree. It
// returns when every program sees the new state. Do not hold the Union's Lock.
func (s *Served) Changed(changes []tree.Change) {
	gone := ""
	for _, c := range changes {
		if gone != "" && strings.HasPrefix(c.Path, gone) {
			continue // with the directory above
		}
		gone = ""
		for name, b := range s.top.u.Branches {
			rel, ok := below(c.Path, b.Sub)
			if !ok {
				continue
			}
			s.top.forget(name, rel, c.Kind)
			if c.Kind != tree.Altered {
				gone = c.Path + "/"
			}
		}
	}
}

// below returns where p is below dir.
func below(p, dir string) (rel string, ok bool) {
	if p == dir {
		return "", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// forget tells the kernel of one change of a branch.
func (t *top) forget(branch, rel string, kind tree.ChangeKind) {
	at := t.GetChild(branch)
	switch n := descend(at, rel); {
	case kind == tree.Altered && n != nil:
		if m, ok := n.Operations().(*member); ok && m.e != nil {
			t.u.pass.renew(m)
		}
	case kind != tree.Altered && rel == "":
		_ = t.NotifyEntry(branch)
		return
	}
	forget(at, rel, kind)
}

// forget tells the kernel of one change below at, if it knows the place at all. An
// error says that it does not.
func forget(at *fusenode.Inode, rel string, kind tree.ChangeKind) {
	if kind == tree.Altered {
		if n := descend(at, rel); n != nil {
			_ = n.NotifyContent(-1, 0) // attributes: contents are never kept
		}
		return
	}
	if dir := descend(at, strings.TrimSuffix(path.Dir("/"+rel), "/")); dir != nil {
		_ = dir.NotifyEntry(path.Base(rel))
		_ = dir.NotifyContent(-1, 0)
	}
}

func descend(n *fusenode.Inode, rel string) *fusenode.Inode {
	for name := range strings.SplitSeq(strings.Trim(rel, "/"), "/") {
		if n == nil || name == "" {
			return n
		}
		n = n.GetChild(name)
	}
	return n
}

// A top is the root directory of a Union.
type top struct {
	fusenode.Inode
	u    *Union
	born time.Time
}

var (
	_ fusenode.NodeOnAdder   = (*top)(nil)
	_ fusenode.NodeGetattrer = (*top)(nil)
)

// OnAdd is part of fusenode.NodeOnAdder.
func (t *top) OnAdd(ctx context.Context) {
	for name, b := range t.u.Branches {
		b.Sub = path.Clean(b.Sub)
		n := &member{u: t.u, b: &b, real: b.Real >= 0, born: t.born}
		t.u.Lock.Lock()
		n.e, _ = t.u.Tree.Entry(b.Sub)
		t.u.Lock.Unlock()
		t.AddChild(name, t.NewPersistentInode(ctx, n, fusenode.StableAttr{Mode: syscall.S_IFDIR}), true)
		if b.Point != "" {
			n.AddChild(b.Point, t.NewPersistentInode(ctx, &point{}, fusenode.StableAttr{Mode: syscall.S_IFDIR}), true)
		}
	}
	for name, f := range t.u.Files {
		t.AddChild(name, t.NewPersistentInode(ctx, &made{make: f, born: t.born}, fusenode.StableAttr{Mode: syscall.S_IFREG}), true)
	}
}

// Getattr is part of fusenode.NodeGetattrer.
func (t *top) Getattr(_ context.Context, _ fusenode.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = syscall.S_IFDIR|0o755, 2
	out.SetTimes(&t.born, &t.born, &t.born)
	return 0
}

// A point is an empty directory.
type point struct{ fusenode.Inode }

var _ fusenode.NodeGetattrer = (*point)(nil)

// Getattr is part of fusenode.NodeGetattrer.
func (*point) Getattr(_ context.Context, _ fusenode.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink = syscall.S_IFDIR|0o555, 2
	return 0
}

// A made is a file whose content is made when it is opened.
type made struct {
	fusenode.Inode
	make func() []byte
	born time.Time
}

var (
	_ fusenode.NodeGetattrer = (*made)(nil)
	_ fusenode.NodeSetattrer = (*made)(nil)
	_ fusenode.NodeOpener    = (*made)(nil)
	_ fusenode.NodeWriter    = (*made)(nil)
	_ fusenode.NodeFsyncer   = (*made)(nil)
	_ fusenode.NodeStatfser  = (*made)(nil)
)

// Getattr is part of fusenode.NodeGetattrer.
func (m *made) Getattr(_ context.Context, _ fusenode.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Blksize = syscall.S_IFREG|0o444, 1, 1024
	out.SetTimes(&m.born, &m.born, &m.born)
	return 0
}

// Setattr is part of fusenode.NodeSetattrer: truncating a file of procfs does
// nothing. It keeps mode and owner.
func (m *made) Setattr(ctx context.Context, f fusenode.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
		return syscall.EPERM
	}
	return m.Getattr(ctx, f, out)
}

// Write is part of fusenode.NodeWriter: root may open what it cannot write to
// (proc_reg_write).
func (*made) Write(context.Context, fusenode.FileHandle, []byte, int64) (uint32, syscall.Errno) {
	return 0, syscall.EIO
}

// Fsync is part of fusenode.NodeFsyncer: procfs has none (vfs_fsync_range).
func (*made) Fsync(context.Context, fusenode.FileHandle, uint32) syscall.Errno { return syscall.EINVAL }

// Statfs is part of fusenode.NodeStatfser.
func (*made) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.NameLen = 4096, 255
	return 0
}

// Open is part of fusenode.NodeOpener.
func (m *made) Open(_ context.Context, flags uint32) (fusenode.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_DIRECT != 0 {
		return nil, 0, syscall.EINVAL
	}
	return content(m.make()), fuse.FOPEN_DIRECT_IO, 0
}

// A content is an open file whose bytes are known.
type content []byte

var _ fusenode.FileReader = content(nil)

// Read is part of fusenode.FileReader.
func (c content) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultData(part(c, dest, off)), 0
}

// part returns what of data a read of len(dest) bytes at off gets.
func part(data, dest []byte, off int64) []byte {
	if off < 0 || off >= int64(len(data)) {
		return nil
	}
	return data[off:][:min(len(data)-int(off), len(dest))]
}
