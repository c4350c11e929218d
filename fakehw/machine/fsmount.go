package machine

import (
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/mountcall"
)

// A loan is a descriptor that a process has a copy of.
type loan struct {
	process int    // pidfd
	fd      int    // ours
	kind    string // of the file system that it is the context of; empty: a mount
}

// over reports whether the process has ended.
func (l loan) over() bool {
	fds := []unix.PollFd{{Fd: int32(l.process), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

func (l loan) close() {
	unix.Close(l.fd)
	unix.Close(l.process)
}

// most is how many loans of processes that live are kept: an older mount is long
// attached, and stays where it is.
const most = 256

// lend gives the caller a copy of a descriptor and keeps l, which is ours no more.
func (k *containers) lend(call mountcall.Call, l loan, give int, closeOnExec bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lent = append(k.lent, l)
	k.lent = slices.DeleteFunc(k.lent, func(l loan) bool {
		over := l.over()
		if over {
			l.close()
		}
		return over
	})
	if len(k.lent) > most {
		k.lent[0].close()
		k.lent = slices.Delete(k.lent, 0, 1)
	}
	k.calls.ReturnFD(call, give, closeOnExec)
	return errAnswered
}

// fsopen is fsopen(2). That the caller has a context of ours tells us later what it
// mounts: no question about a descriptor of the caller's own does, without asking the
// file system, whose server may be the caller.
func (k *containers) fsopen(call mountcall.Call, who mountcall.Caller) error {
	kind, err := who.String(call.Args[0])
	if err != nil || namespaceOf[kind] == "" || call.Args[1]&^unix.FSOPEN_CLOEXEC != 0 {
		return errNotOurs
	}
	process, err := who.Process()
	if err != nil {
		return err
	}
	ctx, err := k.context(kind, who)
	if err != nil {
		unix.Close(process)
		return err
	}
	return k.lend(call, loan{process, ctx, kind}, ctx, call.Args[1] != 0)
}

// fsmount is fsmount(2) of such a context.
func (k *containers) fsmount(call mountcall.Call, who mountcall.Caller) error {
	ctx, err := who.File(int(int32(call.Args[0])))
	if err != nil || call.Args[1]&^unix.FSMOUNT_CLOEXEC != 0 {
		return errNotOurs
	}
	defer unix.Close(ctx)
	kind := k.kind(ctx)
	if kind == "" {
		return errNotOurs
	}
	process, err := who.Process()
	if err != nil {
		return err
	}
	mnt, give, err := k.lendable(kind, ctx, int(call.Args[2]))
	if err != nil {
		unix.Close(process)
		return err
	}
	defer unix.Close(give)
	return k.lend(call, loan{process: process, fd: mnt}, give, call.Args[1] != 0)
}

// lendable makes a mount and another descriptor of its top. What fsmount(2) returns,
// with which a mount goes that is attached nowhere, cannot be put into another
// process, since it is opened with O_PATH.
func (k *containers) lendable(kind string, ctx, attr int) (mnt, give int, err error) {
	if err := k.enter(); err != nil {
		return -1, -1, err
	}
	if mnt, err = k.whole(kind, ctx, attr); err != nil {
		return -1, -1, err
	}
	if give, err = unix.Openat(mnt, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		unix.Close(mnt)
	}
	return mnt, give, err
}

// lends reports whether a process may have a context of ours.
func (k *containers) lends() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.lent, func(l loan) bool { return l.kind != "" })
}

// kind is what a context that we lent is of; empty: we did not.
func (k *containers) kind(ctx int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	self := uintptr(unix.Getpid())
	for _, l := range k.lent {
		const file = 0 // KCMP_FILE
		same, _, errno := unix.Syscall6(unix.SYS_KCMP, self, self, file, uintptr(ctx), uintptr(l.fd), 0)
		if l.kind != "" && errno == 0 && same == 0 {
			return l.kind
		}
	}
	return ""
}
