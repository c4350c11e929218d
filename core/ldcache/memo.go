package ldcache

import "path"

// A Memo is a View that asks another one for each thing once. What changes later is
// not seen.
type Memo struct {
	v     View
	infos map[string]remembered[Info]
	links map[string]remembered[string]
	dirs  map[string]remembered[[]string]
	files map[string]remembered[[]byte]
	elfs  map[string]remembered[object]
	room  int // for files, in bytes
}

// maxRemembered bounds the contents of files in one Memo; others are read each time.
const maxRemembered = 16 << 20

// A memoizer is a Memo, or what embeds one.
type memoizer interface {
	readObject(p string, size int64) (object, error)
}

type remembered[T any] struct {
	value T
	err   error
}

// NewMemo returns a Memo of v.
func NewMemo(v View) *Memo {
	return &Memo{
		v:     v,
		infos: map[string]remembered[Info]{},
		links: map[string]remembered[string]{},
		dirs:  map[string]remembered[[]string]{},
		files: map[string]remembered[[]byte]{},
		elfs:  map[string]remembered[object]{},
		room:  maxRemembered,
	}
}

func once[T any](m map[string]remembered[T], p string, ask func() (T, error)) (T, error) {
	r, ok := m[p]
	if !ok {
		r.value, r.err = ask()
		m[p] = r
	}
	return r.value, r.err
}

// Forget has the link at p, a path without other links, and the names of its folder
// asked for again.
func (m *Memo) Forget(p string) {
	delete(m.infos, p)
	delete(m.links, p)
	delete(m.dirs, path.Dir(p))
}

// Lstat is part of View.
func (m *Memo) Lstat(p string) (Info, error) {
	return once(m.infos, p, func() (Info, error) { return m.v.Lstat(p) })
}

// Readlink is part of View.
func (m *Memo) Readlink(p string) (string, error) {
	return once(m.links, p, func() (string, error) { return m.v.Readlink(p) })
}

// ReadDir is part of View.
func (m *Memo) ReadDir(p string) ([]string, error) {
	return once(m.dirs, p, func() ([]string, error) { return m.v.ReadDir(p) })
}

// ReadFile is part of View. Nobody may change what it returns.
func (m *Memo) ReadFile(p string) ([]byte, error) {
	_, known := m.files[p]
	data, err := once(m.files, p, func() ([]byte, error) { return m.v.ReadFile(p) })
	switch {
	case known:
	case len(data) > m.room:
		delete(m.files, p)
	default:
		m.room -= len(data)
	}
	return data, err
}

func (m *Memo) readObject(p string, size int64) (object, error) {
	return once(m.elfs, p, func() (object, error) { return readObject(m.v, p, size) })
}
