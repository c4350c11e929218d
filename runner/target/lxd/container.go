package lxd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// stopSeconds is how long a container may take to stop.
const stopSeconds = 20

// A Container is an instance of the daemon.
type Container struct {
	server   *server
	config   target.Config
	name     string // as the daemon knows it
	dir      string // of ours, below the scratch directory
	readOnly bool
	nesting  bool
	removed  bool

	line  *sandbox.Line // nil: not running
	now   emission      // what it was last given
	hooks bool          // a hook file was written

	leave func(ctx context.Context) error // the daemon, when it was removed; nil: it stays
	own   map[string]lxdapi.Device        // what the daemon passes by itself, in place of any plan; nil: nothing
}

var _ target.Container = (*Container)(nil)

func (c *Container) inside(p string) string  { return c.server.Inside(c.dir + "/" + p) }
func (c *Container) outside(p string) string { return c.server.Outside(c.dir + "/" + p) }

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer of the daemon, of liblxc or of the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	if err := target.Startable(c.line != nil, c.removed); err != nil {
		return err
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
	if err := c.tidy(ctx, e); err != nil {
		return err
	}
	if err := c.writeHook(e); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	if err := c.configure(ctx, e); err != nil {
		return err
	}
	l, err := c.server.Listen(c.dir + "/own")
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	defer l.Close()
	if err := c.server.api.Start(ctx, c.name); err != nil {
		return c.answer(ctx, err)
	}
	line, err := sandbox.Accept(ctx, l, nil)
	if err != nil {
		return err
	}
	c.line = &line
	return nil
}

// configure gives the daemon the container's configuration.
func (c *Container) configure(ctx context.Context, e emission) error {
	if err := c.server.api.Update(ctx, c.name, c.instance(e)); err != nil {
		return c.answer(ctx, err)
	}
	c.now = e
	return nil
}

// answer sorts an error of the API: what the daemon says of the configuration is
// its answer, with liblxc's or the hook's own words where it only says that
// something failed. A lost daemon or a full disk is no answer.
func (c *Container) answer(ctx context.Context, err error) error {
	e, ok := errors.AsType[*lxdapi.Error](err)
	if !ok || strings.Contains(e.Text, unix.ENOSPC.Error()) || strings.Contains(e.Text, unix.EDQUOT.Error()) {
		return errors.Join(target.ErrBroken, err)
	}
	if strings.Contains(e.Text, "Failed to run: ") && strings.Contains(e.Text, "signal: killed") {
		return errors.Join(&target.EndedError{Program: "a program of the daemon", How: "signal: killed"}, err)
	}
	if c.server.diskFull() { // liblxc cannot even write down why it failed
		return errors.Join(target.ErrBroken, err, fmt.Errorf("%s: %w", c.server.Outside(""), unix.ENOSPC))
	}
	if strings.Contains(e.Text, "forkstart") {
		log, lerr := c.server.api.Log(ctx, c.name, "lxc.log")
		if lerr != nil {
			return fmt.Errorf("%w (%v)", err, lerr)
		}
		if why, ours := firstProblem(log); why != "" {
			err = fmt.Errorf("%w: %s", err, why)
			if !ours && strings.Contains(why, "Failed to receive the container state") { // and nothing before it
				err = errors.Join(&target.EndedError{Program: "liblxc's monitor", How: "killed"}, err)
			}
			if !ours && slices.ContainsFunc(gaveUp, func(s string) bool { return strings.Contains(why, s) }) {
				err = errors.Join(target.ErrBroken, err)
			}
		}
	}
	return err
}

// gaveUp is what the daemon's own hook says where the daemon does not answer it for
// 30 seconds: LXD 5.0 and Incus, LXD 6.
var gaveUp = []string{"Hook didn't finish within 30s", "context deadline exceeded"}

// firstProblem finds in liblxc's log what went wrong first: the words of our hook, else
// the last of the daemon's, else the first error.
func firstProblem(log string) (why string, ours bool) {
	if said := target.HookSaid(log); said != "" {
		return said, true
	}
	hook, first := "", ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if _, said, ok := strings.Cut(line, " produced output: "); ok && strings.HasPrefix(said, "Error: ") {
			hook = said
		}
		if _, text, ok := strings.Cut(line, " ERROR "); ok && first == "" {
			// "lxc NAME TIME ERROR MODULE - FILE:FUNCTION:LINE - MESSAGE"
			_, text, _ = strings.Cut(text, " - ")
			_, text, _ = strings.Cut(text, " - ")
			first = "liblxc: " + text
		}
	}
	return cmp.Or(hook, first), false
}

// Warnings is part of target.Container.
func (c *Container) Warnings() ([]hookspec.Warning, error) {
	return target.HookWarnings(c.outside("hook/file.json"))
}

// Observe is part of target.Container.
func (c *Container) Observe(_ context.Context, r observe.Request) (observe.Observation, error) {
	if c.line == nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, target.ErrNotRunning)
	}
	r.Manager = string(c.server.api.Server().Flavour)
	o, err := c.line.Look(r)
	if err != nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, sandbox.Judged(errors.Join(target.ErrBroken, err), c.line.Lost))
	}
	if c.own == nil {
		c.server.Identify(&o)
	} else { // the daemon's own mounts are of files that nobody handed out
		for i := range o.Libraries {
			o.Libraries[i].ID = observe.FileID{}
		}
	}
	return o, nil
}

// Run is part of target.Runner.
func (c *Container) Run(_ context.Context, p observe.Program) (observe.Ran, error) {
	if c.line == nil {
		return observe.Ran{}, fmt.Errorf("run %s in %s: %w", p.Command[0], c.config.Name, target.ErrNotRunning)
	}
	ran, err := c.line.RunProgram(p)
	return ran, sandbox.Judged(err, c.line.Lost)
}

// Stop is part of target.Container. It returns when the container's last hooks have
// run, too: who looks at the root then, or removes it, does not meet them. Without
// that wait a next start would be as well (cdi-hook knows whose root it is).
func (c *Container) Stop(ctx context.Context) error {
	ended, err := c.stop(ctx)
	if err != nil {
		return err
	}
	if err := ended.wait(); err != nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}

// stop stops it as far as the daemon tells, which calls a container stopped when
// its own post-stop hook has run: those of raw.lxc come later.
func (c *Container) stop(ctx context.Context) (monitor, error) {
	if c.line == nil {
		return monitor{}, fmt.Errorf("stop %s: %w", c.config.Name, target.ErrNotRunning)
	}
	line := c.line
	c.line = nil
	defer line.Close()
	ended, err := monitorOf(line.PID)
	if err != nil {
		return monitor{}, fmt.Errorf("stop %s: %w", c.config.Name, sandbox.Judged(errors.Join(target.ErrBroken, err), line.Lost))
	}
	if err := c.server.api.Stop(ctx, c.name, stopSeconds, false); err != nil {
		if text := err.Error(); strings.Contains(text, "already stopped") || strings.Contains(text, "is not running") { // by whom?
			err = sandbox.Judged(err, line.Lost)
		} else {
			err = c.answer(ctx, err)
		}
		return monitor{}, fmt.Errorf("stop %s: %w", c.config.Name, errors.Join(err, ended.Close()))
	}
	return ended, nil
}

// Crash is part of target.Container. liblxc's monitor goes first, so that no
// hook of anybody runs and the daemon hears nothing; what it made for the
// container's devices stays.
func (c *Container) Crash(context.Context) error {
	if c.line == nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, target.ErrNotRunning)
	}
	line := c.line
	c.line = nil
	defer line.Close()
	if err := kill(line.PID); err != nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, sandbox.Judged(errors.Join(target.ErrBroken, err), line.Lost))
	}
	if err := c.server.RemoveCgroups(c.name); err != nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}

// Exec runs a program in the container to its end.
func (c *Container) Exec(ctx context.Context, command ...string) error {
	if c.line == nil {
		return fmt.Errorf("exec in %s: %w", c.config.Name, target.ErrNotRunning)
	}
	return c.server.api.Exec(ctx, c.name, command...)
}

// Root is the running container's root, as we see it.
func (c *Container) Root() string {
	if c.line == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", c.line.PID)
}

// Running is part of target.Container.
func (c *Container) Running() bool { return c.line != nil }

// Configuration is part of target.Container: as "lxc config edit" reads it.
func (c *Container) Configuration() string { return c.now.text }

// Remove is part of target.Container.
func (c *Container) Remove(ctx context.Context) error {
	if c.removed {
		return nil
	}
	c.removed = true
	err := c.server.removed(ctx, c.name)
	if c.line != nil {
		c.line.Close() // not before: the container would end by itself meanwhile
		c.line = nil
	}
	err = errors.Join(err, os.RemoveAll(c.outside("")))
	if c.leave != nil {
		err = errors.Join(err, c.leave(ctx))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}
