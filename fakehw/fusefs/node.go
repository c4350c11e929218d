package fusefs

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	fusenode "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// A view is what the nodes of one mount have in common.
type view struct {
	t    *tree.Tree
	sub  string
	lock sync.Locker
	live bool // the tree changes

	write    func(path string, data []byte) syscall.Errno // nil: read-only
	oneOwner bool
}

// attribute reports whether a path of the tree is one that can be written to.
func (v *view) attribute(p string) bool { return v.write != nil && strings.HasPrefix(p, "/sys/") }

func (v *view) top() (*tree.Entry, error) {
	v.lock.Lock()
	defer v.lock.Unlock()
	return v.t.Entry(v.sub)
}

// A node is one inode as the kernel knows it. It refers to the tree's entry
// itself, so a removed file that is still open keeps its contents, as on a real
// file system, and a new one of the same name is another node.
type node struct {
	fusenode.Inode
	v    *view
	e    *tree.Entry // nil for the top, which is looked up each time
	path string      // of the tree
	born time.Time   // as in kernfs, an inode is as old as the first look at it
}

var (
	_ fusenode.NodeLookuper   = (*node)(nil)
	_ fusenode.NodeGetattrer  = (*node)(nil)
	_ fusenode.NodeReaddirer  = (*node)(nil)
	_ fusenode.NodeReadlinker = (*node)(nil)
	_ fusenode.NodeOpener     = (*node)(nil)
	_ fusenode.NodeReader     = (*node)(nil)
	_ fusenode.NodeFlusher    = (*node)(nil)
)

// entry returns the tree's entry; the lock must be held.
func (n *node) entry() (*tree.Entry, syscall.Errno) {
	if n.e != nil {
		return n.e, 0
	}
	e, err := n.v.t.Entry(n.v.sub)
	if err != nil || !e.Mode.IsDir() {
		return nil, syscall.ENOENT
	}
	return e, 0
}

// Lookup is part of fusenode.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	if errno != 0 {
		return nil, errno
	}
	child := e.Children[name]
	if child == nil {
		return nil, syscall.ENOENT
	}
	if known := n.GetChild(name); known != nil {
		if k, ok := known.Operations().(*node); ok && k.e == child {
			k.fill(child, &out.Attr)
			return known, 0
		}
	}
	k := &node{v: n.v, e: child, path: path.Join(n.path, name), born: time.Now()}
	k.fill(child, &out.Attr)
	return n.NewInode(ctx, k, fusenode.StableAttr{Mode: kind(child)}), 0
}

// Getattr is part of fusenode.NodeGetattrer.
func (n *node) Getattr(_ context.Context, _ fusenode.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	if errno == 0 {
		n.fill(e, &out.Attr)
	}
	return errno
}

// Readdir is part of fusenode.NodeReaddirer.
func (n *node) Readdir(context.Context) (fusenode.DirStream, syscall.Errno) {
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	if errno != 0 {
		return nil, errno
	}
	list := dots()
	for _, name := range e.Names() {
		list = append(list, fuse.DirEntry{Name: name, Mode: kind(e.Children[name])})
	}
	return fusenode.NewListDirStream(list), 0
}

// Readlink is part of fusenode.NodeReadlinker.
func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) {
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	if errno != 0 {
		return nil, errno
	}
	return []byte(e.Target), 0
}

// Open is part of fusenode.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fusenode.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY && !n.v.attribute(n.path) {
		return nil, 0, syscall.EROFS
	}
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	switch {
	case errno != 0:
		return nil, 0, errno
	case n.v.attribute(n.path) && mayOpen(e.Mode, flags) != 0:
		return nil, 0, syscall.EACCES
	case n.v.live || size(n.path, e) != uint64(len(e.Data)):
		// The size is no promise, as with sysfs: read until end of file.
		return &shown{}, fuse.FOPEN_DIRECT_IO, 0
	}
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Flush is part of fusenode.NodeFlusher: the kernel need not ask again.
func (n *node) Flush(context.Context, fusenode.FileHandle) syscall.Errno { return syscall.ENOSYS }

// Read is part of fusenode.NodeReader.
func (n *node) Read(_ context.Context, f fusenode.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	if errno != 0 {
		return nil, errno
	}
	if s, ok := f.(*shown); ok {
		return s.read(e.Data, dest, off), 0
	}
	return fuse.ReadResultData(part(e.Data, dest, off)), 0
}

// kind returns the S_IFMT bits.
func kind(e *tree.Entry) uint32 {
	switch {
	case e.Mode.IsDir():
		return unix.S_IFDIR
	case e.IsLink():
		return unix.S_IFLNK
	case e.IsDevice() && e.DeviceType() == device.Char:
		return unix.S_IFCHR
	case e.IsDevice():
		return unix.S_IFBLK
	case e.Mode&fs.ModeSocket != 0:
		return unix.S_IFSOCK
	case e.Mode&fs.ModeNamedPipe != 0:
		return unix.S_IFIFO
	}
	return unix.S_IFREG
}

func (n *node) fill(e *tree.Entry, out *fuse.Attr) {
	fill(n.path, e, out)
	out.SetTimes(&n.born, &n.born, &n.born)
	if n.v.oneOwner {
		out.Uid, out.Gid = 0, 0
	}
}

// size is what stat says of the entry at p. An attribute in sysfs is a page,
// whatever is in it, unless it is binary (sysfs_add_file_mode_ns); what a driver
// shows in /proc is 0.
func size(p string, e *tree.Entry) uint64 {
	switch {
	case !e.Mode.IsRegular() || e.Size != int64(len(e.Data)):
	case strings.HasPrefix(p, "/proc/"):
		return 0
	case strings.HasPrefix(p, "/sys/") && !strings.HasPrefix(p, "/sys/firmware/") && !binary(path.Base(p)):
		return page
	}
	return uint64(max(e.Size, 0))
}

const page = 4096

// binary reports whether an attribute of this name has a size of its own (struct
// bin_attribute).
func binary(name string) bool {
	switch name {
	case "config", "edid", "rom", "vpd":
		return true
	}
	number, ok := strings.CutPrefix(name, "resource")
	return ok && number != "" && number[0] >= '0' && number[0] <= '9' // resource0_wc, but not resource_alignment
}

// dots are what every directory of a file system of the kernel lists first.
func dots() []fuse.DirEntry {
	return []fuse.DirEntry{{Name: ".", Mode: unix.S_IFDIR}, {Name: "..", Mode: unix.S_IFDIR}}
}

func fill(p string, e *tree.Entry, out *fuse.Attr) {
	out.Mode = kind(e) | host.UnixBits(e.Mode)
	out.Uid, out.Gid = e.UID, e.GID
	out.Size = size(p, e)
	out.Nlink = 1
	if e.Mode.IsDir() {
		out.Nlink = 2 // and one for each directory in it (kernfs_refresh_inode in fs/kernfs/inode.c)
		for _, child := range e.Children {
			if child.Mode.IsDir() {
				out.Nlink++
			}
		}
	}
	if e.IsDevice() {
		// The protocol has 32 bits, in the kernel's own encoding of dev_t.
		out.Rdev = uint32(unix.Mkdev(e.Num.Major, e.Num.Minor))
	}
}
