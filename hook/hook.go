// Package hook is cdi-hook: it carries out a hook file inside one container's
// root file system, with the host's rights, in front of an image that may be
// hostile.
//
// It reads one file of the host, does only what the file says, resolves every
// path inside the root (package inroot), executes nothing, and reads no
// environment but four LXC_* names. Running it twice is the same as once. What
// it made is journalled beside the hook file and can be taken back.
//
// It decides nothing: package translate decides, package hookspec is the form.
package hook

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook/inroot"
)

// Exit codes, part of the interface: LXC and OCI runtimes fail the start on any
// but ExitOK.
const (
	ExitOK     = 0
	ExitFailed = 1 // something could not be done; what was done is journalled
	ExitUsage  = 2 // a wrong call, or a hook file that is not acceptable
)

// Deadline bounds one run: LXC itself waits for a hook for ever.
const Deadline = 9 * time.Second

// Main runs the hook once and returns the exit code. Messages go to errOut, at
// most 8 KiB of them: LXC stops reading after a few blocks and then waits for
// an exit that cannot come.
func Main(args []string, stdin io.Reader, out, errOut io.Writer) int {
	quiet := &limited{w: errOut, left: 8 << 10}
	env := takeEnvironment()
	if err := settle(); err != nil {
		return fail(quiet, err)
	}
	for _, a := range args {
		if a == "--help" || a == "-h" {
			fmt.Fprint(out, usage)
			return ExitOK
		}
	}
	timer := time.AfterFunc(Deadline, func() {
		fmt.Fprintf(quiet, "cdi-hook: not done after %s; the start is failed\n", Deadline)
		os.Exit(ExitFailed)
	})
	defer timer.Stop()
	job, err := parseJob(args, env, stdin)
	if err != nil {
		return fail(quiet, err)
	}
	notes, err := Run(job)
	for _, n := range notes {
		fmt.Fprintf(quiet, "cdi-hook: %s\n", printable(n))
	}
	if err != nil {
		return fail(quiet, err)
	}
	return ExitOK
}

// settle gives the process known habits, whatever it inherited: no descriptor
// but the standard three survives an exec, the working directory is "/", new
// files have the bits we say.
func settle() error {
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && err != unix.ENOSYS && err != unix.EINVAL {
		return fmt.Errorf("close_range: %w", err)
	}
	unix.Umask(0o022)
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir /: %w", err)
	}
	return nil
}

func fail(w io.Writer, err error) int {
	var usage *UsageError
	if errors.As(err, &usage) {
		fmt.Fprintf(w, "cdi-hook: %s\n", printable(usage.Msg))
		if usage.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", usage.Hint)
		}
		return ExitUsage
	}
	fmt.Fprintf(w, "cdi-hook: %s\n", printable(err.Error()))
	var field *hookspec.FieldError
	if errors.As(err, &field) || errors.Is(err, hookspec.ErrVersion) || errors.Is(err, errWritable) {
		return ExitUsage
	}
	return ExitFailed
}

// Run does one job. The notes are things that went otherwise than the file says
// without being a failure, one line each.
func Run(job Job) (notes []string, err error) {
	f, err := openTrusted(job.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return nil, fmt.Errorf("%s: %w", job.File, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, hookspec.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	file, err := hookspec.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", job.File, err)
	}
	root, err := job.open(inroot.Owner(file.Owner))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	j, err := readJournal(job.File)
	if err != nil {
		return nil, err
	}
	w := &work{root: root, file: file, journal: j}
	err = w.do(job.Stage)
	return w.notes, err
}

// lock holds the hook file for this process: two hooks of one container come one
// after the other. The kernel lets go of it when we end, however that is.
func lock(f *os.File) error {
	for end := time.Now().Add(Deadline - time.Second); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return fmt.Errorf("lock: %w", err)
		}
		if time.Now().After(end) {
			return errors.New("another cdi-hook has held it for too long")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
