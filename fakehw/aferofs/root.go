package aferofs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
)

// MaxFile is the size in bytes up to which a Root reads.
const MaxFile = 16 << 20

// ErrTooLarge marks a file of more than MaxFile bytes.
var ErrTooLarge = fmt.Errorf("larger than %d MiB", MaxFile>>20)

// A Root is an afero.Fs as core reads it. Links are followed by us, inside the
// file system, so that an absolute link on an afero.BasePathFs stays inside.
type Root struct{ fs afero.Fs }

var _ host.Root = (*Root)(nil)

// NewRoot returns f as a host.Root. Where f is no afero.Lstater or no
// afero.LinkReader it has no links; where FileInfo.Sys is no *syscall.Stat_t,
// everything is root's and device nodes have no known number.
func NewRoot(f afero.Fs) *Root { return &Root{fs: f} }

// unfollowed is the view that host.Resolve walks with.
type unfollowed struct{ *Root }

// Lstat is part of host.Root.
func (u unfollowed) Lstat(p string) (host.Info, error) { return u.lstat(p) }

// Readlink is part of host.Root.
func (u unfollowed) Readlink(p string) (string, error) { return u.readlink(p) }

// resolve follows the links of p, in its last component only if last.
func (r *Root) resolve(op, p string, last bool) (string, error) {
	if !path.IsAbs(p) {
		return "", fail(op, p, syscall.EINVAL)
	}
	follow := host.ResolveDir
	if last {
		follow = host.Resolve
	}
	real, err := follow(unfollowed{r}, p)
	if err == nil {
		return real, nil
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return "", fail(op, p, no)
	}
	return "", fail(op, p, err)
}

// Lstat is part of host.Root.
func (r *Root) Lstat(p string) (host.Info, error) {
	real, err := r.resolve("lstat", p, false)
	if err != nil {
		return host.Info{}, err
	}
	return r.lstat(real)
}

func (r *Root) lstat(p string) (host.Info, error) {
	var fi os.FileInfo
	var err error
	if l, ok := r.fs.(afero.Lstater); ok {
		fi, _, err = l.LstatIfPossible(p)
	} else {
		fi, err = r.fs.Stat(p)
	}
	if err != nil {
		return host.Info{}, err
	}
	out := host.Info{Mode: fi.Mode() & (fs.ModeType | host.Bits), Size: fi.Size()}
	if fi.IsDir() {
		out.Size = 0 // the file system's affair
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		out.UID, out.GID = st.Uid, st.Gid
		if out.IsDevice() {
			out.Num = device.Num{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
		}
	}
	return out, nil
}

// Readlink is part of host.Root.
func (r *Root) Readlink(p string) (string, error) {
	real, err := r.resolve("readlink", p, false)
	if err != nil {
		return "", err
	}
	return r.readlink(real)
}

func (r *Root) readlink(p string) (string, error) {
	l, ok := r.fs.(afero.LinkReader)
	if !ok {
		if _, err := r.fs.Stat(p); err != nil {
			return "", err
		}
		return "", fail("readlink", p, syscall.EINVAL)
	}
	return l.ReadlinkIfPossible(p)
}

// ReadFile is part of host.Root. Only regular files are opened.
func (r *Root) ReadFile(p string) ([]byte, error) {
	real, err := r.resolve("open", p, true)
	if err != nil {
		return nil, err
	}
	info, err := r.lstat(real)
	switch {
	case err != nil:
		return nil, err
	case info.Mode.IsDir():
		return nil, fail("read", p, syscall.EISDIR)
	case !info.Mode.IsRegular():
		return nil, fail("open", p, syscall.ENXIO)
	}
	f, err := r.fs.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		return nil, fail("read", p, ErrTooLarge)
	}
	return data, err
}

// ReadDir is part of host.Root.
func (r *Root) ReadDir(p string) ([]string, error) {
	real, err := r.resolve("open", p, true)
	if err != nil {
		return nil, err
	}
	if info, err := r.lstat(real); err != nil {
		return nil, err
	} else if !info.Mode.IsDir() {
		return nil, fail("readdirent", p, syscall.ENOTDIR)
	}
	f, err := r.fs.Open(real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}
