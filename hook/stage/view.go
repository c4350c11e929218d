package stage

import (
	"io/fs"

	"golang.org/x/sys/unix"

	"gpurig/core/ldcache"
)

// Limits of what is read of an image.
const (
	maxNames = 20_000
	maxConf  = 1 << 20
)

// view is the root as package ldcache reads it.
type view struct{ w *work }

var _ ldcache.Opener = view{}

func (v view) Lstat(p string) (ldcache.Info, error) {
	if err := v.w.Context.Err(); err != nil {
		return ldcache.Info{}, err
	}
	st, err := v.w.root.Lstat(p)
	if err != nil {
		return ldcache.Info{}, err
	}
	return ldcache.Info{Mode: fileMode(st.Mode), Size: st.Size}, nil
}

func (v view) Readlink(p string) (string, error)  { return v.w.root.Readlink(p) }
func (v view) ReadFile(p string) ([]byte, error)  { return v.w.root.ReadFile(p, maxConf) }
func (v view) ReadDir(p string) ([]string, error) { return v.w.root.ReadDir(p, maxNames) }

func (v view) Open(p string) (ldcache.Reader, error) {
	return v.w.root.OpenFile(p)
}

func fileMode(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	}
	return fs.ModeDevice
}
