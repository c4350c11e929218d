package stage

import (
	"io/fs"

	"gpurig/hook/inroot"
)

// A Root is a container's root file system, under absolute, clean paths that mean
// what they mean in the container: links are followed inside it. What a method
// does, and its errors, are those of the method of *inroot.Root.
type Root interface {
	Lstat(p string) (inroot.Info, error)
	Readlink(p string) (string, error)
	ReadFile(p string, limit int64) ([]byte, error)
	OpenFile(p string) (inroot.File, error)
	ReadDir(p string, limit int) ([]string, error)
	Missing(p string) ([]string, error)
	OnDev(p string) (bool, error)

	MountPoint(p string, dir bool) (inroot.Result, error)
	Symlink(p, text string) (inroot.Result, error)
	WriteFile(p string, data []byte, as inroot.Attr) (inroot.Result, error)
	Chmod(p string, perm fs.FileMode) error

	RemoveEmpty(p string, isDir bool) (bool, error)
	RemoveLink(p string, texts ...string) (bool, error)
	RemoveFile(p string, limit int64, same func(data []byte) bool) (bool, error)
	Sweep(p string) (int, error) // of temporaries that a killed run left
	Sync() error
}

var _ Root = (*inroot.Root)(nil)
