package stage

import "gpurig/core/ldcache"

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
	i, err := v.w.root.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, err
}

func (v view) Readlink(p string) (string, error)  { return v.w.root.Readlink(p) }
func (v view) ReadFile(p string) ([]byte, error)  { return v.w.root.ReadFile(p, maxConf) }
func (v view) ReadDir(p string) ([]string, error) { return v.w.root.ReadDir(p, maxNames) }

func (v view) Open(p string) (ldcache.Reader, error) {
	return v.w.root.OpenFile(p)
}
