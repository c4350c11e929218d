package lxc

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/foreground"
	"gpurig/runner/target/liblxc"
)

// A Container is a real container.
type Container struct {
	*foreground.Container
	prog programs

	file  hookspec.File
	lines []string
	conf  liblxc.Conf
}

var _ target.Container = (*Container)(nil)

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer of liblxc or the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.Begin(func() error {
		e, err := c.emit(ctx, h, p)
		if err != nil {
			return err
		}
		if err := c.View(ctx); err != nil {
			return err
		}
		if err := c.install(ctx, e); err != nil {
			return err
		}
		if err := os.WriteFile(c.Outside("log"), nil, 0o600); err != nil { // liblxc would add to an earlier start's
			return errors.Join(target.ErrBroken, err)
		}
		return c.Launch(ctx, c.command())
	})
}

// command is lxc-start in the foreground.
func (c *Container) command() *exec.Cmd {
	return c.Sandbox.Command(context.Background(), c.prog.start,
		"-P", c.Sandbox.Inside(c.Sandbox.Prefix()), "-n", c.Name, "-f", c.Inside("config"), "-F",
		"-o", c.Inside("log"), "-l", "DEBUG") // only at this level liblxc tells what a hook said
}

// Problem is part of foreground.Program: out of what liblxc wrote to its log and to us.
func (c *Container) Problem(output string) error {
	log, err := os.ReadFile(c.Outside("log"))
	if err != nil && !os.IsNotExist(err) {
		return errors.Join(target.ErrBroken, err)
	}
	return errors.New(startProblem(string(log), output))
}

// Forget is part of foreground.Program: liblxc's monitor removes the cgroups, where
// it comes to that.
func (c *Container) Forget() error { return c.Sandbox.RemoveCgroups(c.Name) }

// startProblem finds what went wrong first: the hook's own words, else the first error
// of liblxc.
func startProblem(log, output string) string {
	first := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if _, text, ok := strings.Cut(line, " ERROR "); ok && first == "" {
			// "lxc-start NAME TIME ERROR MODULE - FILE:FUNCTION:LINE - MESSAGE"
			_, text, _ = strings.Cut(text, " - ")
			_, text, _ = strings.Cut(text, " - ")
			first = "lxc-start: " + text
		}
	}
	return cmp.Or(target.HookSaid(log), first, strings.TrimSpace(output), "lxc-start: ended without a word")
}

// Stop is part of target.Container. It does what lxc-stop does: SIGPWR to the
// first process. liblxc's monitor then runs the hooks that follow.
func (c *Container) Stop(context.Context) error { return c.End(unix.SIGPWR) }

// Configuration is part of target.Container.
func (c *Container) Configuration() string {
	if len(c.lines) == 0 {
		return ""
	}
	return strings.Join(c.lines, "\n") + "\n"
}
