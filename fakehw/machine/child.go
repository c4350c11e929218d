package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurig/core/show"
	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/mountcall"
)

// hidden is the argument that makes this program the first process of a machine.
const hidden = "--gpurig-machine-child"

var initialised atomic.Bool

// Init must be the first call of main, and of TestMain, in a program that uses
// this package. In the first process of a machine it does not return.
func Init() {
	initialised.Store(true)
	if len(os.Args) == 4 && os.Args[1] == hidden {
		if os.Args[3] == "tree" {
			os.Exit(firstOfTree(os.Args[2]))
		}
		os.Exit(first(os.Args[2], os.Args[3] == "pid"))
	}
}

// A child is the first process of a machine, until and while its command runs.
type child struct {
	w     *wire
	pid   bool // it is the first of a process namespace
	table []string
	stage int // the staging area, a tmpfs
	mknod bool
	proc  int // a new /proc, or -1
	umask int
	root  *annex       // of "/"
	cmd   atomic.Int64 // the command's pid
	inner *containers  // nil: only a tree is mounted
}

// first is the life of the first process. The result is its exit status.
func first(parentNS string, pid bool) int {
	c := newChild(pid)
	conn, mnt, f := c.prepare(parentNS)
	if f != nil {
		_ = c.w.sendFDs()
		_ = c.w.send(message{Failed: f})
		return 1
	}
	if c.w.sendFDs(conn, c.stage) != nil || c.w.send(message{Ready: &ready{Mknod: c.mknod}}) != nil {
		return 1 // nobody listens
	}
	unix.Close(conn)
	m, err := c.w.receive()
	if err != nil || m.Setup == nil {
		return 1
	}
	if err := c.setUp(parentNS, mnt, m.Setup); err != nil {
		_ = c.w.send(message{Failed: &failure{Text: err.Error(), Hint: limit(err)}})
		return 1
	}
	return c.run(m.Setup)
}

func newChild(pid bool) *child {
	// Handlers, not SIG_IGN, which the command would inherit. A terminal sends
	// these to the command itself.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGTERM, unix.SIGTSTP)
	c := &child{w: newWire(os.NewFile(3, childEnd)), pid: pid, proc: -1}
	unix.CloseOnExec(3)
	c.umask = unix.Umask(0)
	return c
}

// prepare proves that the namespace is ours (A41) and opens what everything else
// is made of.
func (c *child) prepare(parentNS string) (conn, mnt int, f *failure) {
	fail := func(err error) (int, int, *failure) {
		hint := ""
		if e, ok := errors.AsType[*fusefs.Error](err); ok {
			hint = e.Hint
		}
		return -1, -1, &failure{Text: err.Error(), Hint: hint}
	}
	if err := mntns.Prove(parentNS); err != nil {
		return fail(err)
	}
	if !c.pid { // orphans of the command are ours to end
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fail(os.NewSyscallError("prctl", err))
		}
	}
	var err error
	if c.table, err = mountTable(); err != nil {
		return fail(err)
	}
	if c.pid {
		c.proc, err = mountcall.New("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, [2]string{"source", "proc"})
		if err != nil {
			return -1, -1, &failure{Text: err.Error(), Proc: true}
		}
	}
	if c.stage, err = mountcall.New("tmpfs", unix.MOUNT_ATTR_NOSUID, [2]string{"source", fusefs.Name}, [2]string{"mode", "0755"}); err != nil {
		return fail(err)
	}
	// A device with a driver-less number, so that nothing can come of it.
	if err := unix.Mknodat(c.stage, "probe", unix.S_IFCHR|0o600, int(unix.Mkdev(240, 1))); err == nil {
		c.mknod = true
		if err := unix.Unlinkat(c.stage, "probe", 0); err != nil {
			return fail(err)
		}
	}
	if conn, mnt, err = fusefs.Connect(fusefs.Options{}, true); err != nil {
		return fail(err)
	}
	return conn, mnt, nil
}

// setUp makes the machine of the real one.
func (c *child) setUp(parentNS string, mnt int, s *setup) error {
	// The staging area goes on top of "/" itself: this process keeps its root
	// directory, which is what lies below, so nothing of the machine is covered.
	if err := attach(c.stage, "/"); err != nil {
		return err
	}
	if err := unix.Mkdirat(c.stage, "fuse", 0o700); err != nil {
		return os.NewSyscallError("mkdir", err)
	}
	if err := unix.MoveMount(mnt, "", c.stage, "fuse", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount tree: %w", os.NewSyscallError("move_mount", err))
	}
	unix.Close(mnt)
	var err error
	if c.inner, err = c.backstage(parentNS); err != nil {
		return fmt.Errorf("what containers mount: %w", err)
	}
	c.inner.fakes, c.inner.live, c.inner.release = s.Binds, s.Live, s.Release
	for _, step := range []func(*setup) error{c.newProc, c.overlays, c.annexes, c.dev, c.binds, c.noDev} {
		if err := step(s); err != nil {
			return err
		}
	}
	if c.root != nil {
		return c.newRoot(*c.root)
	}
	return c.clear()
}

// clear takes the staging area off "/"; what was bound of it stays.
func (c *child) clear() error {
	if err := unix.Fchdir(c.stage); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("staging area: %w", os.NewSyscallError("umount2", err))
	}
	unix.Close(c.stage)
	return nil
}

func (c *child) newProc(*setup) error {
	if c.proc < 0 {
		return nil
	}
	defer unix.Close(c.proc)
	return over(c.proc, "/proc", c.table, nil)
}

func (c *child) overlays(s *setup) error {
	for _, dir := range s.Overlays {
		mnt, err := overlay(c.stage, dir, !c.mknod)
		if err != nil {
			return err
		}
		err = over(mnt, dir, c.table, nil)
		unix.Close(mnt)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *child) binds(s *setup) error {
	for _, b := range s.Binds {
		mnt, err := clone(c.stage, "fuse/"+b.From)
		if err != nil {
			return err
		}
		err = instead(mnt, b.To, c.table)
		unix.Close(mnt)
		if err != nil {
			return err
		}
	}
	return nil
}

// noDev makes nodes that cannot be opened, since a driver of the real machine
// has their number.
func (c *child) noDev(s *setup) error { return deny(s.NoDev) }

func deny(nodes []string) error {
	for _, p := range nodes {
		mnt, err := clone(unix.AT_FDCWD, p)
		if err != nil {
			return err
		}
		err = unix.MountSetattr(mnt, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV})
		if err == nil {
			err = attach(mnt, p)
		}
		unix.Close(mnt)
		if err != nil {
			return fmt.Errorf("keep %s from being opened: %w", p, err)
		}
	}
	return nil
}

// run starts the command and waits for it.
func (c *child) run(s *setup) int {
	if err := os.Chdir(s.Dir); err != nil {
		_ = os.Chdir("/") // the caller's directory is not in the machine
	}
	unix.Umask(c.umask)
	p, code, warn, err := c.start(s)
	if err != nil {
		_ = c.w.send(message{Failed: &failure{Text: err.Error(), Start: code}})
		return 1
	}
	c.cmd.Store(int64(p.Pid))
	if c.w.send(message{Up: true, Warn: warn}) != nil {
		c.end()
		return 1
	}
	go c.listen()
	code = c.wait(p.Pid)
	c.end()
	_ = c.w.send(message{Exit: &code})
	return 0
}

// start runs the command, with its mounts told to us. The code is what env(1) would
// exit with; warn is what its containers lack.
func (c *child) start(s *setup) (p *os.Process, code int, warn string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.inner != nil {
			runtime.LockOSThread() // it ends with this goroutine: the filter is the command's
			if c.inner.calls, err = mountcall.Listen(); err != nil {
				warn = fmt.Sprintf("containers that are started here do not find this host: %v", err)
			} else {
				go c.inner.serve()
			}
		}
		p, code, err = start(s)
	}()
	<-done
	return p, code, warn, err
}

// start runs the command as a child of the calling thread.
func start(s *setup) (*os.Process, int, error) {
	for _, v := range s.Env {
		if dirs, ok := strings.CutPrefix(v, "PATH="); ok {
			os.Setenv("PATH", dirs)
		}
	}
	p, err := exec.LookPath(s.Command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, startCode(err), err
	}
	attr := &os.ProcAttr{Env: s.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Foreground: s.Terminal}}
	proc, err := os.StartProcess(p, s.Command, attr)
	if err != nil {
		return nil, startCode(err), err
	}
	return proc, 0, nil
}

func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

// listen does what the caller asks. When the caller is gone, so are we, and with
// us everything in the machine.
func (c *child) listen() {
	for {
		m, err := c.w.receive()
		if err != nil {
			c.end()
			os.Exit(1)
		}
		switch {
		case m.Signal != 0:
			_ = unix.Kill(int(c.cmd.Load()), syscall.Signal(m.Signal)) // it may have ended
		case len(m.NoDev) > 0:
			if err := deny(m.NoDev); err != nil {
				show.Fprintln(os.Stderr, "gpurig:", err)
			}
			_ = c.w.send(message{Done: true})
		}
	}
}

// wait reaps every process that becomes ours until the command ends.
func (c *child) wait(pid int) int {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 1
		case got == pid && ws.Signaled():
			return 128 + int(ws.Signal())
		case got == pid && ws.Exited():
			return ws.ExitStatus()
		}
	}
}
