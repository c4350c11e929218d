package hook

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls of the rest of a run: work in the root and on the
// journal, the steps of confine that follow, and what Go's runtime (and, in test
// programs, the C library's threads) needs. Every other call is answered EPERM
// and thereby fails the run, with a message: a process that is killed has none.
var allowed = []uint32{
	// Finding, reading, changing (package inroot, the journal, the lock).
	unix.SYS_OPENAT2, unix.SYS_OPENAT, unix.SYS_CLOSE, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_FSTAT, unix.SYS_NEWFSTATAT,
	unix.SYS_STATX, unix.SYS_READLINKAT, unix.SYS_GETDENTS64, unix.SYS_LSEEK, unix.SYS_FSTATFS, unix.SYS_FCNTL, unix.SYS_FSYNC, unix.SYS_FLOCK,
	unix.SYS_MKDIRAT, unix.SYS_SYMLINKAT, unix.SYS_RENAMEAT, unix.SYS_UNLINKAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_FCHMOD,
	unix.SYS_FCHMODAT, unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_GETEUID, unix.SYS_GETEGID,
	// Giving up more.
	unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_CAPGET, unix.SYS_CAPSET,
	// Memory, threads, signals, time: runtime/sys_linux_*.s.
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// A bounded call is allowed with some arguments only.
type boundedCall struct {
	call, arg uint32 // arg is the argument's place, from 0
	// Of the argument's lower half, whole must be equal, or, where that is 0,
	// all of has be there and none of hasNot.
	whole, has, hasNot uint32
}

// bounded are a clone that is a thread, memory that is no program, a name for
// memory, and signals to our own threads.
func bounded(pid int) []boundedCall {
	return []boundedCall{
		{call: unix.SYS_CLONE, has: unix.CLONE_THREAD},
		{call: unix.SYS_MMAP, arg: 2, hasNot: unix.PROT_EXEC},
		{call: unix.SYS_MPROTECT, arg: 2, hasNot: unix.PROT_EXEC},
		{call: unix.SYS_PRCTL, whole: unix.PR_SET_VMA},
		{call: unix.SYS_TGKILL, whole: uint32(pid)},
	}
}

// filter is the program by which the kernel judges each call: seccomp(2). A call
// of another instruction set is refused like any that is not listed; clone3, whose
// flags a filter cannot see, is answered ENOSYS, as on Linux 5.2, so that clone is
// used.
func filter(arch uint32, pid int) []unix.SockFilter {
	const (
		load, jeq, jset, jge, ret = 0x20, 0x15, 0x45, 0x35, 0x06
		offNumber, offArch, offA0 = 0, 4, 16
		x32                       = 0x40000000
		deny                      = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	)
	allow := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
	refuse := unix.SockFilter{Code: ret, K: deny}
	prog := []unix.SockFilter{
		{Code: load, K: offArch}, {Code: jeq, K: arch, Jt: 1}, refuse,
		{Code: load, K: offNumber}, {Code: jge, K: x32, Jf: 1}, refuse,
	}
	for _, c := range allowed {
		prog = append(prog, unix.SockFilter{Code: jeq, K: c, Jf: 1}, allow)
	}
	for _, b := range bounded(pid) {
		var test []unix.SockFilter // ends in allow or refuse
		switch {
		case b.whole != 0:
			test = []unix.SockFilter{{Code: jeq, K: b.whole, Jf: 1}, allow, refuse}
		case b.has != 0:
			test = []unix.SockFilter{{Code: jset, K: b.has, Jf: 1}, allow, refuse}
		default:
			test = []unix.SockFilter{{Code: jset, K: b.hasNot, Jt: 1}, allow, refuse}
		}
		prog = append(prog, unix.SockFilter{Code: jeq, K: b.call, Jf: uint8(1 + len(test))}, unix.SockFilter{Code: load, K: offA0 + 8*b.arg})
		prog = append(prog, test...)
	}
	return append(prog,
		unix.SockFilter{Code: jeq, K: unix.SYS_CLONE3, Jf: 1}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		refuse)
}

// filterCalls puts the filter on all threads. there is false where the kernel has
// none, or where a filter of whoever started us forbids one more: then the other
// limits remain.
func filterCalls() (there bool, err error) {
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if arch == 0 {
		return false, nil
	}
	prog := filter(arch, unix.Getpid())
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const setModeFilter = 1
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(prog)
	switch {
	case slices.Contains([]unix.Errno{unix.ENOSYS, unix.EINVAL, unix.EPERM}, errno):
		return false, nil
	case errno != 0:
		return false, fmt.Errorf("give up rights: seccomp: %w", errno)
	case thread != 0:
		return false, fmt.Errorf("give up rights: seccomp: thread %d cannot have the filter", thread)
	}
	return true, nil
}
