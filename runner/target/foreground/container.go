package foreground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// A Container is what a real container is whatever its program: a target's own
// embeds it. Program is to be set before it is started.
type Container struct {
	Sandbox *sandbox.Sandbox
	Config  target.Config
	Name    string // as the program knows it; no other of the sandbox has it
	Program Program
	Hooked  bool // a hook file was written

	dir      string // below the scratch directory
	readOnly bool
	viewed   bool // the read-only view of the root is mounted
	removed  bool
	gone     func()
	run      *sandbox.Run // nil: not running
}

// A Program is what a target knows of the program that runs in the foreground.
type Program interface {
	// Problem says what went wrong, of what the program wrote: its answer, or
	// target.ErrBroken where that is none.
	Problem(output string) error
	// Forget removes what the program left that could not end by itself.
	Forget() error
}

// hookFile is where the hook's file is.
const hookFile = "hook/file.json"

// Inside is the path of a file of the container's folder for programs of its sandbox,
// Outside the same for us.
func (c *Container) Inside(p string) string  { return c.Sandbox.Inside(c.dir + "/" + p) }
func (c *Container) Outside(p string) string { return c.Sandbox.Outside(c.dir + "/" + p) }

// Root is the root that the container runs on, inside: read-only where the image is.
func (c *Container) Root() string {
	if c.readOnly {
		return c.Inside("ro")
	}
	return c.Inside("rootfs")
}

// ReadOnly reports whether the image is.
func (c *Container) ReadOnly() bool { return c.readOnly }

// View mounts that read-only view, once: with an option of the configuration, the
// program and its hooks would change the root first.
func (c *Container) View(ctx context.Context) error {
	if !c.readOnly || c.viewed {
		return nil
	}
	if err := c.Sandbox.ReadOnlyView(ctx, c.dir+"/rootfs", c.dir+"/ro"); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	c.viewed = true
	return nil
}

// MakeNodes makes the nodes of the container's own, anew for each start: what an
// earlier one did to them is gone.
func (c *Container) MakeNodes(list []plan.Node) error {
	if err := os.RemoveAll(c.Outside("nodes")); err != nil {
		return err
	}
	return c.Sandbox.MakeNodes(list)
}

// HookFile is where cdi-hook finds what to do, inside.
func (c *Container) HookFile() string { return c.Inside(hookFile) }

// WriteHook writes that file for root alone, or for all: in a user namespace it may
// be the container's root that reads it.
func (c *Container) WriteHook(f hookspec.File, all bool) error {
	data, err := f.Marshal()
	if err != nil {
		return err
	}
	dir, file := os.FileMode(0o700), os.FileMode(0o600)
	if all {
		dir, file = 0o755, 0o644
	}
	if err := os.MkdirAll(c.Outside("hook"), dir); err != nil {
		return err
	}
	if err := target.ForgetWarnings(c.Outside(hookFile)); err != nil {
		return err
	}
	c.Hooked = true
	return os.WriteFile(c.Outside(hookFile), data, file)
}

// Warnings is part of target.Container.
func (c *Container) Warnings() ([]hookspec.Warning, error) {
	return target.HookWarnings(c.Outside(hookFile))
}

// Hook runs cdi-hook by hand.
func (c *Container) Hook(ctx context.Context, args ...string) error {
	return c.Sandbox.Output(ctx, nil, c.Sandbox.Inside(sandbox.HookPath), append(args, c.HookFile())...)
}

// Begin is Start of target.Container: begin does the work, where there can be a
// start at all.
func (c *Container) Begin(begin func() error) error {
	err := target.Startable(c.run != nil, c.removed)
	if err != nil {
		return err
	}
	if err := begin(); err != nil {
		return fmt.Errorf("start %s: %w", c.Config.Name, err)
	}
	return nil
}

// Listen makes the socket that the first process calls, in the folder "own".
func (c *Container) Listen() (*net.UnixListener, error) { return c.Sandbox.Listen(c.dir + "/own") }

// Launch runs the program until the container's first process calls. The error is
// what the program complained of, or target.ErrBroken.
func (c *Container) Launch(ctx context.Context, cmd *exec.Cmd) error {
	l, err := c.Listen()
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	defer l.Close()
	r, err := sandbox.Launch(ctx, cmd, l)
	if errors.Is(err, sandbox.ErrEnded) {
		if killed := r.Died(); killed != nil {
			return errors.Join(killed, c.Program.Forget())
		}
		// What it made stays where it did not come to its own end.
		return errors.Join(c.Program.Problem(r.Output()), broken(c.Program.Forget()))
	}
	if err != nil {
		return err
	}
	c.run = r
	return nil
}

// broken marks an error as the machine's.
func broken(err error) error {
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return nil
}

// Judged is sandbox.Judged for what was done to the running container.
func (c *Container) Judged(err error) error {
	if c.run == nil {
		return err
	}
	return sandbox.Judged(err, c.run.Lost)
}

// PID is the first process, as we see it; 0: not running.
func (c *Container) PID() int {
	if c.run == nil {
		return 0
	}
	return c.run.PID
}

// Running is part of target.Container.
func (c *Container) Running() bool { return c.run != nil }

// Observe is part of target.Container.
func (c *Container) Observe(_ context.Context, r observe.Request) (observe.Observation, error) {
	if c.run == nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.Config.Name, target.ErrNotRunning)
	}
	o, err := c.run.Look(r)
	if err != nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.Config.Name, c.Judged(errors.Join(target.ErrBroken, err)))
	}
	c.Sandbox.Identify(&o)
	return o, nil
}

// Run is part of target.Runner.
func (c *Container) Run(_ context.Context, p observe.Program) (observe.Ran, error) {
	if c.run == nil {
		return observe.Ran{}, fmt.Errorf("run %s in %s: %w", p.Command[0], c.Config.Name, target.ErrNotRunning)
	}
	ran, err := c.run.RunProgram(p)
	return ran, c.Judged(err)
}

// End stops the container by a signal to its first process. The program then has the
// hooks run that follow.
func (c *Container) End(sig unix.Signal) error {
	if c.run == nil {
		return fmt.Errorf("stop %s: %w", c.Config.Name, target.ErrNotRunning)
	}
	r := c.run
	if lost := r.Lost(); lost != nil {
		return fmt.Errorf("stop %s: %w", c.Config.Name, errors.Join(lost, c.kill()))
	}
	c.run = nil
	said, err := r.Stop(sig)
	if err != nil {
		return fmt.Errorf("stop %s: %w", c.Config.Name, err)
	}
	if killed := r.Killed(); killed != nil {
		return fmt.Errorf("stop %s: %w", c.Config.Name, errors.Join(killed, c.Program.Forget()))
	}
	if said != nil {
		return fmt.Errorf("stop %s: %w", c.Config.Name, c.Program.Problem(r.Output()))
	}
	return nil
}

// Crash is part of target.Container. The program goes first, so that no hook runs,
// and the container with it.
func (c *Container) Crash(context.Context) error {
	if c.run == nil {
		return fmt.Errorf("crash %s: %w", c.Config.Name, target.ErrNotRunning)
	}
	if err := c.kill(); err != nil {
		return fmt.Errorf("crash %s: %w", c.Config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}

// kill ends what is running, and does what nobody else does then.
func (c *Container) kill() error {
	r := c.run
	c.run = nil
	return errors.Join(r.KillAll(), c.Program.Forget())
}

// Remove is part of target.Container.
func (c *Container) Remove(ctx context.Context) error {
	if c.removed {
		return nil
	}
	var errs []error
	if c.run != nil {
		errs = append(errs, c.kill())
	}
	if c.viewed {
		errs = append(errs, c.Sandbox.EndView(ctx, c.dir+"/ro"))
		c.viewed = false
	}
	errs = append(errs, os.RemoveAll(c.Outside("")))
	c.removed = true
	c.gone()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove %s: %w", c.Config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}
