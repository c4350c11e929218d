package mntns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/show"
	"gpurig/fakehw/fusefs"
)

// Init must be the first call of main, and of TestMain, in a program that uses
// this package. In a child process it serves and does not return.
func Init() {
	registry.Lock()
	registry.ready = true
	registry.Unlock()
	if len(os.Args) != 3 || os.Args[1] != hidden {
		return
	}
	os.Exit(serve(os.Args[2]))
}

// serve is the child's life. The result is its exit status.
func serve(parentNS string) int {
	in, out, err := takePipes()
	if err != nil {
		show.Fprintln(os.Stderr, "mntns:", err)
		return 1
	}
	// Most children answer once, and few hold more than one machine: memory that
	// is not collected costs less than collecting it.
	debug.SetGCPercent(400)
	unix.Umask(0) // the trees say which mode everything has
	s, err := newStage(parentNS)
	if err != nil {
		_ = writeFrame(out, frame{status: statusSetup, body: []byte(err.Error())})
		return 1
	}
	// The FUSE server needs a processor while a system call of ours waits for
	// it, and the Go runtime is slow to take one away from a system call.
	if !s.mknod && runtime.GOMAXPROCS(0) < 4 {
		runtime.GOMAXPROCS(4)
	}
	if writeFrame(out, frame{}) != nil {
		return 1 // nobody listens
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		f, err := readFrame(in)
		if err != nil {
			return 0 // the parent closed the pipe or is gone
		}
		reply, err := s.answer(ctx, f.word, f.body)
		back := frame{body: reply}
		if err != nil {
			back = frame{status: statusError, word: hintOf(err), body: []byte(err.Error())}
		}
		if err := writeFrame(out, back); err != nil {
			if errors.Is(err, unix.EPIPE) {
				return 0
			}
			_ = writeFrame(out, frame{status: statusError, body: []byte(err.Error())})
		}
		if s.broken {
			return 1
		}
	}
}

// hintOf finds the hint of an error: a handler gives one by returning an *Error.
func hintOf(err error) string {
	hint := ""
	if e, ok := errors.AsType[*Error](err); ok {
		hint = e.Hint
	} else if e, ok := errors.AsType[*fusefs.Error](err); ok {
		hint = e.Hint
	}
	if len(hint) > maxWord {
		hint = hint[:maxWord]
	}
	return hint
}

// takePipes moves the pipes away from the standard streams, so that a handler
// that prints cannot be mistaken for a reply.
func takePipes() (in, out *os.File, err error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	defer unix.Close(null)
	move := func(from, instead int, name string) (*os.File, error) {
		fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		if err := unix.Dup3(instead, from, 0); err != nil {
			return nil, os.NewSyscallError("dup3", err)
		}
		return os.NewFile(uintptr(fd), name), nil
	}
	if in, err = move(0, null, "requests"); err != nil {
		return nil, nil, err
	}
	if out, err = move(1, 2, "replies"); err != nil {
		return nil, nil, err
	}
	return in, out, nil
}

// prove makes all mounts of this namespace private and makes sure that it
// worked and that the namespace is not our parent's (A41). Nothing is mounted
// before.
func prove(parentNS string) error {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("read our mount namespace: %w", err)
	}
	if !strings.HasPrefix(parentNS, "mnt:[") || own == parentNS {
		return fmt.Errorf("mount namespace %s is not private (the parent has %q)", own, parentNS)
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid()))
	if err == nil && real == own { // in a user namespace we may not look
		return fmt.Errorf("mount namespace %s is not private: the parent is in it", own)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", os.NewSyscallError("mount", err))
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("prove private mounts: %w", err)
	}
	defer f.Close()
	table, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("prove private mounts: %w", err)
	}
	return private(string(table))
}

// private checks the optional fields of mountinfo (proc_pid_mountinfo(5)):
// there must be none that says shared or master.
func private(table string) error {
	lines := 0
	for line := range strings.Lines(table) {
		fields, _, ok := strings.Cut(line, " - ")
		words := strings.Fields(fields)
		if !ok || len(words) < 6 {
			return fmt.Errorf("prove private mounts: mountinfo line %q is not understood", strings.TrimSpace(line))
		}
		lines++
		for _, tag := range words[6:] {
			if strings.HasPrefix(tag, "shared:") || strings.HasPrefix(tag, "master:") {
				return fmt.Errorf("prove private mounts: %s is still %s", words[4], tag)
			}
		}
	}
	if lines == 0 {
		return errors.New("prove private mounts: the mount table is empty")
	}
	return nil
}

// guard turns a panic of a handler into an error. The child ends after it.
func guard(broken *bool, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			*broken = true
			show.Fprintf(os.Stderr, "panic: %v\n", r)
			show.WriteText(os.Stderr, string(debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// Prove makes all mounts of this process's namespace private and makes sure that
// it worked and that the namespace is not the one called parentNS, which is what
// /proc/self/ns/mnt said in the parent ("mnt:[4026531841]"). Whoever mounts a
// fake thing calls it before the first mount.
func Prove(parentNS string) error { return prove(parentNS) }
