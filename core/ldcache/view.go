package ldcache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// A View is a read-only view of a root file system, under absolute, clean
// paths. Links in directories are followed inside the root, the last component
// is not, but by ReadFile and ReadDir. A missing path is an error that errors.Is
// fs.ErrNotExist.
//
// A View that is an Opener too spares reading large libraries as a whole.
type View interface {
	Lstat(path string) (Info, error)
	Readlink(path string) (string, error)
	ReadFile(path string) ([]byte, error)  // only called for regular files
	ReadDir(path string) ([]string, error) // names, sorted
}

// An Info is what this package asks of lstat(2).
type Info struct {
	Mode fs.FileMode // type bits
	Size int64
}

// An Opener opens regular files for reading at offsets.
type Opener interface {
	Open(path string) (Reader, error)
}

// A Reader is an open file.
type Reader interface {
	io.ReaderAt
	io.Closer
}

// A Skip is something that was left out, and why.
type Skip struct {
	Path string
	Err  error
}

func (s Skip) String() string { return s.Path + ": " + s.Err.Error() }

const maxLinks = 40 // as in the kernel, path_resolution(7)

// Real is p without links, as they lead inside the root.
func Real(v View, p string) (string, error) {
	real, _, err := resolve(v, p)
	return real, err
}

// resolve follows every link of p inside the root.
func resolve(v View, p string) (string, Info, error) { return resolveFrom(v, "/", p) }

// resolveFrom follows the links of p, seen from the folder at, which is resolved.
func resolveFrom(v View, at, p string) (string, Info, error) {
	if path.IsAbs(p) {
		at = "/"
	}
	rest := strings.Split(p, "/")
	info, links := Info{Mode: fs.ModeDir}, 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at, info = path.Dir(at), Info{Mode: fs.ModeDir}
			continue
		}
		if !info.Mode.IsDir() {
			return "", Info{}, fmt.Errorf("%s: %w", at, syscall.ENOTDIR)
		}
		next := path.Join(at, name)
		var err error
		if info, err = v.Lstat(next); err != nil {
			return "", Info{}, err
		}
		if info.Mode&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", Info{}, fmt.Errorf("%s: %w", p, syscall.ELOOP)
		}
		target, err := v.Readlink(next)
		if err != nil {
			return "", Info{}, err
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
		info = Info{Mode: fs.ModeDir}
	}
	return at, info, nil
}

// missing reports whether err says that a path leads nowhere.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
