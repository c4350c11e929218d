package image

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"syscall"

	"gpurig/fakehw/elfgen"
	"gpurig/fakehw/tree"
	"gpurig/scenarios"
)

// With returns the image of a kind with content on top, made once. It has the kind's
// name with the first digits of the content's digest. The error is as of Image, or a
// *scenarios.ContentError.
func (s *Set) With(kind string, c scenarios.Content) (*Image, error) {
	base, err := s.Image(kind)
	if err != nil || c.Empty() {
		return base, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	key := base.Kind + " " + string(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if img := s.made[key]; img != nil {
		return img, nil
	}
	t := base.Tree.Clone()
	if err := apply(t, c); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	img := &Image{Kind: base.Kind, Name: base.Kind + "-" + hex.EncodeToString(sum[:4]), Tree: t, ReadOnly: base.ReadOnly}
	s.made[key] = img
	return img, nil
}

// Check says why an image of a kind cannot have content; nil: it can. Of a kind that
// does not exist it says nothing.
func Check(kind string, c scenarios.Content) *scenarios.ContentError {
	_, err := bare.With(kind, c)
	if cannot, ok := errors.AsType[*scenarios.ContentError](err); ok {
		return cannot
	}
	return nil
}

// HasLdconfig reports whether images of a kind have the program.
func HasLdconfig(kind string) bool {
	img, err := bare.Image(kind)
	if err != nil {
		return false
	}
	_, err = img.Tree.Lstat(Ldconfig)
	return err == nil
}

// bare has every kind's files, and no program.
var bare = NewSet(Bare{})

// apply puts content into a tree, in the order of its fields.
func apply(t *tree.Tree, c scenarios.Content) error {
	for _, part := range []struct {
		key   string
		paths []string
		do    func(p string) error
	}{
		{"remove", slices.Sorted(slices.Values(c.Remove)), t.Remove},
		{"move", keys(c.Move), func(p string) error { return move(t, p, c.Move[p]) }},
		{"links", keys(c.Links), func(p string) error { return t.Symlink(p, c.Links[p]) }},
		{"dirs", slices.Sorted(slices.Values(c.Dirs)), func(p string) error { return t.Mkdir(p, 0o755) }},
		{"files", keys(c.Files), func(p string) error { return t.WriteFile(p, []byte(c.Files[p]), 0o644) }},
		{"libraries", keys(c.Libraries), func(p string) error {
			data, err := library(path.Base(p), c.Libraries[p])
			if err != nil {
				return err
			}
			return t.WriteFile(p, data, 0o644)
		}},
		{"sockets", slices.Sorted(slices.Values(c.Sockets)), func(p string) error { return t.Socket(p, 0o666) }},
		{"fifos", slices.Sorted(slices.Values(c.FIFOs)), func(p string) error { return t.Fifo(p, 0o666) }},
		{"modes", keys(c.Modes), func(p string) error {
			mode, err := strconv.ParseUint(c.Modes[p], 8, 9)
			if err != nil {
				return err
			}
			return t.Chmod(p, fs.FileMode(mode))
		}},
		{"owners", keys(c.Owners), func(p string) error {
			uid, gid, _ := scenarios.ParseOwner(c.Owners[p]) // the loader lets no other form through
			return t.Chown(p, uid, gid)
		}},
	} {
		for _, p := range part.paths {
			if err := part.do(p); err != nil {
				return &scenarios.ContentError{Key: part.key, Path: p, Err: reason(err)}
			}
		}
	}
	return nil
}

func keys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// move renames what is at from, and makes the folders above to.
func move(t *tree.Tree, from, to string) error {
	if _, err := t.Entry(from); err != nil {
		return err
	}
	if up := path.Dir(to); up != "/" {
		if _, err := t.Entry(up); errors.Is(err, fs.ErrNotExist) {
			if err := t.Mkdir(up, 0o755); err != nil {
				return err
			}
		}
	}
	return t.Rename(from, to)
}

// reason is what the image has there, in words.
func reason(err error) error {
	for errno, why := range map[syscall.Errno]string{
		syscall.ENOENT:    "the image has nothing there",
		syscall.EISDIR:    "the image has a folder there: move or remove it first",
		syscall.EEXIST:    "the image has something else there: move or remove it first",
		syscall.ENOTDIR:   "a file or link of the image is on the way",
		syscall.ENOTEMPTY: "the image has something else there: move or remove it first",
		syscall.EINVAL:    "it cannot be moved below itself",
	} {
		if errors.Is(err, errno) {
			return errors.New(why)
		}
	}
	return err
}

// library makes the file of a library.
func library(name string, l scenarios.Library) ([]byte, error) {
	o := elfgen.Object{Arch: cmp.Or(l.Machine, "x86_64"), Name: name, Version: l.Version, SONAME: l.SONAME}
	switch {
	case o.Arch == "x86_64" && l.Class == "32":
		o.Arch = "x32"
	case o.Arch == "i386":
		o.Needed = "libc.so.6" // else ldconfig cannot tell whose it is
	}
	return elfgen.Library(o)
}
