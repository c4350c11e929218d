package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/show"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/live"
)

// A nodeNumber is what a device node leads to.
type nodeNumber struct {
	kind device.Type
	num  device.Num
}

// Enter runs a command on the host h and waits for it. The host may be changed
// meanwhile, by what the command writes and by others; the command sees it.
//
// The error is an *Error and says that no command was run, or that its machine
// was lost; a command that fails is no error. The command is killed when ctx
// ends, and all that it started.
func Enter(ctx context.Context, h *live.Host, o Options) (Entered, error) {
	if !initialised.Load() {
		return Entered{}, &Error{Err: ErrNotInit}
	}
	if ctx.Err() != nil {
		return Entered{}, &Error{Err: context.Cause(ctx)}
	}
	if o.Uevents && !ownNetwork() {
		return Entered{}, &Error{Err: errOwnNetwork, Hint: "give gpurig a network namespace: unshare -n gpurig host enter --uevents HOST"}
	}
	o = withDefaults(o)
	ways := []way{firstWay(o), {user: firstWay(o).user}}
	for _, w := range ways {
		p := o.Prepared.take(w)
		if p == nil {
			var err error
			if p, err = begin(w, o); err != nil {
				return Entered{}, unable(err)
			}
		}
		out, f, err := p.live(ctx, h, o)
		p.finish()
		switch {
		case f != nil && f.Proc && w.pid:
			continue // without a process namespace
		case f != nil && f.Start != 0:
			return Entered{Exit: f.Start}, &Error{Err: fmt.Errorf("%w: %s", ErrStart, f.Text)}
		case f != nil:
			return Entered{}, &Error{Err: fmt.Errorf("%w: %s", ErrUnable, f.Text), Hint: f.Hint}
		}
		return out, err
	}
	return Entered{}, &Error{Err: ErrUnable}
}

// A way is how the first process gets its namespaces.
type way struct {
	user bool // a user namespace as well
	pid  bool // a process namespace as well
	tree bool // nothing but a mounted tree
}

// firstWay is the way to try first.
func firstWay(o Options) way { return way{user: o.UserNamespace || !privileged(), pid: true} }

func (w way) attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if w.pid {
		a.Cloneflags |= unix.CLONE_NEWPID
		// Without a process namespace the first process has others to end, when
		// it finds that we are gone.
		a.Pdeathsig = unix.SIGKILL
	}
	if w.user {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return a
}

// privileged reports whether we may make mounts and nodes as we are.
func privileged() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return false
	}
	for _, c := range []uint{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_MKNOD} {
		if data[0].Effective&(1<<c) == 0 {
			return false
		}
	}
	return true
}

// A process is the first process of a machine, seen from outside.
type process struct {
	cmd  *exec.Cmd
	w    *wire
	user bool          // in a user namespace
	gone chan struct{} // closed after Wait
	fuse *fusefs.Served
}

// begin starts the first process.
func begin(w way, o Options) (*process, error) {
	parent, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, fmt.Errorf("read our own mount namespace: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), childEnd)
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &process{user: w.user, w: newWire(os.NewFile(uintptr(pair[0]), parentEnd)), gone: make(chan struct{})}
	mode := "plain"
	switch {
	case w.pid:
		mode = "pid"
	case w.tree:
		mode = "tree"
	}
	p.cmd = exec.Command("/proc/self/exe", hidden, parent, mode)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	p.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		p.cmd.Env = append(p.cmd.Env, "GOCOVERDIR="+dir)
	}
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.SysProcAttr = w.attr()
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread that forked
		// ends, so the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is told on the wire
			close(p.gone)
		}
	}()
	if err := <-started; err != nil {
		p.w.f.Close()
		return nil, err
	}
	return p, nil
}

// live sets the machine up and waits for the command's end.
func (p *process) live(ctx context.Context, h *live.Host, o Options) (Entered, *failure, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	lost := func(err error) (Entered, *failure, error) {
		if ctx.Err() != nil {
			return Entered{}, nil, &Error{Err: context.Cause(ctx)}
		}
		return Entered{}, nil, &Error{Err: fmt.Errorf("%w: %w", ErrLost, err), Hint: limit(err)}
	}
	s, err := newServer(h, o, p)
	if err != nil {
		return lost(err)
	}
	defer s.close()
	defer h.AskHolders(p.holders(h))()
	m := h.Model()                          // whoever asks below only reads it
	planned, files := s.plan(m), s.files(m) // while the process starts
	fds, err := p.w.receiveFDs(2)
	if err != nil {
		return lost(err)
	}
	first, err := p.w.receive()
	if err != nil {
		return lost(err)
	}
	if first.Failed != nil || first.Ready == nil || fds == nil {
		return Entered{}, first.Failed, nil
	}
	s.area = fds[1]
	if p.fuse, err = s.serve(fds[0], first.Ready.Mknod); err != nil {
		return lost(err)
	}
	plan := <-planned
	if plan.err != nil {
		return lost(plan.err)
	}
	setup, err := s.stage(ctx, plan.staging, files)
	if err != nil {
		return lost(err)
	}
	foreground, back := withTerminal(o)
	defer back()
	setup.Terminal = foreground
	if err := p.w.send(message{Setup: setup}); err != nil {
		return lost(err)
	}
	return p.converse(ctx, s, o, lost)
}

// converse is what is said while the command runs.
func (p *process) converse(ctx context.Context, s *server, o Options, lost func(error) (Entered, *failure, error)) (Entered, *failure, error) {
	incoming := make(chan message)
	failed := make(chan error, 1)
	go func() {
		for {
			m, err := p.w.receive()
			if err != nil {
				failed <- err
				return
			}
			incoming <- m
			if m.Exit != nil || m.Failed != nil {
				return
			}
		}
	}()
	signals := o.Signals
	for {
		select {
		case m := <-incoming:
			switch {
			case m.Exit != nil:
				return Entered{Exit: *m.Exit}, nil, nil
			case m.Failed != nil:
				return Entered{}, m.Failed, nil
			case m.Up:
				close(s.up)
				if m.Warn != "" {
					show.Fprintf(o.Warn, "%s\n", m.Warn)
				}
				if o.Up != nil {
					o.Up()
				}
			case m.Done:
				s.done <- struct{}{}
			}
		case sig, ok := <-signals:
			if n, is := sig.(syscall.Signal); ok && is {
				_ = p.w.send(message{Signal: int(n)}) // else it has ended, which we hear of
			} else if !ok {
				signals = nil
			}
		case err := <-failed:
			return lost(err)
		}
	}
}

// finish waits until the machine is gone, by force if it does not go.
func (p *process) finish() {
	p.w.f.Close()
	select {
	case <-p.gone:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		select {
		case <-p.gone:
		case <-time.After(5 * time.Second): // stuck in the kernel: leave it (F24)
		}
	}
	if p.fuse != nil {
		select {
		case <-p.fuse.Done():
		case <-time.After(time.Second): // somebody outside looks at a file of ours
		}
	}
}

// withDefaults fills in the command, its environment and streams.
func withDefaults(o Options) Options {
	if o.Warn == nil {
		o.Warn = io.Discard
	}
	for _, s := range []struct {
		to   **os.File
		from *os.File
	}{{&o.Stdin, os.Stdin}, {&o.Stdout, os.Stdout}, {&o.Stderr, os.Stderr}} {
		if *s.to == nil {
			*s.to = s.from
		}
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if len(o.Command) == 0 {
		o = withShell(o)
	}
	return o
}

// unable wraps a failed start with what this machine would have to allow.
func unable(err error) error {
	hint := "run as root, or allow user namespaces without privilege"
	for _, s := range []struct{ file, value, hint string }{
		{"/proc/sys/user/max_user_namespaces", "0", "run as root, or set sysctl user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "run as root, or set sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "run as root, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		text, readErr := os.ReadFile(s.file)
		if readErr == nil && string(text) == s.value+"\n" {
			hint = s.hint
			break
		}
	}
	if x := limit(err); x != "" {
		hint = x
	}
	if errors.Is(err, ErrUnable) {
		return &Error{Err: err, Hint: hint}
	}
	return &Error{Err: fmt.Errorf("%w: %w", ErrUnable, err), Hint: hint}
}

// limit says what to do where a limit of the caller's was met.
func limit(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return "raise the limit of open files: ulimit -n 1024"
	case errors.Is(err, unix.EAGAIN):
		return "raise the limit of processes, or end some: ulimit -u"
	}
	return ""
}

// report names what of the host could not be made.
func report(w io.Writer, missing []disk.Missing) {
	for _, x := range missing {
		if !errors.Is(x.Err, unix.EINVAL) && !errors.Is(x.Err, unix.EPERM) {
			show.Fprintf(w, "left out: %s\n", x)
		}
	}
}
