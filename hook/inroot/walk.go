package inroot

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the kernel's own limit, path_resolution(7).
const maxLinks = 40

// openWalking does what openat2 does with RESOLVE_IN_ROOT and
// RESOLVE_NO_MAGICLINKS, one component at a time.
//
// Every directory on the way is held by an O_PATH descriptor, so an exchange of
// a directory for a link changes nothing that was opened before; ".." goes back
// to the descriptor we came from and is never given to the kernel; links are
// read and walked as text, so a magic link is only its text. The mount id of
// every component is compared with the root's.
func (r *Root) openWalking(p string, flags int, x crossing) (int, error) {
	w := walker{root: r, x: x}
	defer w.close()
	return w.open(p, flags)
}

type walker struct {
	root  *Root
	x     crossing
	stack []int // open directories below the root, outermost first
	links int
}

func (w *walker) close() {
	for _, fd := range w.stack {
		unix.Close(fd)
	}
}

func (w *walker) at() int {
	if len(w.stack) == 0 {
		return w.root.fd
	}
	return w.stack[len(w.stack)-1]
}

func (w *walker) up() {
	if n := len(w.stack); n > 0 {
		unix.Close(w.stack[n-1])
		w.stack = w.stack[:n-1]
	}
}

func (w *walker) reset() {
	w.close()
	w.stack = nil
}

// open walks to the last component and opens it with flags.
func (w *walker) open(p string, flags int) (int, error) {
	rest := components(p)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			if w.root.beneath && len(w.stack) == 0 {
				return -1, unix.EXDEV
			}
			w.up()
			continue
		}
		fd, err := unix.Openat(w.at(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return -1, err
		}
		if err := w.sameMount(fd); err != nil {
			unix.Close(fd)
			return -1, err
		}
		isLast := len(rest) == 0
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if isLast && flags&unix.O_NOFOLLOW != 0 {
				return w.reopen(fd, flags)
			}
			text, err := readlinkat(fd, "")
			unix.Close(fd)
			if err != nil {
				return -1, err
			}
			if w.links++; w.links > maxLinks {
				return -1, unix.ELOOP
			}
			if path.IsAbs(text) {
				if w.root.beneath {
					return -1, unix.EXDEV
				}
				w.reset()
			}
			rest = append(components(text), rest...)
		case unix.S_IFDIR:
			w.stack = append(w.stack, fd)
		default:
			if !isLast {
				unix.Close(fd)
				return -1, unix.ENOTDIR
			}
			return w.reopen(fd, flags)
		}
	}
	fd, err := unix.FcntlInt(uintptr(w.at()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, err
	}
	return w.reopen(fd, flags)
}

// reopen turns the O_PATH descriptor fd of a checked object into one opened
// with flags, and closes fd. Opening "." or the object itself by
// /proc/self/fd cannot be exchanged: it is the same inode.
func (w *walker) reopen(fd, flags int) (int, error) {
	if flags&unix.O_PATH != 0 {
		if flags&unix.O_DIRECTORY != 0 {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
				unix.Close(fd)
				return -1, unix.ENOTDIR
			}
		}
		return fd, nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.Openat(fd, ".", flags&^unix.O_NOFOLLOW, 0)
	case unix.S_IFREG:
		if flags&unix.O_DIRECTORY != 0 {
			return -1, unix.ENOTDIR
		}
		return openProcFD(fd, flags&^unix.O_NOFOLLOW)
	}
	return -1, unix.ENXIO // neither FIFO nor device nor socket is ever opened
}

func (w *walker) sameMount(fd int) error {
	if w.x == anyMount {
		return nil
	}
	id, err := mountID(fd)
	if err == nil && id != w.root.mount {
		return unix.EXDEV
	}
	return err
}

func components(p string) []string {
	var out []string
	for part := range strings.SplitSeq(p, "/") {
		if part != "" && part != "." {
			out = append(out, part)
		}
	}
	return out
}
