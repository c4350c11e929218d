// Package image has the root file systems that containers start from. The
// harness makes them from busybox and the machine's own loader and C
// library, and from an older C library if packaging/old-glibc.sh has installed one.
//
// One description serves every target: simulated targets use the tree, the others
// write the same tree to disk. Images have nothing to do with GPUs, except the two that
// contain conflicting files of another driver or vendor on purpose.
package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gpurig/fakehw/cachedir"
	"gpurig/fakehw/tree"
	"gpurig/scenarios"
)

// ErrUnknown marks a kind that no image has.
var ErrUnknown = errors.New("no such image")

// An Image is one root file system.
type Image struct {
	Kind string
	Name string // the kind's, or with content on top one of its own: "glibc-3fa1b2c4"
	// Tree is shared: clone it before changing it.
	Tree *tree.Tree
	// ReadOnly says that nothing in the root can be changed, also before the
	// container starts: an immutable image.
	ReadOnly bool
}

// kinds are what each kind is made of, in order.
var kinds = map[string]struct {
	about    string
	readOnly bool
	build    func(*builder)
}{
	"glibc":          {about: "Debian's layout: merged usr, multiarch folders, glibc", build: glibcMerged},
	"glibc-unmerged": {about: "glibc with /lib and /usr/lib as folders of their own", build: glibcUnmerged},
	"glibc-old":      {about: "Debian 11: glibc 2.31, a loader's cache in the format of before 2.32, /lib and /usr/lib apart", build: oldGlibc},
	"musl":           {about: "Alpine's layout: musl, no ld.so.cache", build: musl},
	"none":           {about: "no loader and no shell at all, as for static programs", build: none},
	"readonly":       {about: "glibc, and nothing in it can be changed", readOnly: true, build: glibcMerged},
	"stale-libs":     {about: "glibc with libraries, links and empty files of another driver version", build: staleLibs},
	"mesa-links":     {about: "glibc with links of Mesa's where the driver wants its own", build: mesaLinks},
	"hostile-etc":    {about: "glibc with /etc as a link that climbs out of the root", build: hostileEtc},
	"hostile-lib":    {about: "glibc with /usr/lib as a link that climbs out of the root", build: hostileLib},
}

// Kinds returns the names of all images, sorted.
func Kinds() []string {
	out := make([]string, 0, len(kinds))
	for k := range kinds {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// About returns one line on a kind; empty: there is no such kind.
func About(kind string) string { return kinds[kind].about }

// A Source has the programs that images take from the machine. Read returns the
// content of a file, links followed; an error that errors.Is fs.ErrNotExist
// makes the image carry a small marker of the same name instead.
type Source interface {
	Read(path string) ([]byte, error)
}

// Machine is the Source that reads this machine.
type Machine struct{}

// Read is part of Source.
func (Machine) Read(path string) ([]byte, error) {
	if strings.HasPrefix(path, cachedir.System+"/") {
		if err := cachedir.Check(path); err != nil {
			return nil, err
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(real)
}

// Bare is the Source that has nothing: images then are the same on every machine,
// and no program in them runs.
type Bare struct{}

// Read is part of Source.
func (Bare) Read(path string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// A Set makes images, each once. It is safe for use by several goroutines. Two
// targets that shall be compared use one Set, or at least one Source.
type Set struct {
	source Source
	mu     sync.Mutex
	made   map[string]*Image // by kind, and by kind and content
	files  map[string][]byte
}

// NewSet returns a Set. A nil source is Machine.
func NewSet(source Source) *Set {
	if source == nil {
		source = Machine{}
	}
	return &Set{source: source, made: map[string]*Image{}, files: map[string][]byte{}}
}

// Image returns the image of a kind; "" is "glibc". The error wraps ErrUnknown,
// or says which file of the machine could not be read.
func (s *Set) Image(kind string) (*Image, error) {
	if kind == "" {
		kind = scenarios.DefaultImage
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if img := s.made[kind]; img != nil {
		return img, nil
	}
	k, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("image %q: %w: there are %s", kind, ErrUnknown, strings.Join(Kinds(), ", "))
	}
	b := &builder{t: tree.New(), set: s}
	k.build(b)
	if b.err != nil {
		return nil, fmt.Errorf("image %q: %w", kind, b.err)
	}
	img := &Image{Kind: kind, Name: kind, Tree: b.t, ReadOnly: k.readOnly}
	s.made[kind] = img
	return img, nil
}
