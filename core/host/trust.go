package host

import (
	"errors"
	"fmt"
)

// Untrusted returns why somebody other than root could have written the file,
// or "" (A32). It walks the path as the kernel does: each directory, each link, and
// what each link leads to.
func Untrusted(r Root, file string) string {
	if why := othersWrite(r, "/"); why != "" {
		return why
	}
	_, err := Resolve(trusting{r}, file)
	if open, ok := errors.AsType[openError](err); ok {
		return string(open)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// trusting is a root of what root alone can change: all else is an openError.
type trusting struct{ Root }

// An openError says why others can change a path.
type openError string

func (e openError) Error() string { return string(e) }

func (t trusting) Lstat(p string) (Info, error) {
	if why := othersWrite(t.Root, p); why != "" {
		return Info{}, openError(why)
	}
	return t.Root.Lstat(p)
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
