package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// MaxLinks is how many links one path may lead through, as in the kernel
// (path_resolution(7)).
const MaxLinks = 40

// Resolve follows every link of p, the last component too, and returns the path
// that is no link. Absolute targets start at the root, and ".." stops there, as
// for a process whose root directory it is.
//
// The error wraps fs.ErrNotExist for a dangling link and syscall.ELOOP for more
// than MaxLinks links.
func Resolve(r Root, p string) (string, error) { return resolve(r, p, true) }

// ResolveDir follows the links of p's directory only: the last component is
// kept, whatever it is, and need not exist.
func ResolveDir(r Root, p string) (string, error) { return resolve(r, p, false) }

// A Resolver is a Root that follows links itself: Resolve, or ResolveDir where last is
// false, in one go.
type Resolver interface {
	ResolvePath(p string, last bool) (string, error)
}

func resolve(r Root, p string, last bool) (string, error) {
	if !path.IsAbs(p) {
		return "", fmt.Errorf("resolve %q: not an absolute path", p)
	}
	if own, ok := r.(Resolver); ok {
		at, err := own.ResolvePath(p, last)
		if err != nil {
			return "", fmt.Errorf("resolve %s: %w", p, err)
		}
		return at, nil
	}
	at, links := "/", 0
	for name, rest := "", path.Clean(p)[1:]; rest != ""; {
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := strings.TrimSuffix(at, "/") + "/" + name
		if rest == "" && !last {
			return next, nil
		}
		info, err := r.Lstat(next)
		if err != nil {
			return "", fmt.Errorf("resolve %s: %w", p, err)
		}
		if !info.IsLink() {
			if rest != "" && !info.Mode.IsDir() {
				return "", fmt.Errorf("resolve %s: %s is not a directory: %w", p, next, syscall.ENOTDIR)
			}
			at = next
			continue
		}
		if links++; links > MaxLinks {
			return "", fmt.Errorf("resolve %s: %w", p, syscall.ELOOP)
		}
		target, err := r.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("resolve %s: %w", p, err)
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	return at, nil
}

// Exists reports whether p leads to something, links followed.
func Exists(r Root, p string) (bool, error) {
	_, err := Resolve(r, p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}
