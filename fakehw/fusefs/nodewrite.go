package fusefs

import (
	"context"
	"syscall"

	fusenode "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

var (
	_ fusenode.NodeAccesser  = (*node)(nil)
	_ fusenode.NodeSetattrer = (*node)(nil)
	_ fusenode.NodeWriter    = (*node)(nil)
	_ fusenode.NodeCreater   = (*node)(nil)
	_ fusenode.NodeMknoder   = (*node)(nil)
	_ fusenode.NodeMkdirer   = (*node)(nil)
	_ fusenode.NodeSymlinker = (*node)(nil)
	_ fusenode.NodeLinker    = (*node)(nil)
	_ fusenode.NodeUnlinker  = (*node)(nil)
	_ fusenode.NodeRmdirer   = (*node)(nil)
	_ fusenode.NodeRenamer   = (*node)(nil)
)

// Access is part of fusenode.NodeAccesser. It is asked only where the kernel
// does not judge by mode and owner itself: the caller is then who mounted the
// tree, and root of it.
func (n *node) Access(_ context.Context, mask uint32) syscall.Errno {
	n.v.lock.Lock()
	defer n.v.lock.Unlock()
	e, errno := n.entry()
	switch {
	case errno != 0:
		return errno
	case mask&unix.W_OK != 0 && !n.v.attribute(n.path) && e.Mode.IsRegular():
		return syscall.EROFS
	case mask&unix.X_OK != 0 && e.Mode.IsRegular() && e.Mode&0o111 == 0:
		return syscall.EACCES
	}
	return 0
}

// Setattr is part of fusenode.NodeSetattrer: as in sysfs, truncating an attribute
// does nothing, and modes and owners stay.
func (n *node) Setattr(ctx context.Context, f fusenode.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 || !n.v.attribute(n.path) {
		return n.refused(syscall.EPERM)
	}
	return n.Getattr(ctx, f, out)
}

// Write is part of fusenode.NodeWriter. As in sysfs, one write is one request,
// wherever in the file it goes, and a file whose device has gone since it was
// opened is ENODEV.
func (n *node) Write(_ context.Context, _ fusenode.FileHandle, data []byte, _ int64) (uint32, syscall.Errno) {
	n.v.lock.Lock()
	now, err := n.v.t.Entry(n.path)
	n.v.lock.Unlock()
	if err != nil || now != n.e {
		return 0, syscall.ENODEV
	}
	if errno := n.v.write(n.path, data); errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}

// refused is what cannot be done: in sysfs its own errno, elsewhere the mount is
// as if it were read-only.
func (n *node) refused(inSysfs syscall.Errno) syscall.Errno {
	if n.v.attribute(n.path + "/") {
		return inSysfs
	}
	return syscall.EROFS
}

// Create is part of fusenode.NodeCreater: as in sysfs, not even root may.
func (n *node) Create(context.Context, string, uint32, uint32, *fuse.EntryOut) (*fusenode.Inode, fusenode.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, n.refused(syscall.EACCES)
}

// Mknod is part of fusenode.NodeMknoder.
func (n *node) Mknod(context.Context, string, uint32, uint32, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, n.refused(syscall.EPERM)
}

// Mkdir is part of fusenode.NodeMkdirer: sysfs allows none of this (kernfs_iop_mkdir).
func (n *node) Mkdir(context.Context, string, uint32, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, n.refused(syscall.EPERM)
}

// Symlink is part of fusenode.NodeSymlinker.
func (n *node) Symlink(context.Context, string, string, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, n.refused(syscall.EPERM)
}

// Link is part of fusenode.NodeLinker.
func (n *node) Link(context.Context, fusenode.InodeEmbedder, string, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, n.refused(syscall.EPERM)
}

// Unlink is part of fusenode.NodeUnlinker.
func (n *node) Unlink(context.Context, string) syscall.Errno { return n.refused(syscall.EPERM) }

// Rmdir is part of fusenode.NodeRmdirer.
func (n *node) Rmdir(context.Context, string) syscall.Errno { return n.refused(syscall.EPERM) }

// Rename is part of fusenode.NodeRenamer.
func (n *node) Rename(context.Context, string, fusenode.InodeEmbedder, string, uint32) syscall.Errno {
	return n.refused(syscall.EPERM)
}
