package stage

import (
	"errors"
	"syscall"

	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
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
	i, err := v.w.root.Lstat(p)
	return ldcache.Info{Mode: i.Mode, Size: i.Size}, v.seen(err)
}

func (v view) Readlink(p string) (string, error) {
	text, err := v.w.root.Readlink(p)
	return text, v.seen(err)
}

func (v view) ReadFile(p string) ([]byte, error) {
	data, err := v.w.root.ReadFile(p, maxConf)
	return data, v.seen(err)
}

func (v view) ReadDir(p string) ([]string, error) {
	names, err := v.w.root.ReadDir(p, maxNames)
	return names, v.seen(err)
}

func (v view) Open(p string) (ldcache.Reader, error) {
	r, err := v.w.root.OpenFile(p)
	return r, v.seen(err)
}

// A look is the root as it is while its cache is made: each thing in it is read
// once.
type look struct {
	*ldcache.Memo
	w   *work
	ids map[string]identity
}

func (w *work) look() *look {
	w.unanswered = nil
	return &look{ldcache.NewMemo(view{w}), w, map[string]identity{}}
}

// identity is that of the file at p, a path without links.
func (l *look) identity(p string) (identity, error) {
	if id, ok := l.ids[p]; ok {
		return id, nil
	}
	i, err := l.w.root.Lstat(p)
	if err == nil {
		l.ids[p] = identity{i.Dev, i.Ino}
	}
	return identity{i.Dev, i.Ino}, err
}

// seen keeps the first error that says nothing of the image, such as ENOMEM: what it
// hid may be there. It returns err.
func (v view) seen(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok && v.w.unanswered == nil && !inroot.OfTheImage(err) && !inroot.BeyondReach(err) {
		v.w.unanswered = err
	}
	return err
}
