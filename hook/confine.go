package hook

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
	"gpurig/hook/inroot"
)

// kept are the capabilities that work in a container's root needs: owners and modes
// of what is made, the container root's ids for file access, and a directory of its
// that nobody may write to, for which alone CAP_DAC_OVERRIDE comes into effect
// (package inroot). Those that finding the root needed are given up.
var kept = []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID}

// confine gives up, on every thread and for good, what the rest of a run does not
// need. It comes when the root is open and before anything in it is read, so that
// a fault in what reads an image is worth less to the image.
//
// What is not there on an old kernel, or is filtered, is left out (Landlock) or is
// no reason to stop (a filter of its own is what forbids another one); keeping
// capabilities that could be given up is.
//
// lacks names what is not there.
func confine(root *inroot.Root, hookFile string) (lacks []string, err error) {
	if err := emptyGroups(); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("give up rights: no_new_privs: %w", err)
	}
	filtered, err := filterCalls()
	if err != nil {
		return nil, err
	}
	if !filtered { // the filter gives no_new_privs to the other threads
		lacks = append(lacks, "seccomp")
		if err := everyThread("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
			return nil, err
		}
	}
	fenced, err := fence(root, hookFile)
	if err != nil {
		return nil, err
	}
	if !fenced {
		lacks = append(lacks, "Landlock")
	}
	return lacks, dropCapabilities()
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

// emptyGroups gives up the groups of whoever started us: the container's root is in
// none of them. Where we may not, in a user namespace, its root could not either.
func emptyGroups() error {
	now, err := unix.Getgroups()
	if err != nil {
		return fmt.Errorf("give up rights: getgroups: %w", err)
	}
	if len(now) == 0 {
		return nil
	}
	err = everyThread("setgroups", unix.SYS_SETGROUPS, 0, 0, 0)
	if errors.Is(err, unix.EPERM) && (os.Geteuid() != 0 || inUserNamespace()) {
		return nil
	}
	return err
}

// emptyBoundingSet takes all capabilities out of the calling thread's bounding set,
// and has its next exec keep those that it has now. emptied is false where there was
// nothing to take: without CAP_SETPCAP nobody can, and no_new_privs alone does it.
//
// On all threads of a running program it would be 40 calls each, for which they stop
// in turn: a fifth of a whole run.
func emptyBoundingSet() (emptied bool, err error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var now [2]unix.CapUserData
	if err := unix.Capget(&head, &now[0]); err != nil {
		return false, fmt.Errorf("give up rights: capget: %w", err)
	}
	if now[unix.CAP_SETPCAP/32].Effective&(1<<(unix.CAP_SETPCAP%32)) == 0 {
		return false, nil
	}
	if now[0].Inheritable != now[0].Permitted || now[1].Inheritable != now[1].Permitted {
		now[0].Inheritable, now[1].Inheritable = now[0].Permitted, now[1].Permitted
		if err := unix.Capset(&head, &now[0]); err != nil {
			return false, fmt.Errorf("give up rights: capset: %w", err)
		}
	}
	for c := uintptr(0); ; c++ {
		there, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil { // the kernel has no capability of that number
			return emptied, nil
		}
		if now[c/32].Permitted&(1<<(c%32)) != 0 { // for who is not root, or root without its privileges
			_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0)
		}
		if there == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return false, fmt.Errorf("give up rights: bounding set: %w", err)
		}
		emptied = true
	}
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
		if i == 0 {
			now[i].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
		}
		now[i].Inheritable = 0
	}
	err := everyThread("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&now[0])), 0)
	runtime.KeepAlive(&head)
	runtime.KeepAlive(&now)
	return err
}

// fence has the kernel refuse files outside of the root, the hook file's directory
// and our own procfs, however their path came to be: Landlock, Linux 5.13. It does
// not govern modes, owners and mounts. there is false where the kernel has none, or a
// filter forbids it.
func fence(root *inroot.Root, hookFile string) (there bool, err error) {
	const all = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // the rights of its first version
	const read = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	switch errno {
	case 0:
	case unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM: // not there, not switched on, filtered
		return false, nil
	default:
		return false, fmt.Errorf("give up rights: landlock: %w", errno)
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
		d, err := calls.Openat(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return false, fmt.Errorf("give up rights: %s: %w", dir, err)
		}
		allow(d, access)
		unix.Close(d)
	}
	root.Pass(func(dir int) { allow(dir, all&^unix.LANDLOCK_ACCESS_FS_EXECUTE) })
	if len(errs) > 0 {
		return false, errors.Join(errs...)
	}
	return true, everyThread("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
}
