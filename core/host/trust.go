package host

import (
	"fmt"
	"path"
	"strings"
)

// Untrusted returns why somebody other than root could have written the file,
// or "" (A32). It walks the path as the kernel does: each directory, each link, and
// what each link leads to.
func Untrusted(r Root, file string) string {
	at, links := "/", 0
	if why := othersWrite(r, at); why != "" {
		return why
	}
	rest := strings.Split(path.Clean(file), "/")[1:]
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		if why := othersWrite(r, next); why != "" {
			return why
		}
		info, err := r.Lstat(next)
		if err != nil {
			return err.Error()
		}
		if !info.IsLink() {
			at = next
			continue
		}
		if links++; links > MaxLinks {
			return fmt.Sprintf("%s leads through more than %d links", file, MaxLinks)
		}
		target, err := r.Readlink(next)
		if err != nil {
			return err.Error()
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return ""
}

// othersWrite returns why others than root can change p, or "". The mode of a
// link says nothing, its owner can still replace it in a sticky directory.
func othersWrite(r Root, p string) string {
	info, err := r.Lstat(p)
	if err != nil {
		return err.Error()
	}
	if info.UID != 0 {
		return fmt.Sprintf("%s belongs to user %d", p, info.UID)
	}
	if perm := info.Mode.Perm(); !info.IsLink() && perm&0o022 != 0 {
		return fmt.Sprintf("%s is writable for others than root (mode %04o)", p, perm)
	}
	return ""
}
