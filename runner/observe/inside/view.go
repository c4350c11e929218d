// Package inside is the part of the harness that runs in a real container: a
// View of the real file system, and the first process, which answers requests
// with it.
//
// The harness outside decides what to look at and how to judge it. This package has
// few imports, as the probe made from it is copied into every container.
package inside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/runner/observe"
)

// maxFile bounds what ReadFile returns: the biggest file that an observation
// reads whole is ld.so.cache.
const maxFile = 64 << 20

// A View is the observe.View of the calling process. The zero View is ready.
type View struct{}

var (
	_ observe.View       = View{}
	_ observe.Identifier = View{}
)

// Lstat is part of host.Root.
func (View) Lstat(path string) (host.Info, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Lstat(path, &st) }); err != nil {
		return host.Info{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	info := host.Info{Mode: fileMode(st.Mode), UID: st.Uid, GID: st.Gid, Size: st.Size}
	if info.IsDevice() {
		info.Num = device.Num{Major: unix.Major(uint64(st.Rdev)), Minor: unix.Minor(uint64(st.Rdev))}
	}
	return info, nil
}

func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// fileMode converts st_mode.
func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// Readlink is part of host.Root.
func (View) Readlink(path string) (string, error) { return os.Readlink(path) }

// ReadDir is part of host.Root.
func (View) ReadDir(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// ReadFile is part of host.Root.
func (v View) ReadFile(path string) ([]byte, error) {
	data, err := v.Head(path, maxFile+1)
	if err == nil && len(data) > maxFile {
		return nil, &fs.PathError{Op: "read", Path: path, Err: unix.EFBIG}
	}
	return data, err
}

// Head is part of observe.View. It never waits: a pipe is refused.
func (View) Head(path string, n int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case st.IsDir():
		return nil, &fs.PathError{Op: "read", Path: path, Err: unix.EISDIR}
	case !st.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: path, Err: unix.ENXIO}
	}
	return io.ReadAll(io.LimitReader(f, int64(n)))
}

// Identity is part of observe.Identifier.
func (View) Identity(path string) (observe.FileID, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return observe.FileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return observe.FileID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// OpenNode is part of observe.View.
func (View) OpenNode(path string, write bool) syscall.Errno {
	fd, flags := -1, unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	err := retry(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	if err == nil {
		unix.Close(fd)
		return 0
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}

// Mounts is part of observe.View.
func (View) Mounts() ([]observe.MountLine, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return observe.ParseMountinfo(string(data))
}

// Environ is part of observe.View: that of the first process, not of a probe
// that was started later.
func (View) Environ() ([]string, error) {
	data, err := os.ReadFile("/proc/1/environ")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range bytes.Split(data, []byte{0}) {
		if len(v) > 0 {
			out = append(out, strings.ToValidUTF8(string(v), "\uFFFD"))
		}
	}
	return out, nil
}

// Groups is part of observe.View.
func (View) Groups() ([]uint32, error) {
	ids, err := unix.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("getgroups: %w", err)
	}
	out := make([]uint32, 0, len(ids))
	for _, id := range ids {
		out = append(out, uint32(id))
	}
	return out, nil
}
