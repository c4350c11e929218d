package hook

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurig/hook/inroot"
)

// kept are the capabilities that work in a container's root needs: files of other
// owners, owners and modes of what is made, the container root's ids for file
// access. Those that finding the root needed are given up.
var kept = []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID}

// confine gives up, on every thread and for good, what the rest of a run does not
// need. It comes when the root is open and before anything in it is read, so that
// a fault in what reads an image is worth less to the image.
//
// What is not there on an old kernel, or is filtered, is left out (Landlock) or is
// no reason to stop (a filter of its own is what forbids another one); keeping
// capabilities that could be given up is.
func confine(root *inroot.Root, hookFile string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up rights: no_new_privs: %w", err)
	}
	filtered, err := filterCalls()
	if err != nil {
		return err
	}
	if !filtered { // the filter gives no_new_privs to the other threads
		if err := everyThread("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
			return err
		}
	}
	if err := fence(root, hookFile); err != nil {
		return err
	}
	return dropCapabilities()
}

// everyThread makes one system call on all threads of the process. A build with
// cgo, as test programs are and the shipped program is not, can do so on its own
// thread only, which does all the work.
func everyThread(what string, call, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(call, a, b, c)
	if errno == unix.ENOTSUP {
		_, _, errno = unix.RawSyscall(call, a, b, c)
	}
	if errno != 0 {
		return fmt.Errorf("give up rights: %s: %w", what, errno)
	}
	return nil
}

// dropCapabilities keeps those of kept that we have.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var now [2]unix.CapUserData
	if err := unix.Capget(&head, &now[0]); err != nil {
		return fmt.Errorf("give up rights: capget: %w", err)
	}
	var mask [2]uint32
	for _, c := range kept {
		mask[c/32] |= 1 << (c % 32)
	}
	for i := range now {
		now[i].Permitted &= mask[i]
		now[i].Effective &= mask[i]
		now[i].Inheritable = 0
	}
	err := everyThread("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&now[0])), 0)
	runtime.KeepAlive(&head)
	runtime.KeepAlive(&now)
	return err
}

// fence has the kernel refuse files outside of the root, the hook file's directory
// and our own procfs, however their path came to be: Landlock, Linux 5.13. It does
// not govern modes, owners and mounts.
func fence(root *inroot.Root, hookFile string) error {
	const all = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // the rights of its first version
	const read = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	switch errno {
	case 0:
	case unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM: // not there, not switched on, filtered
		return nil
	default:
		return fmt.Errorf("give up rights: landlock: %w", errno)
	}
	defer unix.Close(int(fd))
	var errs []error
	allow := func(dir int, access uint64) {
		rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(dir)}
		if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
			errs = append(errs, fmt.Errorf("give up rights: landlock: %w", e))
		}
	}
	for dir, access := range map[string]uint64{path.Dir(hookFile): all, "/proc": read} {
		d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("give up rights: %s: %w", dir, err)
		}
		allow(d, access)
		unix.Close(d)
	}
	root.Pass(func(dir int) { allow(dir, all&^unix.LANDLOCK_ACCESS_FS_EXECUTE) })
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return everyThread("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
}

// forbidden are calls that no run makes once its root is open: programs and
// processes, namespaces and mounts, other processes' memory, the network, the
// kernel's own settings.
var forbidden = []uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_MEMFD_CREATE,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_IO_URING_SETUP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON,
	unix.SYS_SETHOSTNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
}

// filterCalls has the kernel answer EPERM to the forbidden calls, to a clone that
// is no thread, and to any call of another instruction set; ENOSYS to clone3,
// whose flags a filter cannot see.
func filterCalls() (there bool, err error) {
	const (
		load, jeq, jset, jge, ret = 0x20, 0x15, 0x45, 0x35, 0x06
		offNumber, offArch, offA0 = 0, 4, 16
		x32                       = 0x40000000
		deny                      = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	)
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if arch == 0 {
		return false, nil
	}
	prog := []unix.SockFilter{
		{Code: load, K: offArch}, {Code: jeq, K: arch, Jt: 1}, {Code: ret, K: deny},
		{Code: load, K: offNumber}, {Code: jge, K: x32, Jf: 1}, {Code: ret, K: deny},
		{Code: jeq, K: unix.SYS_CLONE3, Jf: 1}, {Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
	for _, c := range forbidden {
		prog = append(prog, unix.SockFilter{Code: jeq, K: c, Jf: 1}, unix.SockFilter{Code: ret, K: deny})
	}
	prog = append(prog,
		unix.SockFilter{Code: jeq, K: unix.SYS_CLONE, Jt: 1}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: load, K: offA0}, unix.SockFilter{Code: jset, K: unix.CLONE_THREAD, Jt: 1},
		unix.SockFilter{Code: ret, K: deny}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const setModeFilter = 1
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(prog)
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL || errno == unix.EPERM: // not there, or filtered
		return false, nil
	case errno != 0:
		return false, fmt.Errorf("give up rights: seccomp: %w", errno)
	case thread != 0:
		return false, fmt.Errorf("give up rights: seccomp: thread %d cannot have the filter", thread)
	}
	return true, nil
}
