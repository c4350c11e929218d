package lxc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/world"
)

// Errors of calls that do not fit the container's state: the caller's mistake.
var (
	errRunning    = fmt.Errorf("the container is running: %w", target.ErrBroken)
	errNotRunning = fmt.Errorf("the container is not running: %w", target.ErrBroken)
	errRemoved    = fmt.Errorf("the container was removed: %w", target.ErrBroken)
)

// A Container is a real container.
type Container struct {
	world    *shared
	config   target.Config
	name     string // as liblxc knows it
	dir      string // below the scratch directory
	readOnly bool
	bound    bool // the read-only view of the root is mounted
	removed  bool

	run   *world.Run // nil: not running
	file  hookspec.File
	lines []string
	conf  liblxc.Conf
	hooks bool // a hook file was written
}

var _ target.Container = (*Container)(nil)

func (c *Container) inside(p string) string  { return c.world.Inside(c.dir + "/" + p) }
func (c *Container) outside(p string) string { return c.world.Outside(c.dir + "/" + p) }

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
	l, err := c.world.Listen(c.dir + "/own")
	if err == nil {
		defer l.Close()
		err = os.WriteFile(c.outside("log"), nil, 0o600) // liblxc would add to an earlier start's
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	r, err := world.Launch(ctx, c.command(), l)
	if errors.Is(err, world.ErrEnded) {
		return errors.New(c.problem(r))
	}
	if err != nil {
		return err
	}
	c.run = r
	return nil
}

// command is lxc-start in the foreground.
func (c *Container) command() *exec.Cmd {
	return c.world.Command(context.Background(), c.world.prog.start,
		"-P", c.world.Inside(c.world.Prefix()), "-n", c.name, "-f", c.inside("config"), "-F",
		"-o", c.inside("log"), "-l", "DEBUG") // only at this level liblxc tells what a hook said
}

// problem says what went wrong, out of what liblxc wrote to its log and to us.
func (c *Container) problem(r *world.Run) string {
	log, err := os.ReadFile(c.outside("log"))
	if err != nil && !os.IsNotExist(err) {
		return err.Error()
	}
	return startProblem(string(log), r.Output())
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
	o, err := c.run.Look(r)
	if err != nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return o, nil
}

// Stop is part of target.Container. It does what lxc-stop does: SIGPWR to the
// first process. liblxc's monitor then runs the hooks that follow.
func (c *Container) Stop(context.Context) error {
	if c.run == nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, errNotRunning)
	}
	r := c.run
	c.run = nil
	said, err := r.Stop(unix.SIGPWR)
	if err != nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, err)
	}
	if said != nil {
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
	if err := r.KillAll(); err != nil {
		return err
	}
	return c.world.RemoveCgroups(c.name + "*")
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
		errs = append(errs, c.world.EndView(ctx, c.dir+"/ro"))
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
