package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurig/hook"
	"gpurig/hook/inroot"
)

// asConfined is the name by which this program gives up its rights as the hook
// does, and then tries what it must not be able to: arguments are the root, the
// hook file, a file of the host.
const asConfined = "cdi-hook-confined"

func confinedMain() int {
	runtime.LockOSThread()
	if err := hook.Again(os.Args, nil); err != nil {
		fmt.Println(err)
		return 1
	}
	root, err := inroot.Open(os.Args[1], inroot.Options{Owner: inroot.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
	if err == nil {
		_, err = hook.Confine(root, os.Args[2])
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	tell := func(what string, err error) {
		if err == nil {
			fmt.Printf("%s: done\n", what)
			return
		}
		fmt.Printf("%s: %v\n", what, err)
	}
	call := func(what string, n uintptr, args ...uintptr) {
		a := append(args, 0, 0, 0)
		_, _, errno := unix.RawSyscall(n, a[0], a[1], a[2])
		if errno != 0 {
			tell(what, errno)
			return
		}
		tell(what, nil)
	}
	tell("execve", unix.Exec("/bin/true", []string{"true"}, nil))
	call("fork", unix.SYS_CLONE, uintptr(unix.SIGCHLD))
	call("socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
	tell("mount", unix.Mount("none", os.Args[1], "tmpfs", 0, ""))
	call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	call("ptrace", unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	tell("mknod", unix.Mknod(filepath.Join(os.Args[1], "node"), unix.S_IFCHR, 0x103))
	const pages = unix.MAP_ANON | unix.MAP_PRIVATE
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, pages)
	tell("executable memory", err)
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, pages)
	if err == nil {
		err = unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC)
	}
	tell("to make memory executable", err)
	call("execveat", unix.SYS_EXECVEAT, 0, 0, 0)
	call("a signal to another process", unix.SYS_KILL, uintptr(os.Getppid()), 0)
	call("a signal to another thread", unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()), 0)
	call("dumpable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)
	call("io_uring", unix.SYS_IO_URING_SETUP, 1)
	call("a call that is not there", 100000)
	done := make(chan bool)
	go func() { runtime.LockOSThread(); done <- true }() // a thread of its own
	tell("a thread", map[bool]error{false: syscall.EINVAL}[<-done])
	_, err = root.WriteFile("/etc/x", []byte("x"), inroot.Attr{})
	tell("a file in the root", err)
	tell("a file beside the hook file", os.WriteFile(os.Args[2]+".x", nil, 0o600))
	f, err := os.Open(os.Args[3])
	if err == nil {
		f.Close()
	} else if pe, ok := err.(*os.PathError); ok {
		err = pe.Err
	}
	tell("a file of the host", err)
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return 1
	}
	for line := range strings.Lines(string(status)) {
		for _, key := range []string{"Cap", "NoNewPrivs", "Seccomp:"} {
			if strings.HasPrefix(line, key) {
				fmt.Print(line)
			}
		}
	}
	return 0
}
