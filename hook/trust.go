package hook

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// ErrUntrusted marks a file or directory of the host that somebody else than its
// trusted owner could have written or exchanged.
var ErrUntrusted = errors.New("not to be trusted")

// openTrusted opens a regular file of the host that only root, or ourselves, can
// have written: the file itself and every directory and link on the way to it
// belong to us, and nobody else can write there.
func openTrusted(name string) (*os.File, error) {
	dir, err := trustedDir(path.Dir(name), nobody)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := calls.Openat(dir, path.Base(name), unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := calls.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s: not a regular file: %w", name, ErrUntrusted)
	case !trusted(st.Uid):
		return nil, fmt.Errorf("%s: belongs to user %d, want root: %w", name, st.Uid, ErrUntrusted)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: can be written by others than its owner: %w", name, ErrUntrusted)
	}
	// The name cannot mean another file by now: its directory is trusted.
	got, err := calls.Openat(dir, path.Base(name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(got), name), nil
}

// readTrusted reads such a file of at most limit bytes.
func readTrusted(name string, limit int64) ([]byte, error) {
	f, err := openTrusted(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return data, nil
}

// nobody is the id that belongs to no user.
const nobody = ^uint32(0)

// trustedDir opens the directory at name, component by component, and refuses
// what others than root, ourselves and the user also can change. Links on the
// way are followed; whoever can make one there is trusted.
func trustedDir(name string, also uint32) (_ int, err error) {
	at, err := openRoot()
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/", Err: err}
	}
	defer func() {
		if err != nil {
			unix.Close(at)
		}
	}()
	rest := split(name)
	for links := 0; ; {
		if err := checkDir(at, also); err != nil {
			return -1, fmt.Errorf("%s: a directory on the way: %w", name, err)
		}
		if len(rest) == 0 {
			return at, nil
		}
		fd, text, err := step(at, rest[0], also)
		if err == nil && fd < 0 {
			rest = append(split(text), rest[1:]...)
			if links++; links > 40 {
				err = unix.ELOOP
			} else if path.IsAbs(text) {
				fd, err = openRoot()
			}
		} else if err == nil {
			rest = rest[1:]
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
		if fd >= 0 {
			unix.Close(at)
			at = fd
		}
	}
}

func openRoot() (int, error) {
	return calls.Openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY)
}

func split(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// step opens a directory in the directory at, or returns the text of the link
// there, with fd -1.
func step(at int, name string, also uint32) (fd int, text string, err error) {
	fd, err = calls.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err = calls.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fd, "", nil
	}
	defer unix.Close(fd)
	switch {
	case err != nil:
		return -1, "", err
	case st.Mode&unix.S_IFMT != unix.S_IFLNK:
		return -1, "", unix.ENOTDIR
	case !trusted(st.Uid) && st.Uid != also:
		return -1, "", fmt.Errorf("the link %s belongs to user %d: %w", name, st.Uid, ErrUntrusted)
	}
	text, err = calls.Readlinkat(fd, "")
	return -1, text, err
}

func checkDir(fd int, also uint32) error {
	var st unix.Stat_t
	if err := calls.Fstat(fd, &st); err != nil {
		return err
	}
	sticky := st.Mode&unix.S_ISVTX != 0
	ownGroup := st.Gid == 0 || st.Gid == uint32(os.Getegid())
	switch {
	case !trusted(st.Uid) && st.Uid != also:
		return fmt.Errorf("belongs to user %d, want root: %w", st.Uid, ErrUntrusted)
	case st.Mode&0o002 != 0 && !sticky, st.Mode&0o020 != 0 && !sticky && !ownGroup:
		return fmt.Errorf("others than its owner can write there: %w", ErrUntrusted)
	}
	return nil
}

// trusted reports whether uid is root, ourselves, or how a user namespace shows
// the host's root: as nobody, since it has no id of its own there.
func trusted(uid uint32) bool {
	return uid == 0 || uid == uint32(os.Geteuid()) || uid == 65534 && inUserNamespace()
}

func inUserNamespace() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	f := strings.Fields(string(data))
	whole := len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == strconv.FormatUint(1<<32-1, 10)
	return !whole
}
