// Package calls repeats system calls that a signal interrupts; on FUSE and NFS even
// calls that only read can be interrupted. Files that it opens are
// closed on exec. It resolves no path and makes no decisions.
package calls

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Again repeats a call that a signal interrupted.
func Again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Openat is openat(2) without O_CREAT.
func Openat(dir int, name string, flags int) (int, error) { return Create(dir, name, flags, 0) }

// Create is openat(2); mode is that of a file that it makes.
func Create(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = Again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// Fstat is fstat(2).
func Fstat(fd int, st *unix.Stat_t) error {
	return Again(func() error { return unix.Fstat(fd, st) })
}

// Lstatat is fstatat(2) of a name itself, whatever it is.
func Lstatat(dir int, name string, st *unix.Stat_t) error {
	return Again(func() error { return unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// Readlinkat is readlinkat(2), the whole text.
func Readlinkat(dir int, name string) (string, error) {
	for buf := make([]byte, 256); ; buf = make([]byte, unix.PathMax) {
		n := 0
		err := Again(func() (err error) {
			n, err = unix.Readlinkat(dir, name, buf)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < len(buf) || n == unix.PathMax {
			return string(buf[:n]), nil
		}
	}
}

// Fsync is fsync(2); a file system that has none for directories is no error.
func Fsync(fd int) error {
	err := Again(func() error { return unix.Fsync(fd) })
	if err == unix.EINVAL {
		return nil
	}
	return err
}

// Closed is what close(2) said, whose interruption is none: Linux has given the
// descriptor up by then, and there may be another one of its number.
func Closed(err error) error {
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}
