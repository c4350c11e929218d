package fusefs

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	fusenode "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// A member is one inode below a branch: of the tree, real, or a directory that
// is both.
type member struct {
	fusenode.Inode
	u    *Union
	b    *Branch
	rel  string      // below the branch
	e    *tree.Entry // nil: it is only real
	real bool        // there is something real, to be seen
	ino  uint64      // of what is real, if that is all
	born time.Time   // as in kernfs, an inode is as old as the first look at it
	back *backing    // of a file of the tree, once it was read; the tree's lock guards it
}

var (
	_ fusenode.NodeLookuper    = (*member)(nil)
	_ fusenode.NodeGetattrer   = (*member)(nil)
	_ fusenode.NodeSetattrer   = (*member)(nil)
	_ fusenode.NodeReaddirer   = (*member)(nil)
	_ fusenode.NodeReadlinker  = (*member)(nil)
	_ fusenode.NodeOpener      = (*member)(nil)
	_ fusenode.NodeReader      = (*member)(nil)
	_ fusenode.NodeWriter      = (*member)(nil)
	_ fusenode.NodeFlusher     = (*member)(nil)
	_ fusenode.NodeCreater     = (*member)(nil)
	_ fusenode.NodeMkdirer     = (*member)(nil)
	_ fusenode.NodeMknoder     = (*member)(nil)
	_ fusenode.NodeUnlinker    = (*member)(nil)
	_ fusenode.NodeRmdirer     = (*member)(nil)
	_ fusenode.NodeRenamer     = (*member)(nil)
	_ fusenode.NodeSymlinker   = (*member)(nil)
	_ fusenode.NodeLinker      = (*member)(nil)
	_ fusenode.NodeFsyncer     = (*member)(nil)
	_ fusenode.NodeStatfser    = (*member)(nil)
	_ fusenode.NodeOnForgetter = (*member)(nil)
)

func yes(f func(string) bool, rel string) bool { return f != nil && f(rel) }

// at returns the path of a descriptor-relative call.
func at(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}

// keep is how long the kernel may keep a real entry. Directories at the top of
// sysfs are never removed; below, names come and go without a word.
func keep(rel string, mode uint32) time.Duration {
	if mode&unix.S_IFMT == unix.S_IFDIR && strings.Count(rel, "/") < 2 {
		return stable
	}
	return 0
}

// Lookup is part of fusenode.NodeLookuper.
func (n *member) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	rel := path.Join(n.rel, name)
	if rel == n.b.Point { // the same each time, or what is mounted there would go
		out.Mode, out.Nlink = unix.S_IFDIR|0o555, 2
		out.SetEntryTimeout(stable)
		return n.GetChild(name), 0
	}
	n.u.Lock.Lock()
	defer n.u.Lock.Unlock()
	var child *tree.Entry
	if n.e != nil {
		child = n.e.Children[name]
	}
	known, _ := n.known(name)
	if child != nil {
		out.SetEntryTimeout(stable)
		out.SetAttrTimeout(stable)
		if known != nil && known.e == child {
			known.fill(&out.Attr)
			return known.EmbeddedInode(), 0
		}
		both := n.real && child.Mode.IsDir() && yes(n.b.Merge, rel) && n.isRealDir(rel)
		m := &member{u: n.u, b: n.b, rel: rel, e: child, real: both, born: time.Now()}
		m.fill(&out.Attr)
		return n.NewInode(ctx, m, fusenode.StableAttr{Mode: kind(child)}), 0
	}
	if !n.real {
		out.SetEntryTimeout(stable) // until told otherwise
		return nil, syscall.ENOENT
	}
	if yes(n.b.Hide, rel) {
		return nil, syscall.ENOENT
	}
	var st unix.Stat_t
	if err := unix.Fstatat(n.b.Real, rel, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, fusenode.ToErrno(err)
	}
	fillReal(&st, &out.Attr)
	out.SetEntryTimeout(keep(rel, st.Mode))
	out.SetAttrTimeout(time.Second)
	if known != nil && known.e == nil && known.ino == st.Ino {
		return known.EmbeddedInode(), 0
	}
	return n.NewInode(ctx, &member{u: n.u, b: n.b, rel: rel, real: true, ino: st.Ino}, fusenode.StableAttr{Mode: st.Mode & unix.S_IFMT}), 0
}

func (n *member) known(name string) (*member, bool) {
	child := n.GetChild(name)
	if child == nil {
		return nil, false
	}
	m, ok := child.Operations().(*member)
	return m, ok
}

func (n *member) isRealDir(rel string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(n.b.Real, at(rel), &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && !yes(n.b.Hide, rel)
}

// fill tells the attributes of what is the tree's.
func (n *member) fill(out *fuse.Attr) {
	fill(path.Join(n.b.Sub, n.rel), n.e, out)
	out.SetTimes(&n.born, &n.born, &n.born)
	if given, ok := n.u.given[n.e]; ok {
		out.Mode, out.Uid, out.Gid = out.Mode&^0o7777|given.mode, given.uid, given.gid
	}
	if n.u.OneOwner {
		out.Uid, out.Gid = 0, 0
	}
	out.Blksize = 4096 // said, so that no blocks are made up
	if n.b.Sub == "/proc/driver" && n.e.Mode.IsRegular() {
		out.Blksize = 1024
	}
}

func fillReal(st *unix.Stat_t, out *fuse.Attr) {
	out.Mode, out.Uid, out.Gid = st.Mode, st.Uid, st.Gid
	out.Size, out.Blocks, out.Nlink, out.Rdev = uint64(st.Size), uint64(st.Blocks), uint32(st.Nlink), uint32(st.Rdev)
	out.Blksize = uint32(st.Blksize)
	out.Mtime, out.Mtimensec = uint64(st.Mtim.Sec), uint32(st.Mtim.Nsec)
	out.Ctime, out.Ctimensec = uint64(st.Ctim.Sec), uint32(st.Ctim.Nsec)
	out.Atime, out.Atimensec = uint64(st.Atim.Sec), uint32(st.Atim.Nsec)
}

// Getattr is part of fusenode.NodeGetattrer.
func (n *member) Getattr(_ context.Context, _ fusenode.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if n.e != nil {
		n.u.Lock.Lock()
		defer n.u.Lock.Unlock()
		n.fill(&out.Attr)
		out.SetTimeout(stable)
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstatat(n.b.Real, at(n.rel), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fusenode.ToErrno(err)
	}
	fillReal(&st, &out.Attr)
	out.SetTimeout(time.Second)
	return 0
}

// Setattr is part of fusenode.NodeSetattrer. Truncating an attribute does
// nothing, as in sysfs. Modes and owners of what is real stay (A41).
func (n *member) Setattr(ctx context.Context, f fusenode.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	const owned = fuse.FATTR_UID | fuse.FATTR_GID
	switch {
	case in.Valid&(fuse.FATTR_MODE|owned) == 0:
	case n.e == nil || n.u.OneOwner && in.Valid&owned != 0:
		return syscall.EPERM
	default:
		n.u.Lock.Lock()
		n.u.give(n.e, in)
		n.u.Lock.Unlock()
	}
	return n.Getattr(ctx, f, out)
}

// given are mode and owner that a program gave to an entry of the tree, which
// lasts as long as the entry does (kernfs_iop_setattr).
type given struct{ mode, uid, gid uint32 }

func (u *Union) give(e *tree.Entry, in *fuse.SetAttrIn) {
	now, ok := u.given[e]
	if !ok {
		now = given{host.UnixBits(e.Mode), e.UID, e.GID}
	}
	if mode, ok := in.GetMode(); ok {
		now.mode = mode & 0o7777
	}
	if uid, ok := in.GetUID(); ok {
		now.uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		now.gid = gid
	}
	if u.given == nil {
		u.given = map[*tree.Entry]given{}
	}
	u.given[e] = now
}

// Readdir is part of fusenode.NodeReaddirer.
func (n *member) Readdir(context.Context) (fusenode.DirStream, syscall.Errno) {
	var list []fuse.DirEntry
	seen := map[string]bool{}
	if n.e != nil {
		n.u.Lock.Lock()
		for name, child := range n.e.Children {
			list = append(list, fuse.DirEntry{Name: name, Mode: kind(child)})
			seen[name] = true
		}
		n.u.Lock.Unlock()
	}
	if n.real {
		fd, err := unix.Openat(n.b.Real, at(n.rel), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, fusenode.ToErrno(err)
		}
		real, errno := fusenode.NewLoopbackDirStreamFd(fd)
		if errno != 0 {
			unix.Close(fd)
			return nil, errno
		}
		defer real.Close()
		for real.HasNext() {
			x, errno := real.Next()
			if errno != 0 {
				return nil, errno
			}
			if x.Name != "." && x.Name != ".." && !seen[x.Name] && !yes(n.b.Hide, path.Join(n.rel, x.Name)) {
				list = append(list, fuse.DirEntry{Name: x.Name, Mode: x.Mode, Ino: x.Ino})
			}
		}
	}
	slices.SortFunc(list, func(a, b fuse.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	return fusenode.NewListDirStream(append(dots(), list...)), 0
}

// Readlink is part of fusenode.NodeReadlinker.
func (n *member) Readlink(context.Context) ([]byte, syscall.Errno) {
	if n.e != nil {
		return []byte(n.e.Target), 0 // an entry never becomes another link
	}
	buf := make([]byte, unix.PathMax)
	k, err := unix.Readlinkat(n.b.Real, at(n.rel), buf)
	if err != nil {
		return nil, fusenode.ToErrno(err)
	}
	return buf[:k], 0
}

// Open is part of fusenode.NodeOpener.
func (n *member) Open(_ context.Context, flags uint32) (fusenode.FileHandle, uint32, syscall.Errno) {
	writes := flags&syscall.O_ACCMODE != syscall.O_RDONLY
	if n.e != nil {
		if writes && n.u.Write == nil {
			return nil, 0, syscall.EROFS
		}
		if flags&syscall.O_DIRECT != 0 {
			return nil, 0, syscall.EINVAL // no attribute has it (do_dentry_open)
		}
		if n.b.Sub != "/sys" {
			return &shown{}, fuse.FOPEN_DIRECT_IO, 0 // procfs leaves root alone
		}
		n.u.Lock.Lock()
		defer n.u.Lock.Unlock()
		mode := n.e.Mode
		if given, ok := n.u.given[n.e]; ok {
			mode = host.ModeBits(given.mode)
		}
		if errno := mayOpen(mode, flags); errno != 0 {
			return nil, 0, errno
		}
		return &shown{}, n.u.pass.open(n, mode, writes), 0
	}
	if writes && yes(n.b.Deny, n.rel) {
		return nil, 0, syscall.EPERM
	}
	fd, err := unix.Openat(n.b.Real, at(n.rel), int(flags)&(syscall.O_ACCMODE|syscall.O_TRUNC|syscall.O_APPEND|syscall.O_DIRECT)|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fusenode.ToErrno(err)
	}
	return realFile(fd), fuse.FOPEN_DIRECT_IO, 0
}

// OnForget is part of fusenode.NodeOnForgetter.
func (n *member) OnForget() {
	if n.e != nil && n.Forgotten() {
		n.u.pass.drop(n)
	}
}

// Flush is part of fusenode.NodeFlusher. After this answer the kernel does not ask
// again at each close: a third of what reading an attribute costs.
func (n *member) Flush(context.Context, fusenode.FileHandle) syscall.Errno { return syscall.ENOSYS }

// mayOpen refuses what sysfs refuses even to root: to write an attribute that
// cannot be written and to read one that cannot be read (kernfs_fop_open).
func mayOpen(mode fs.FileMode, flags uint32) syscall.Errno {
	access := flags & syscall.O_ACCMODE
	if access != syscall.O_RDONLY && mode&0o222 == 0 || access != syscall.O_WRONLY && mode&0o444 == 0 {
		return syscall.EACCES
	}
	return 0
}

// Create is part of fusenode.NodeCreater: as in sysfs, not even root may.
func (n *member) Create(context.Context, string, uint32, uint32, *fuse.EntryOut) (*fusenode.Inode, fusenode.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EACCES
}

// Mkdir is part of fusenode.NodeMkdirer: sysfs allows none of this (kernfs_iop_mkdir).
func (n *member) Mkdir(context.Context, string, uint32, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Mknod is part of fusenode.NodeMknoder.
func (n *member) Mknod(context.Context, string, uint32, uint32, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Unlink is part of fusenode.NodeUnlinker.
func (n *member) Unlink(context.Context, string) syscall.Errno { return syscall.EPERM }

// Rmdir is part of fusenode.NodeRmdirer.
func (n *member) Rmdir(context.Context, string) syscall.Errno { return syscall.EPERM }

// Rename is part of fusenode.NodeRenamer.
func (n *member) Rename(context.Context, string, fusenode.InodeEmbedder, string, uint32) syscall.Errno {
	return syscall.EPERM
}

// Symlink is part of fusenode.NodeSymlinker.
func (n *member) Symlink(context.Context, string, string, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Link is part of fusenode.NodeLinker.
func (n *member) Link(context.Context, fusenode.InodeEmbedder, string, *fuse.EntryOut) (*fusenode.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Fsync is part of fusenode.NodeFsyncer: there is nothing to do for an attribute
// (noop_fsync in kernfs_file_fops), and no other file has it (vfs_fsync_range).
func (n *member) Fsync(context.Context, fusenode.FileHandle, uint32) syscall.Errno {
	if n.b.Sub == "/sys" && n.StableAttr().Mode == syscall.S_IFREG {
		return 0
	}
	return syscall.EINVAL
}

// Statfs is part of fusenode.NodeStatfser.
func (n *member) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.NameLen = 4096, 255
	return 0
}

// Read is part of fusenode.NodeReader: of the tree's files.
func (n *member) Read(ctx context.Context, f fusenode.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if r, ok := f.(realFile); ok {
		return r.read(dest, off)
	}
	n.u.Lock.Lock()
	defer n.u.Lock.Unlock()
	return f.(*shown).read(n.e.Data, dest, off), 0
}

// Write is part of fusenode.NodeWriter. As in sysfs, one write is one request,
// wherever in the file it goes.
func (n *member) Write(_ context.Context, f fusenode.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if r, ok := f.(realFile); ok {
		return r.write(data, off)
	}
	if n.b.Sub != "/sys" && n.e.Mode&0o222 == 0 {
		return 0, syscall.EIO // as proc_reg_write without a function behind it
	}
	if errno := n.u.Write(path.Join(n.b.Sub, n.rel), data); errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}
