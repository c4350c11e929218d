package hook

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/hook/inroot"
)

// Limits bound one run from outside.
type Limits struct {
	Run   time.Duration // then the worker is asked to end
	Grace time.Duration // then it is killed
}

// DefaultLimits keep a run below ten seconds: LXC itself waits for a hook for
// ever.
var DefaultLimits = Limits{Run: 9 * time.Second, Grace: 500 * time.Millisecond}

// workerName is the name by which the program knows that it is the worker.
const workerName = "cdi-hook: worker"

// Main runs the hook once and returns the exit code. args are the program's own,
// its name first.
func Main(args []string, limits Limits) int {
	if len(args) == 0 {
		args = []string{"cdi-hook"}
	}
	if args[0] == workerName {
		return worker(args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	for _, a := range args[1:] {
		if a == "--help" || a == "-help" || a == "-h" {
			fmt.Fprint(os.Stdout, usage)
			return ExitOK
		}
	}
	runtime.GOMAXPROCS(1) // it does one thing at a time: looking for work on others is a tenth of a run
	quiet := &limited{w: os.Stderr, left: maxOutput}
	env := takeEnvironment()
	if err := again(args, env); err != nil {
		say(quiet, nil, err)
		return exitCode(err)
	}
	if !readsInput(args[1:]) {
		job, err := parseJob(args[1:], maps.Clone(env), nil)
		if err != nil {
			say(quiet, nil, err)
			return exitCode(err)
		}
		if !mayHang(job) {
			return alone(job, limits, quiet)
		}
	}
	code, err := supervise(args[1:], env, limits, quiet)
	if err != nil {
		say(quiet, nil, err)
		return max(code, ExitFailed)
	}
	return code
}

// readsInput reports whether the arguments ask for a container state on standard
// input, which only one process can read: "--oci", "-oci=true".
func readsInput(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		return name == "oci"
	})
}

// A child is the worker as its supervisor sees it.
type child struct {
	*os.Process
	done chan *os.ProcessState

	mu   sync.Mutex
	step string // what it said last
}

// supervise starts the worker and waits for it. A worker that is stuck in the
// kernel (its file system does not answer) cannot be killed nor waited for: it is
// left to itself, holding nothing of ours but its own pipes.
func supervise(args []string, env map[string]string, limits Limits, out io.Writer) (int, error) {
	signal.Ignore(unix.SIGPIPE)
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer signal.Stop(stop)
	if err := settle(); err != nil {
		return ExitFailed, err
	}
	c, err := start(args, env, out)
	if err != nil {
		return ExitFailed, fmt.Errorf("start the worker: %w", err)
	}
	why := ""
	limit := time.After(limits.Run)
	for {
		select {
		case state := <-c.done:
			return c.verdict(state, why)
		case s := <-stop:
			why = fmt.Sprintf("ended by %s", unix.SignalName(s.(syscall.Signal)))
			c.Signal(s)
			limit = time.After(limits.Grace)
			stop = nil
		case <-limit:
			if why == "" {
				why = fmt.Sprintf("not done after %s", limits.Run)
			}
			return c.end(limits, why)
		}
	}
}

// end asks the worker to end, then kills it, and does not wait for long.
func (c *child) end(limits Limits, why string) (int, error) {
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGKILL} {
		c.Signal(s)
		select {
		case state := <-c.done:
			return c.verdict(state, why)
		case <-time.After(limits.Grace / 2):
		}
	}
	return ExitFailed, fmt.Errorf("%s, and it cannot be ended; the last step was: %s", why, c.last())
}

// verdict turns the worker's end into ours.
func (c *child) verdict(state *os.ProcessState, why string) (int, error) {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case why != "":
		return ExitFailed, fmt.Errorf("%s; the last step was: %s", why, c.last())
	case ok && status.Signaled():
		return ExitFailed, fmt.Errorf("the worker was ended by %s; the last step was: %s", unix.SignalName(status.Signal()), c.last())
	}
	return state.ExitCode(), nil
}

func (c *child) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.step == "" {
		return "none"
	}
	return c.step
}

// again starts this program anew in its own process with an empty bounding set, which
// the worker inherits, and returns where it is empty already or cannot be.
func again(args []string, env map[string]string) error {
	if err := inroot.CheckProc(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	emptied, err := emptyBoundingSet()
	if err != nil || !emptied {
		return err
	}
	return fmt.Errorf("start again with fewer rights: %w", unix.Exec("/proc/self/exe", args, environ(env)))
}

// start runs our own program again, by the name workerName. The worker tells its
// steps on its standard output, and all else on its standard error.
func start(args []string, env map[string]string, out io.Writer) (*child, error) {
	stepsIn, stepsOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stepsOut.Close()
	errIn, errOut, err := os.Pipe()
	if err != nil {
		stepsIn.Close()
		return nil, err
	}
	defer errOut.Close()
	runtime.LockOSThread() // Pdeathsig is of the thread; it stays until we end
	p, err := os.StartProcess("/proc/self/exe", append([]string{workerName}, args...), &os.ProcAttr{
		Dir: "/", Env: environ(env), Files: []*os.File{os.Stdin, stepsOut, errOut},
		Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		stepsIn.Close()
		errIn.Close()
		return nil, err
	}
	c := &child{Process: p, done: make(chan *os.ProcessState, 1)}
	go c.listen(stepsIn)
	go c.wait(errIn, out)
	return c, nil
}

// listen keeps the worker's last step.
func (c *child) listen(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		c.mu.Lock()
		c.step = lines.Text()
		c.mu.Unlock()
	}
}

// wait passes on what the worker says, to its end, and then its state.
func (c *child) wait(r io.Reader, out io.Writer) {
	io.Copy(out, r)
	state, err := c.Wait()
	if err == nil {
		c.done <- state
	}
}

// environ is all of the environment that the worker gets.
func environ(env map[string]string) []string {
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// settle gives the process known habits, whatever it inherited: no descriptor
// but the standard three survives an exec, the working directory is "/", new
// files have the bits we say.
func settle() error {
	switch err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err {
	case nil:
	case unix.ENOSYS, unix.EINVAL, unix.EPERM: // before Linux 5.11, or filtered
		if err := closeOnExec(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("close_range: %w", err)
	}
	unix.Umask(0o022)
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir /: %w", err)
	}
	return nil
}

func closeOnExec() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, fd := range fds {
		var n int
		if _, err := fmt.Sscan(fd.Name(), &n); err == nil && n > 2 {
			unix.CloseOnExec(n)
		}
	}
	return nil
}
