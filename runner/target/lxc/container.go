package lxc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/observe/inside"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
)

// How long we wait for what normally takes milliseconds, before we call it
// broken.
const (
	startTime = 30 * time.Second
	stopTime  = 20 * time.Second
	lookTime  = 20 * time.Second
)

// Errors of calls that do not fit the container's state: the caller's mistake.
var (
	errRunning    = fmt.Errorf("the container is running: %w", target.ErrBroken)
	errNotRunning = fmt.Errorf("the container is not running: %w", target.ErrBroken)
	errRemoved    = fmt.Errorf("the container was removed: %w", target.ErrBroken)
)

// A Container is a real container.
type Container struct {
	world    *world
	config   target.Config
	name     string // as liblxc knows it
	dir      string // below the scratch directory
	readOnly bool
	bound    bool // the read-only view of the root is mounted
	removed  bool

	run   *run // nil: not running
	file  hookspec.File
	lines []string
	conf  liblxc.Conf
	hooks bool // a hook file was written
}

var _ target.Container = (*Container)(nil)

// A run is one life of a container.
type run struct {
	cmd    *exec.Cmd // lxc-start
	stderr *bytes.Buffer
	ended  chan struct{} // closed after lxc-start was waited for
	err    error         // of that; read it after ended
	conn   *net.UnixConn // to the probe
	dec    *json.Decoder
	pid    int // of the first process, as we see it
}

func (c *Container) inside(p string) string  { return c.world.keep.inside(c.dir + "/" + p) }
func (c *Container) outside(p string) string { return c.world.keep.outside(c.dir + "/" + p) }

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer of liblxc or the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	switch {
	case c.removed:
		return errRemoved
	case c.run != nil:
		return errRunning
	}
	if err := c.start(ctx, h, p); err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	return nil
}

func (c *Container) start(ctx context.Context, h target.Host, p plan.Plan) error {
	e, err := c.emit(ctx, h, p)
	if err != nil {
		return err
	}
	if err := c.rootView(ctx); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	if err := c.install(ctx, e); err != nil {
		return err
	}
	l, err := c.listen()
	if err == nil {
		defer l.Close()
		err = os.WriteFile(c.outside("log"), nil, 0o600) // liblxc would add to an earlier start's
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	r := c.launch()
	if r.err != nil {
		return errors.Join(target.ErrBroken, r.err)
	}
	err = r.accept(ctx, l)
	if errors.Is(err, errEnded) {
		return errors.New(c.problem(r))
	}
	if err != nil {
		return err
	}
	c.run = r
	return nil
}

// errEnded says that lxc-start ended instead of starting the container.
var errEnded = errors.New("lxc-start has ended")

// listen makes the socket that the probe calls. It lies in a folder of its own,
// the only one of ours that the container sees.
func (c *Container) listen() (*net.UnixListener, error) {
	dir := c.outside("own")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	probe := filepath.Join(dir, "probe")
	if _, err := os.Lstat(probe); err != nil {
		if err := os.Link(c.world.keep.outside(probePath), probe); err != nil {
			return nil, err
		}
	}
	at := filepath.Join(dir, inside.SocketName)
	if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The container's root may be anybody to the machine.
	return l, os.Chmod(at, 0o666)
}

// launch starts lxc-start in the foreground.
func (c *Container) launch() *run {
	r := &run{stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	// Not bound to a context: a container outlives the call that starts it.
	r.cmd = c.world.keep.command(context.Background(), c.world.prog.start,
		"-P", c.world.keep.inside(c.world.keep.prefix), "-n", c.name, "-f", c.inside("config"), "-F",
		"-o", c.inside("log"), "-l", "DEBUG") // only at this level liblxc tells what a hook said
	r.cmd.Stdout, r.cmd.Stderr = r.stderr, r.stderr
	r.cmd.WaitDelay = time.Second // a process of the container may hold the pipe a little longer
	if err := r.cmd.Start(); err != nil {
		r.err = err
		return r
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r
}

// accept waits for the probe's call, or for liblxc to give up.
func (r *run) accept(ctx context.Context, l *net.UnixListener) error {
	type call struct {
		conn *net.UnixConn
		err  error
	}
	calls := make(chan call, 1)
	go func() {
		conn, err := l.AcceptUnix()
		calls <- call{conn, err}
	}()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case got := <-calls:
		if got.err != nil {
			r.kill()
			return errors.Join(target.ErrBroken, got.err)
		}
		r.conn, r.dec = got.conn, json.NewDecoder(got.conn)
		return r.peer()
	case <-r.ended:
		return errEnded
	case <-ctx.Done():
		r.kill()
		return errors.Join(target.ErrBroken, context.Cause(ctx))
	case <-timer.C:
		r.kill()
		return fmt.Errorf("no answer from the container after %s: %w", startTime, target.ErrBroken)
	}
}

// peer learns the process id of the container's first process.
func (r *run) peer() error {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(cerr, err); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	r.pid = int(cred.Pid)
	return nil
}

// kill ends lxc-start at once; the kernel then ends the container, whose first
// process has that as its parent-death signal.
func (r *run) kill() {
	_ = r.cmd.Process.Kill() // an error means that it has ended
	<-r.ended
}

// problem says what went wrong, out of what liblxc wrote to its log and to us.
func (c *Container) problem(r *run) string {
	log, err := os.ReadFile(c.outside("log"))
	if err != nil && !os.IsNotExist(err) {
		return err.Error()
	}
	return startProblem(string(log), r.stderr.String())
}

// startProblem finds what went wrong first: the hook's own last words (its notes
// come before), else the first error of liblxc.
func startProblem(log, output string) string {
	hook, first := "", ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		_, said, ok := strings.Cut(line, " produced output: ")
		if !ok {
			said = line
		}
		if strings.HasPrefix(said, "cdi-hook: ") {
			hook = said
		}
		if _, text, ok := strings.Cut(line, " ERROR "); ok && first == "" {
			// "lxc-start NAME TIME ERROR MODULE - FILE:FUNCTION:LINE - MESSAGE"
			_, text, _ = strings.Cut(text, " - ")
			_, text, _ = strings.Cut(text, " - ")
			first = "lxc-start: " + text
		}
	}
	return cmp.Or(hook, first, strings.TrimSpace(output), "lxc-start: ended without a word")
}

// Observe is part of target.Container.
func (c *Container) Observe(_ context.Context, r observe.Request) (observe.Observation, error) {
	if c.run == nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, errNotRunning)
	}
	o, err := c.run.look(r)
	if err != nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return o, nil
}

func (r *run) look(req observe.Request) (observe.Observation, error) {
	if err := r.conn.SetDeadline(time.Now().Add(lookTime)); err != nil {
		return observe.Observation{}, err
	}
	if err := json.NewEncoder(r.conn).Encode(req); err != nil {
		return observe.Observation{}, err
	}
	var a inside.Answer
	if err := r.dec.Decode(&a); err != nil {
		return observe.Observation{}, err
	}
	if a.Error != "" {
		return observe.Observation{}, errors.New(a.Error)
	}
	return a.Observation, nil
}

// Stop is part of target.Container. It does what lxc-stop does: SIGPWR to the
// first process. liblxc's monitor then runs the hooks that follow.
func (c *Container) Stop(context.Context) error {
	if c.run == nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, errNotRunning)
	}
	r := c.run
	c.run = nil
	defer r.conn.Close()
	if err := unix.Kill(r.pid, unix.SIGPWR); err != nil && err != unix.ESRCH {
		r.kill()
		return fmt.Errorf("stop %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	select {
	case <-r.ended:
	case <-time.After(stopTime):
		r.kill()
		return fmt.Errorf("stop %s: still running after %s: %w", c.config.Name, stopTime, target.ErrBroken)
	}
	if r.err != nil {
		return fmt.Errorf("stop %s: %s", c.config.Name, c.problem(r))
	}
	return nil
}

// Crash is part of target.Container. liblxc's monitor goes first, so that no
// hook runs, and the container with it.
func (c *Container) Crash(context.Context) error {
	if c.run == nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, errNotRunning)
	}
	if err := c.end(); err != nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}

// end kills what is running and removes its cgroups, which nobody else does then.
func (c *Container) end() error {
	r := c.run
	c.run = nil
	r.kill()
	defer r.conn.Close()
	if err := unix.Kill(r.pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return err
	}
	return removeCgroups(c.world.keep.cgroupRoot(), c.world.keep.prefix+"/"+c.name+"*")
}

// Running is part of target.Container.
func (c *Container) Running() bool { return c.run != nil }

// Configuration is part of target.Container.
func (c *Container) Configuration() string {
	if len(c.lines) == 0 {
		return ""
	}
	return strings.Join(c.lines, "\n") + "\n"
}

// Remove is part of target.Container.
func (c *Container) Remove(ctx context.Context) error {
	if c.removed {
		return nil
	}
	var errs []error
	if c.run != nil {
		errs = append(errs, c.end())
	}
	if c.bound {
		errs = append(errs, c.world.keep.output(ctx, nil, umount, c.inside("ro")))
		c.bound = false
	}
	errs = append(errs, os.RemoveAll(c.outside("")))
	c.removed = true
	c.world.mu.Lock()
	delete(c.world.containers, c.name)
	c.world.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}
