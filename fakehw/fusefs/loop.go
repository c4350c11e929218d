package fusefs

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A loop answers the requests of a connection in the place of the library's own
// Serve, which has three readers take turns. A program that reads an attribute
// then waits for another thread with each request, often on another processor, so
// here one thread does all that cannot wait for anything. Only what may wait, a
// write above all, is done beside a second reader: a change is told to the kernel,
// which may first want an answer to another request.
type loop struct {
	conn    int
	raw     fuse.RawFileSystem
	all     *fuse.ProtocolServer // whatever is not answered by quick
	o       *fuse.MountOptions
	readers atomic.Int32 // that wait for a request
	running sync.WaitGroup
	buffers sync.Pool // of *buffers
}

// Buffers hold a request and its answer, of MaxWrite bytes and what comes before.
type buffers struct{ in, out []byte }

// newLoop returns the loop of a server that has had its first request, the
// settings, and raw, its file system. The server must not serve itself.
func newLoop(server *fuse.Server, raw fuse.RawFileSystem, o *fuse.MountOptions, conn int) (*loop, error) {
	l := &loop{conn: conn, raw: raw, all: fuse.NewProtocolServer(raw, o), o: o}
	l.buffers.New = func() any {
		return &buffers{make([]byte, o.MaxWrite+4096), make([]byte, o.MaxWrite+4096)}
	}
	settings := server.KernelSettings() // for it, the first request again
	settings.Length, settings.Opcode = uint32(unsafe.Sizeof(*settings)), opInit
	in := unsafe.Slice((*byte)(unsafe.Pointer(settings)), settings.Length)
	if _, status := l.all.HandleRequest([][]byte{in}, [][]byte{make([]byte, 4096)}); !status.Ok() {
		return nil, fmt.Errorf("init: %v", status)
	}
	return l, nil
}

// serve returns when no request will come any more.
func (l *loop) serve() {
	l.running.Add(1)
	l.read()
	l.running.Wait()
}

// Requests by number (enum fuse_opcode in include/uapi/linux/fuse.h).
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opReadlink    = 5
	opOpen        = 14
	opRead        = 15
	opStatfs      = 17
	opRelease     = 18
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opAccess      = 34
	opBatchForget = 42
	opReaddirplus = 44
)

// The library answers for this node itself (see Settle).
const pollNode = ^uint64(0)

const outHeader = int(unsafe.Sizeof(fuse.OutHeader{}))

// read answers requests until there are none, or enough readers without it.
func (l *loop) read() {
	defer l.running.Done()
	b := l.buffers.Get().(*buffers)
	defer l.buffers.Put(b)
	for {
		if l.readers.Add(1) > 1 {
			l.readers.Add(-1)
			return
		}
		// Of package syscall, as is what package os does, so that the race detector
		// knows what the kernel puts in order.
		n, err := syscall.Read(l.conn, b.in)
		others := l.readers.Add(-1)
		switch err {
		case nil:
		case syscall.EINTR, syscall.EAGAIN, syscall.ENOENT: // the last: who asked has gone
			continue
		default:
			return // ENODEV: unmounted
		}
		if n < int(unsafe.Sizeof(fuse.InHeader{})) {
			continue
		}
		if others == 0 && mayWait(b.in[:n]) {
			l.running.Add(1)
			go l.read()
		}
		if k := l.answer(b, n); k > 0 {
			_, _ = syscall.Write(l.conn, b.out[:k]) // ENOENT: who asked has gone
		}
	}
}

// mayWait reports whether a request may have to wait for something. What is asked
// of the tree waits for nothing but its lock, and of a real directory as little. A
// file that has a handle is a real one, or made when it was opened.
func mayWait(in []byte) bool {
	switch (*fuse.InHeader)(unsafe.Pointer(&in[0])).Opcode {
	case opLookup, opForget, opBatchForget, opGetattr, opReadlink, opOpen, opStatfs, opAccess, opOpendir, opReaddir, opReaddirplus, opReleasedir:
		return false
	case opRead, opRelease:
		const handle = int(unsafe.Sizeof(fuse.InHeader{})) // the first word of both
		return len(in) < handle+8 || *(*uint64)(unsafe.Pointer(&in[handle])) != 0
	}
	return true
}

// answer makes the answer to a request of n bytes, and returns its length.
func (l *loop) answer(b *buffers, n int) int {
	in := (*fuse.InHeader)(unsafe.Pointer(&b.in[0]))
	k, status, ok := l.quick(in, b.out[outHeader:], n)
	if !ok {
		k, status = l.all.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
		if status.Ok() {
			return k
		}
	}
	if !status.Ok() {
		k = 0
	}
	k += outHeader
	*(*fuse.OutHeader)(unsafe.Pointer(&b.out[0])) = fuse.OutHeader{Length: uint32(k), Status: -int32(status), Unique: in.Unique}
	return k
}

// quick answers what reading an attribute consists of, without what the library
// keeps for each request: a third of the time that we take. Not ok: it is nothing
// for us.
func (l *loop) quick(in *fuse.InHeader, out []byte, n int) (k int, status fuse.Status, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			l.o.Logger.Printf("panic: %v\n%s", r, debug.Stack())
			k, status, ok = 0, fuse.EIO, true
		}
	}()
	if in.NodeId == pollNode {
		return 0, 0, false
	}
	switch at := unsafe.Pointer(in); {
	case in.Opcode == opOpen && n >= int(unsafe.Sizeof(fuse.OpenIn{})):
		o := (*fuse.OpenOut)(unsafe.Pointer(&out[0]))
		*o = fuse.OpenOut{}
		return int(unsafe.Sizeof(*o)), l.raw.Open(nil, (*fuse.OpenIn)(at), o), true
	case in.Opcode == opRead && n >= int(unsafe.Sizeof(fuse.ReadIn{})):
		r := (*fuse.ReadIn)(at)
		if int(r.Size) > len(out) {
			return 0, fuse.EINVAL, true
		}
		what, status := l.raw.Read(nil, r, out[:r.Size])
		if !status.Ok() {
			return 0, status, true
		}
		defer what.Done()
		data, status := what.Bytes(out[:r.Size])
		return copy(out, data), status, true
	case in.Opcode == opRelease && n >= int(unsafe.Sizeof(fuse.ReleaseIn{})):
		l.raw.Release(nil, (*fuse.ReleaseIn)(at))
		return 0, 0, true
	}
	return 0, 0, false
}
