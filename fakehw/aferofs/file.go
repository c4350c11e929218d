package aferofs

import (
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// A file is one open file. It refers to the entry, so it outlives its name.
type file struct {
	fs     *FS
	e      *tree.Entry
	name   string
	flag   int
	off    int64
	listed int // directory entries already given
	closed bool
}

var _ afero.File = (*file)(nil)

// Name is part of afero.File.
func (f *file) Name() string { return f.name }

// Close is part of afero.File.
func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return f.bad("close", fs.ErrClosed)
	}
	f.closed = true
	return nil
}

func (f *file) bad(op string, err error) error { return fail(op, f.name, err) }

// Read is part of afero.File.
func (f *file) Read(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.readAt("read", b, f.off)
	f.off += int64(n)
	return n, err
}

// ReadAt is part of afero.File.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.readAt("read", b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f *file) readAt(op string, b []byte, off int64) (int, error) {
	switch {
	case f.closed:
		return 0, f.bad(op, fs.ErrClosed)
	case f.e.Mode.IsDir():
		return 0, f.bad(op, syscall.EISDIR)
	case f.flag&os.O_WRONLY != 0:
		return 0, f.bad(op, syscall.EBADF)
	case off < 0:
		return 0, f.bad(op, syscall.EINVAL)
	case len(b) == 0:
		return 0, nil
	case off >= int64(len(f.e.Data)):
		return 0, io.EOF
	}
	return copy(b, f.e.Data[off:]), nil
}

// Write is part of afero.File.
func (f *file) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.flag&os.O_APPEND != 0 {
		f.off = int64(len(f.e.Data))
	}
	n, err := f.writeAt(b, f.off)
	f.off += int64(n)
	return n, err
}

// WriteString is part of afero.File.
func (f *file) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// WriteAt is part of afero.File.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.writeAt(b, off)
}

// maxFile keeps a stray offset from taking all memory.
const maxFile = 1 << 30

func (f *file) writeAt(b []byte, off int64) (int, error) {
	switch {
	case f.closed:
		return 0, f.bad("write", fs.ErrClosed)
	case f.flag&(os.O_WRONLY|os.O_RDWR) == 0:
		return 0, f.bad("write", syscall.EBADF)
	case off < 0:
		return 0, f.bad("write", syscall.EINVAL)
	case off > maxFile-int64(len(b)):
		return 0, f.bad("write", syscall.EFBIG)
	}
	// The old bytes may be shared with a clone of the tree: never change them.
	data := make([]byte, max(len(f.e.Data), int(off)+len(b)))
	copy(data, f.e.Data)
	copy(data[off:], b)
	f.e.SetData(data)
	return len(b), nil
}

// Truncate is part of afero.File.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.closed:
		return f.bad("truncate", fs.ErrClosed)
	case f.flag&(os.O_WRONLY|os.O_RDWR) == 0 || size < 0:
		return f.bad("truncate", syscall.EINVAL)
	case size > maxFile:
		return f.bad("truncate", syscall.EFBIG)
	}
	data := make([]byte, size)
	copy(data, f.e.Data)
	f.e.SetData(data)
	return nil
}

// Seek is part of afero.File.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += int64(len(f.e.Data))
	}
	switch {
	case f.closed:
		return 0, f.bad("seek", fs.ErrClosed)
	case offset < 0 || whence < io.SeekStart || whence > io.SeekEnd:
		return 0, f.bad("seek", syscall.EINVAL)
	}
	if f.e.Mode.IsDir() && offset == 0 {
		f.listed = 0
	}
	f.off = offset
	return offset, nil
}

// Sync is part of afero.File. Writes are in the tree already.
func (f *file) Sync() error { return nil }

// Stat is part of afero.File.
func (f *file) Stat() (os.FileInfo, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if f.closed {
		return nil, f.bad("stat", fs.ErrClosed)
	}
	return newInfo(path.Base(clean(f.name)), f.e), nil
}

// Readdir is part of afero.File. Like that of os.File it describes links
// themselves, and says io.EOF only when asked for a number of entries.
func (f *file) Readdir(count int) ([]os.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.closed:
		return nil, f.bad("readdir", fs.ErrClosed)
	case !f.e.Mode.IsDir():
		return nil, f.bad("readdir", syscall.ENOTDIR)
	}
	names := f.e.Names()
	names = names[min(f.listed, len(names)):]
	if count > 0 {
		if len(names) == 0 {
			return nil, io.EOF
		}
		names = names[:min(count, len(names))]
	}
	list := make([]os.FileInfo, len(names))
	for i, name := range names {
		list[i] = newInfo(name, f.e.Children[name])
	}
	f.listed += len(list)
	return list, nil
}

// Readdirnames is part of afero.File.
func (f *file) Readdirnames(n int) ([]string, error) {
	list, err := f.Readdir(n)
	names := make([]string, len(list))
	for i, info := range list {
		names[i] = info.Name()
	}
	return names, err
}

// An info is what an entry was when it was asked for.
type info struct {
	name string
	size int64
	mode fs.FileMode
	st   syscall.Stat_t
}

func newInfo(name string, e *tree.Entry) *info {
	i := &info{name: name, size: e.Size, mode: e.Mode}
	i.st.Uid, i.st.Gid, i.st.Size = e.UID, e.GID, e.Size
	i.st.Mode = host.UnixBits(e.Mode) | kind(e)
	if e.IsDevice() {
		i.st.Rdev = unix.Mkdev(e.Num.Major, e.Num.Minor)
	}
	return i
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

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.size }
func (i *info) Mode() fs.FileMode  { return i.mode }
func (i *info) ModTime() time.Time { return time.Time{} }
func (i *info) IsDir() bool        { return i.mode.IsDir() }
func (i *info) Sys() any           { return &i.st }
