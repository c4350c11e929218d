package machine

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurig/core/show"
	"gpurig/fakehw"
	"gpurig/fakehw/mountcall"
)

// containers makes the mounts of sysfs and procfs that programs of a machine make:
// container runtimes, in new namespaces mostly. Each shows the fake host where the
// machine's own does.
//
// It works in a mount namespace behind the machine's, in which the real /proc and
// /sys are whole, as the kernel wants to see them before a user namespace may have
// its own, and in which the program unmounts nothing.
type containers struct {
	calls   *mountcall.Listener
	proc    int    // the machine's /proc
	back    int    // the namespace
	stage   int    // the staging area, in that namespace
	fuse    int    // the FUSE mount, there
	real    string // the mount namespace of the real machine, as Namespace says it
	fakes   []bind
	uts     string   // our namespace of names, as Namespace says it
	release string   // of the host's kernel; empty: as it is
	live    string   // folder of the staging area that is /run/gpurig; empty: none
	keep    []string // what of a sysfs, by path below it, is of its namespaces or a place to mount on
	lent    []loan
	mu      sync.Mutex // for scratch and lent
}

// scratch is the folder of the staging area in which mounts are put together.
const scratch = "scratch"

// backstage makes the namespace; the machine has no mounts yet but the staging area.
func (c *child) backstage(parentNS string) (*containers, error) {
	k := &containers{real: parentNS}
	var err error
	at, name := unix.AT_FDCWD, "/proc"
	if c.proc >= 0 { // which tells of our process namespace
		at, name = c.proc, "."
	}
	if k.proc, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc", Err: err}
	}
	buf := make([]byte, 64)
	n, err := unix.Readlinkat(k.proc, "thread-self/ns/uts", buf)
	if err != nil {
		return nil, &os.PathError{Op: "readlink", Path: "ns/uts", Err: err}
	}
	k.uts = string(buf[:n])
	for _, dir := range []string{scratch, scratch + "/proc", scratch + "/sys", scratch + "/real"} {
		if err := unix.Mkdirat(c.stage, dir, 0o700); err != nil {
			return nil, os.NewSyscallError("mkdir", err)
		}
	}
	k.keep = []string{"class/net", "devices/virtual/net"}
	for _, p := range below(c.table, "/sys") {
		k.keep = append(k.keep, strings.TrimPrefix(p, "/sys/"))
	}
	done := make(chan error)
	go func() { done <- k.unshare(c.stage) }()
	return k, <-done
}

// unshare makes the namespace with the thread of its goroutine, which ends with it.
func (k *containers) unshare(stage int) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Fchdir(stage); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil { // the working directory goes with it
		return os.NewSyscallError("unshare", err)
	}
	for _, x := range []struct {
		to    *int
		at    int
		path  string
		flags int
	}{
		{&k.stage, unix.AT_FDCWD, ".", unix.O_PATH},
		{&k.fuse, unix.AT_FDCWD, "fuse", unix.O_PATH},
		{&k.back, k.proc, "thread-self/ns/mnt", unix.O_RDONLY},
	} {
		fd, err := unix.Openat(x.at, x.path, x.flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: x.path, Err: err}
		}
		*x.to = fd
	}
	return nil
}

// serve answers calls until nobody is left who could make one.
func (k *containers) serve() {
	for {
		call, err := k.calls.Receive()
		if err != nil {
			return
		}
		go k.answer(call)
	}
}

// answer answers one call, in a thread that ends with it if there is something to do.
func (k *containers) answer(call mountcall.Call) {
	if call.Nr == unix.SYS_UNAME {
		k.uname(call, call.Caller(k.proc))
		return
	}
	if !k.concerns(call, call.Caller(k.proc)) {
		k.calls.Continue(call)
		return
	}
	runtime.LockOSThread()
	var errno unix.Errno
	switch err := k.carryOut(call); {
	case err == errAnswered:
	case err == errNotOurs:
		k.calls.Continue(call)
	case err == nil || errors.As(err, &errno):
		k.calls.Return(call, errno)
	default:
		show.Fprintf(os.Stderr, "gpurig: mount of a container: %v\n", err)
		k.calls.Return(call, unix.EIO)
	}
}

// uname answers uname(2): the names are those of the caller's namespace, release and
// version those of the host's kernel. Programs run on this machine's processor, so its
// architecture stays: LXC, for one, takes it for that of its own calls.
func (k *containers) uname(call mountcall.Call, who mountcall.Caller) {
	ns, err := who.Namespace("uts")
	if err != nil || k.release == "" || !who.Plain() {
		k.calls.Continue(call)
		return
	}
	if ns != k.uts {
		runtime.LockOSThread() // it ends with this goroutine
		fd, err := who.Open("ns/uts", unix.O_RDONLY)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWUTS)
			unix.Close(fd)
		}
		if err != nil {
			k.calls.Continue(call)
			return
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		k.calls.Continue(call)
		return
	}
	for field, text := range map[*[65]byte]string{&u.Release: k.release, &u.Version: fakehw.KernelVersion} {
		*field = [65]byte{}
		copy(field[:64], text)
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(&u)), unsafe.Sizeof(u))
	switch {
	case !k.calls.Waits(call):
		k.calls.Continue(call)
	case who.Write(call.Args[0], data) != nil:
		k.calls.Return(call, unix.EFAULT)
	default:
		k.calls.Return(call, 0)
	}
}

// errNotOurs says that the kernel is to carry the call out; errAnswered that it was
// answered.
var (
	errNotOurs  = errors.New("no mount of sysfs or procfs")
	errAnswered = errors.New("answered")
)

// concerns reports whether a call may be one of procfs or sysfs: most are not.
func (k *containers) concerns(call mountcall.Call, who mountcall.Caller) bool {
	kindAt := call.Args[0] // of fsopen(2)
	if call.Nr == unix.SYS_MOUNT {
		kindAt = call.Args[2]
	}
	switch bind := call.Nr == unix.SYS_MOUNT && call.Args[3]&unix.MS_BIND != 0; {
	case call.Nr == unix.SYS_FSMOUNT:
		return k.lends()
	case !bind && call.Nr != unix.SYS_UMOUNT2:
		kind, err := who.String(kindAt)
		return err == nil && namespaceOf[kind] != ""
	}
	// The source of a bind, or what is to be unmounted.
	p, err := who.String(call.Args[0])
	if err != nil {
		return false
	}
	fd, err := who.Peek(p, 0)
	if err != nil {
		return true // a closer look tells
	}
	defer unix.Close(fd)
	return k.kindOf(call.TID, fd) != ""
}

func (k *containers) carryOut(call mountcall.Call) error {
	who := call.Caller(k.proc)
	if !who.May("mnt") {
		return errNotOurs // the kernel will refuse it in its own way
	}
	if ns, err := who.Namespace("mnt"); err != nil || ns == k.real || !k.calls.Waits(call) {
		return errNotOurs // nothing is mounted on the real machine (A41)
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	switch {
	case call.Nr == unix.SYS_FSOPEN:
		return k.fsopen(call, who)
	case call.Nr == unix.SYS_FSMOUNT:
		return k.fsmount(call, who)
	case call.Nr == unix.SYS_UMOUNT2:
		return k.unmount(call, who)
	case call.Args[3]&unix.MS_BIND != 0:
		return k.bind(call, who)
	}
	return k.mount(call, who)
}

// namespaceOf is the namespace that a file system shows.
var namespaceOf = map[string]string{"proc": "pid", "sysfs": "net"}

// mount is mount(2) of a new file system.
func (k *containers) mount(call mountcall.Call, who mountcall.Caller) error {
	kind, err := who.String(call.Args[2])
	if err != nil || namespaceOf[kind] == "" || !who.May(namespaceOf[kind]) {
		return errNotOurs
	}
	source, err := who.String(call.Args[0])
	if err != nil {
		return err
	}
	target, err := who.String(call.Args[1])
	if err != nil {
		return err
	}
	options, err := who.String(call.Args[4])
	if err != nil {
		return err
	}
	if err := k.enter(); err != nil {
		return err
	}
	ctx, err := k.context(kind, who)
	if err != nil {
		return err
	}
	defer unix.Close(ctx)
	if err := configure(ctx, source, options, call.Args[3]&unix.MS_RDONLY != 0); err != nil {
		return err
	}
	mnt, err := k.whole(kind, ctx, mountAttr(call.Args[3]))
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	return k.put(call, who, mnt, target)
}

// put attaches a mount to what a path of the caller leads to.
func (k *containers) put(call mountcall.Call, who mountcall.Caller, mnt int, target string) error {
	if err := who.Enter(); err != nil {
		return err
	}
	at, err := who.Path(target, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if !k.calls.Waits(call) {
		return errNotOurs
	}
	return unix.MoveMount(mnt, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// context begins a new file system in the caller's namespaces.
func (k *containers) context(kind string, who mountcall.Caller) (int, error) {
	if kind == "proc" {
		return who.Procfs()
	}
	ns, err := who.Open("ns/net", unix.O_RDONLY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return -1, err
	}
	return unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
}

// configure gives a context what mount(2) gives it.
func configure(ctx int, source, options string, readOnly bool) error {
	if source != "" {
		if err := unix.FsconfigSetString(ctx, "source", source); err != nil {
			return err
		}
	}
	if readOnly {
		if err := unix.FsconfigSetFlag(ctx, "ro"); err != nil {
			return err
		}
	}
	for option := range strings.SplitSeq(options, ",") {
		var err error
		if key, value, ok := strings.Cut(option, "="); ok {
			err = unix.FsconfigSetString(ctx, key, value)
		} else if option != "" {
			err = unix.FsconfigSetFlag(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	return unix.FsconfigCreate(ctx)
}

// mountAttr are the attributes of fsmount(2) for flags of mount(2).
func mountAttr(flags uint64) int {
	out := 0
	for flag, attr := range map[uint64]int{
		unix.MS_RDONLY: unix.MOUNT_ATTR_RDONLY, unix.MS_NOSUID: unix.MOUNT_ATTR_NOSUID, unix.MS_NODEV: unix.MOUNT_ATTR_NODEV,
		unix.MS_NOEXEC: unix.MOUNT_ATTR_NOEXEC, unix.MS_NODIRATIME: unix.MOUNT_ATTR_NODIRATIME, unix.MS_NOSYMFOLLOW: unix.MOUNT_ATTR_NOSYMFOLLOW,
	} {
		if flags&flag != 0 {
			out |= attr
		}
	}
	switch {
	case flags&unix.MS_NOATIME != 0:
		out |= unix.MOUNT_ATTR_NOATIME
	case flags&unix.MS_STRICTATIME != 0:
		out |= unix.MOUNT_ATTR_STRICTATIME
	}
	return out
}
