// Package cachedir chooses the folders in which this program caches what it made:
// libraries and programs that it compiled, Specs that it generated, images that it
// unpacked.
//
// Cached files are run, and mapped into other programs, often as root. So a folder is
// used only if nobody else could have written to it: the folder and every folder and
// link on the way to it belong to root or to the caller, and nobody else can write
// there. If sudo -E keeps another user's HOME, what that user compiled is not run as
// root.
package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// System is where root keeps what all may use, and its own where there is no other place.
const System = "/var/cache/gpurig"

// ErrUntrusted marks what another user owns or could have written.
var ErrUntrusted = errors.New("not to be trusted")

// Places are the folders that may hold a cache, the best first: gpurig in the user's
// cache folder, a folder of the user's among temporary files, and for root System. They
// need not exist. What is no place for this user is not among them: why joins the reasons.
func Places() (dirs []string, why error) {
	var all []string
	home, err := os.UserCacheDir()
	if err == nil {
		all = append(all, filepath.Join(home, "gpurig"))
	}
	all = append(all, filepath.Join(os.TempDir(), fmt.Sprintf("gpurig-cache-%d", os.Geteuid())))
	if os.Geteuid() == 0 {
		all = append(all, System) // another user can have taken the name among temporary files
	}
	reasons := []error{err}
	for _, dir := range all {
		if err := Check(dir); err != nil {
			reasons = append(reasons, err)
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs, errors.Join(reasons...)
}

// Dir is the first of Places.
func Dir() (string, error) {
	dirs, why := Places()
	if len(dirs) == 0 {
		return "", why
	}
	return dirs[0], nil
}

// Make makes a folder of a cache, and those above it, with bits that let nobody else write.
func Make(dir string, bits fs.FileMode) error {
	if err := os.MkdirAll(dir, bits); err != nil {
		return err
	}
	return Check(dir)
}

// Check says why a file or folder is not to be trusted: the error names the part of its
// path that another user owns or could write. A path of which a part is not there is
// trusted as far as it is, since only who is trusted can make the rest.
func Check(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := "/", parts(path)
	for links := 0; ; {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := judge(at, info, len(rest) == 0); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > 40 {
				return &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
			}
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if rest = append(parts(to), rest...); filepath.IsAbs(to) {
				at = "/"
			} else {
				at = filepath.Dir(at)
			}
			continue
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

func parts(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// judge is the rule for one part of a path. In a user namespace, root outside and all
// other users there show as one: such a one may own what is on the way, where nobody can
// write who could not before, but never what is taken.
func judge(path string, info fs.FileInfo, last bool) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is not known: %w", path, ErrUntrusted)
	}
	uid, mode := int(st.Uid), info.Mode()
	open := mode.Perm()&0o002 != 0 || mode.Perm()&0o020 != 0 && st.Gid != 0
	switch {
	case uid != 0 && uid != os.Geteuid() && (last || uid != overflow || !mapped()):
		return fmt.Errorf("%s belongs to user %d, not to root or user %d: %w", path, uid, os.Geteuid(), ErrUntrusted)
	case mode&fs.ModeSymlink != 0: // nobody writes to a link
	case open && (last || !mode.IsDir() || mode&fs.ModeSticky == 0): // in /tmp, what is ours stays
		return fmt.Errorf("%s can be written by others than its owner: %w", path, ErrUntrusted)
	}
	return nil
}

// overflow is what an owner is called who is not in the user namespace (user_namespaces(7)).
const overflow = 65534

// mapped reports whether this process is in a user namespace that lacks users.
func mapped() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295"
}

// Beside returns the path of a file that came with this program: in its folder, as make
// build leaves it, or in ../lib/gpurig, as make install does. Whoever could write this
// program is trusted with the file too, and nobody else: in a folder that is open to all,
// another user could have added it. A file that is in neither is an fs.ErrNotExist, with
// the path that it would have in this program's folder.
func Beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return besideOf(self, name)
}

func besideOf(self, name string) (string, error) {
	program := filepath.Join(filepath.Dir(self), name)
	info, err := os.Stat(program)
	if errors.Is(err, fs.ErrNotExist) {
		installed := filepath.Join(filepath.Dir(self), "../lib/gpurig", name)
		if i, e := os.Stat(installed); e == nil {
			program, info, err = installed, i, nil
		}
	}
	if err != nil {
		return program, err
	}
	own, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	it, itOK := info.Sys().(*syscall.Stat_t)
	us, usOK := own.Sys().(*syscall.Stat_t)
	if !itOK || !usOK {
		return "", fmt.Errorf("%s: its owner is not known: %w", program, ErrUntrusted)
	}
	writers := info.Mode().Perm() & 0o022 &^ (own.Mode().Perm() & 0o022)
	switch {
	case it.Uid != 0 && int(it.Uid) != os.Geteuid() && it.Uid != us.Uid:
		return "", fmt.Errorf("%s belongs to user %d, and %s to user %d: %w", program, it.Uid, self, us.Uid, ErrUntrusted)
	case writers&0o002 != 0, writers != 0 && it.Gid != 0 && it.Gid != us.Gid:
		return "", fmt.Errorf("%s can be written by others than its owner: %w", program, ErrUntrusted)
	}
	return program, nil
}
