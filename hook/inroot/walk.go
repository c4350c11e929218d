package inroot

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// maxLinks is the kernel's own limit, path_resolution(7).
const maxLinks = 40

// findWalking does what openat2 does with O_PATH, RESOLVE_IN_ROOT and
// RESOLVE_NO_MAGICLINKS, one component at a time.
//
// Every directory on the way is held by an O_PATH descriptor, so an exchange of
// a directory for a link changes nothing that was opened before; ".." goes back
// to the descriptor we came from and is never given to the kernel; links are
// read and walked as text, so a magic link is only its text. The mount id of
// every component is compared with the root's.
func (r *Root) findWalking(p string, flags int, x crossing) (int, error) {
	w := walker{root: r, x: x}
	defer w.reset()
	return w.find(p, flags)
}

type walker struct {
	root  *Root
	x     crossing
	stack []int // open directories below the root, outermost first
	links int
}

func (w *walker) reset() {
	for _, fd := range w.stack {
		unix.Close(fd)
	}
	w.stack = nil
}

func (w *walker) at() int {
	if len(w.stack) == 0 {
		return w.root.fd
	}
	return w.stack[len(w.stack)-1]
}

// up answers "..": at the root it leads nowhere, as in a container.
func (w *walker) up() error {
	n := len(w.stack)
	if n == 0 {
		if w.root.beneath {
			return unix.EXDEV
		}
		return nil
	}
	unix.Close(w.stack[n-1])
	w.stack = w.stack[:n-1]
	return nil
}

// find walks to the last component.
func (w *walker) find(p string, flags int) (int, error) {
	rest := components(p)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			if err := w.up(); err != nil {
				return -1, err
			}
			continue
		}
		fd, kind, err := w.open(name)
		if err != nil {
			return -1, err
		}
		last := len(rest) == 0
		switch {
		case kind == unix.S_IFLNK && (!last || flags&unix.O_NOFOLLOW == 0):
			text, err := w.follow(fd)
			if err != nil {
				return -1, err
			}
			rest = append(components(text), rest...)
		case kind == unix.S_IFDIR:
			w.stack = append(w.stack, fd)
		case !last || flags&unix.O_DIRECTORY != 0:
			unix.Close(fd)
			return -1, unix.ENOTDIR
		default:
			return fd, nil
		}
	}
	return unix.FcntlInt(uintptr(w.at()), unix.F_DUPFD_CLOEXEC, 3)
}

// open opens one name of the directory at hand and tells its type.
func (w *walker) open(name string) (fd int, kind uint32, err error) {
	if fd, err = calls.Openat(w.at(), name, unix.O_PATH|unix.O_NOFOLLOW); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	err = calls.Fstat(fd, &st)
	if err == nil && w.x == sameMount {
		var id uint64
		if id, err = mountID(fd); err == nil && id != w.root.mount {
			err = unix.EXDEV
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Mode & unix.S_IFMT, nil
}

// follow reads the text of the link fd, which it closes, and goes back to the
// root if that is absolute.
func (w *walker) follow(fd int) (string, error) {
	text, err := calls.Readlinkat(fd, "")
	unix.Close(fd)
	if err != nil {
		return "", err
	}
	if w.links++; w.links > maxLinks {
		return "", unix.ELOOP
	}
	if path.IsAbs(text) {
		if w.root.beneath {
			return "", unix.EXDEV
		}
		w.reset()
	}
	return text, nil
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
