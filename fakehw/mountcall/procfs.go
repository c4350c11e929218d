package mountcall

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var procName = [...]byte{'p', 'r', 'o', 'c', 0}

// Procfs opens the context of a new procfs of a process namespace: fsopen(2) takes
// the namespace of who calls, which nobody can change for himself, so a child does
// that has our descriptors, and ends at once.
func (c Caller) Procfs() (int, error) {
	ns, err := c.Open("ns/pid", unix.O_RDONLY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWPID); err != nil {
		return -1, err
	}
	// A descriptor for the child to put its own in the place of.
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		unix.Close(fd)
		return -1, err
	}
	pid, errno := openInChild(uintptr(fd))
	err = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	if errno == 0 {
		var ws unix.WaitStatus
		for {
			if _, waited := unix.Wait4(int(pid), &ws, unix.WCLONE, nil); waited != unix.EINTR {
				break
			}
		}
		errno = syscall.Errno(ws.ExitStatus())
	}
	if err == nil && errno != 0 {
		err = errno
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openInChild starts a child that puts the context in the place of fd and exits
// with the errno. It sends no signal when it ends. Between the two nothing of the
// Go runtime may run in it: it has one thread.
//
//go:norace
//go:nosplit
func openInChild(fd uintptr) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, unix.CLONE_FILES|unix.CLONE_VFORK, 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	ctx, _, errno := syscall.RawSyscall(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(&procName[0])), unix.FSOPEN_CLOEXEC, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, ctx, fd, syscall.O_CLOEXEC)
		syscall.RawSyscall(syscall.SYS_CLOSE, ctx, 0, 0)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT, uintptr(errno), 0, 0)
	}
}
