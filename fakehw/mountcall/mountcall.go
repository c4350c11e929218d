// Package mountcall tells one process of the mounts that others make, before they
// are made: a seccomp filter hands mount(2), umount2(2), fsopen(2) and fsmount(2)
// of a process and of all that descend from it to a Listener, which answers each
// call or lets the kernel do it; and uname(2), by which programs ask for the kernel's
// release. No other call is any slower.
//
// Only one filter of a process may have a listener. A program that installs its own
// below this one, and one of ours below another, is told EBUSY by the kernel.
//
// Reference: https://docs.kernel.org/userspace-api/seccomp_filter.html
package mountcall

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrTaken says that a filter above has a listener already.
var ErrTaken = errors.New("another program is told of the mounts here already")

// Unseen is an attribute of fsmount(2) that keeps the call from a Listener. No
// container runtime sets it for a file system of the kernel's.
const Unseen = unix.MOUNT_ATTR_NOSYMFOLLOW

// A Listener has the calls. Its methods may be called at the same time.
type Listener struct{ fd int }

// A Call is a system call that waits for its answer.
type Call struct {
	ID   uint64
	TID  int // of the thread, in our process namespace
	Nr   int
	Args [6]uint64
}

// notif is struct seccomp_notif.
type notif struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	id       uint64
	flags    uint32
	src      uint32
	fd       uint32
	newFlags uint32
}

// Requests that package unix lacks.
const (
	idValid = 0x40082102
	putFD   = 0x40182103
)

// Listen installs the filter in the calling thread, which stays in it, as does all
// that it starts. The caller has locked the goroutine to its thread and lets it end
// so. It takes CAP_SYS_ADMIN; no_new_privs, which would end set-user-id programs, is
// not set.
func Listen() (*Listener, error) {
	code := filter()
	if code == nil {
		return nil, fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	// Older kernels than 5.6 cannot carry out by themselves what was told of here.
	if _, err := unix.PidfdGetfd(-1, 0, 0); err == unix.ENOSYS {
		return nil, fmt.Errorf("this kernel is older than 5.6: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW
	// A call that we work on is not to be begun again for a signal; kernels before
	// 5.19 do that.
	for _, f := range []uintptr{flags | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, flags} {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, f, uintptr(unsafe.Pointer(&prog)))
		switch errno {
		case 0:
			unix.CloseOnExec(int(fd))
			return &Listener{int(fd)}, nil
		case unix.EBUSY:
			return nil, ErrTaken
		case unix.EINVAL:
			continue
		}
		return nil, os.NewSyscallError("seccomp", errno)
	}
	return nil, os.NewSyscallError("seccomp", unix.EINVAL)
}

// Receive waits for the next call. An error says that there will be none.
func (l *Listener) Receive() (Call, error) {
	for {
		var n notif
		switch err := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err {
		case nil:
			return Call{ID: n.id, TID: int(n.pid), Nr: int(n.nr), Args: n.args}, nil
		case unix.EINTR:
		case unix.ENOENT: // whoever called was killed
			if l.ended() {
				return Call{}, err
			}
		default:
			return Call{}, os.NewSyscallError("ioctl", err)
		}
	}
}

// ended reports whether nobody is left below the filter.
func (l *Listener) ended() bool {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&unix.POLLHUP != 0
}

// Waits reports whether the call is still to be answered: whoever made it lives,
// and its thread's number is its own.
func (l *Listener) Waits(c Call) bool {
	return l.ioctl(idValid, unsafe.Pointer(&c.ID)) == nil
}

// Continue lets the kernel carry the call out.
func (l *Listener) Continue(c Call) {
	l.answer(answer{id: c.ID, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// Return ends the call with an errno, or with 0.
func (l *Listener) Return(c Call, errno unix.Errno) {
	l.answer(answer{id: c.ID, errno: -int32(errno)})
}

// ReturnFD ends the call with a copy of a descriptor of ours.
func (l *Listener) ReturnFD(c Call, fd int, closeOnExec bool) {
	a := addFD{id: c.ID, src: uint32(fd)}
	if closeOnExec {
		a.newFlags = unix.O_CLOEXEC
	}
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), putFD, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		l.Return(c, errno)
		return
	}
	l.answer(answer{id: c.ID, val: int64(n)})
}

// answer has no error of interest: whoever called was killed meanwhile.
func (l *Listener) answer(a answer) { _ = l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) }

func (l *Listener) ioctl(request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}
