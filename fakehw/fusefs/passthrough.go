package fusefs

import (
	"bytes"
	"io"
	"io/fs"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A passthrough has the kernel answer reads of attributes by itself, from files
// in memory that it was given (FUSE passthrough, Linux 6.9). To read an attribute
// is then one question, to open it, in the place of two. The page cache is no
// way: there a file is as long as its content, and an attribute says 4096.
//
// It takes CAP_SYS_ADMIN on the machine itself. Elsewhere, and beyond most files,
// each read is a question as before.
//
// While a file is open in this way, all else that opens it must name the same
// backing, or is refused with EIO. So the first backing of a member stays, and an
// open that shall ask us says FOPEN_DIRECT_IO as well, which takes precedence.
//
// Reference: https://docs.kernel.org/filesystems/fuse/fuse-passthrough.html
type passthrough struct {
	fuse.RawFileSystem
	lock   sync.Locker // of the tree, for all below
	server *fuse.Server
	held   map[*backing]struct{} // nil: not here
	most   int
}

// A backing is a file in memory with the content of one attribute.
type backing struct {
	fd, id  int
	data    []byte
	changed bool // the content was another one
}

// What a node's Open returns has no place for the backing's id: it travels in the
// upper bits of the flags, of which the protocol uses eight.
const idShift = 8

// newPassthrough is the file system raw with passthrough for its members.
func newPassthrough(raw fuse.RawFileSystem, lock sync.Locker) *passthrough {
	p := &passthrough{RawFileSystem: raw, lock: lock, held: map[*backing]struct{}{}}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.most = int(min(limit.Cur/2, 8192))
	}
	return p
}

// Init is part of fuse.RawFileSystem.
func (p *passthrough) Init(s *fuse.Server) {
	p.server = s
	if s.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		p.held = nil
	}
	p.RawFileSystem.Init(s)
}

// Open is part of fuse.RawFileSystem.
func (p *passthrough) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	status := p.RawFileSystem.Open(cancel, in, out)
	out.BackingID, out.OpenFlags = int32(out.OpenFlags>>idShift), out.OpenFlags&(1<<idShift-1)
	return status
}

// open returns the flags with which a file of the tree is opened, which has this
// mode. The content of one that can be written comes from us, and of one that
// changed from then on: in a file that is overwritten a reader could see half of
// each.
func (p *passthrough) open(n *member, mode fs.FileMode, writes bool) uint32 {
	if n.back == nil && mode&0o222 == 0 && len(n.e.Data) > 0 {
		n.back = p.add(n.e.Data)
	}
	b := n.back
	if b == nil {
		return fuse.FOPEN_DIRECT_IO
	}
	flags := uint32(b.id)<<idShift | fuse.FOPEN_PASSTHROUGH
	if writes || b.changed || !bytes.Equal(b.data, n.e.Data) {
		flags |= fuse.FOPEN_DIRECT_IO
	}
	return flags
}

// add makes a backing, nil if that cannot be.
func (p *passthrough) add(data []byte) *backing {
	if p.held == nil || len(p.held) >= p.most {
		return nil
	}
	fd, err := unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err != nil {
		return nil
	}
	b := &backing{fd: fd}
	if b.fill(data) == nil {
		id, errno := p.server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
		if errno == 0 && id < 1<<(32-idShift) {
			b.id = int(id)
			p.held[b] = struct{}{}
			return b
		}
		if errno == 0 {
			_ = p.server.UnregisterBackingFd(id) // fails for an id that is none
		}
		if errno == unix.EPERM && len(p.held) == 0 {
			p.held = nil // nor will it later
		}
	}
	unix.Close(fd)
	return nil
}

// fill gives the file its content. Who has it open may see the old content with
// the new one's length for a moment, never one that is longer than it should be.
func (b *backing) fill(data []byte) error {
	if len(data) < len(b.data) {
		if err := unix.Ftruncate(b.fd, int64(len(data))); err != nil {
			return err
		}
	}
	b.data = data
	n, err := unix.Pwrite(b.fd, data, 0)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// renew gives files that are open the content that the tree now has.
func (p *passthrough) renew(n *member) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if b := n.back; b != nil && !bytes.Equal(b.data, n.e.Data) {
		b.changed = true
		_ = b.fill(n.e.Data) // memory is short: they keep what they saw
	}
}

// drop gives up the backing of a member that the kernel has forgotten.
func (p *passthrough) drop(n *member) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if b := n.back; b != nil {
		n.back = nil
		_ = p.server.UnregisterBackingFd(int32(b.id)) // the connection may be gone, and it with it
		unix.Close(b.fd)
		delete(p.held, b)
	}
}

// close gives up all of them, after the last request.
func (p *passthrough) close() {
	p.lock.Lock()
	defer p.lock.Unlock()
	for b := range p.held {
		unix.Close(b.fd)
	}
	p.held = nil
}
