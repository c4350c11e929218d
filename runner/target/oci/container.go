package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gpurig/core/emit/oci"
	"gpurig/core/host/osroot"
	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/foreground"
	"gpurig/runner/target/sandbox"
)

// A Container is a real container. Its directory holds the root, the bundle, the
// runtime's state, the hook file, and nodes of its own.
type Container struct {
	*foreground.Container
	runtime string // "runc" or "crun"
	program string // where it is
	spec    []byte // config.json
}

var _ target.Container = (*Container)(nil)

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer of the runtime or the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.Begin(func() error {
		edits, err := c.emit(ctx, h, p)
		if err != nil {
			return err
		}
		if err := c.View(ctx); err != nil {
			return err
		}
		if err := c.tidy(ctx, edits); err != nil {
			return err
		}
		if err := c.MakeNodes(edits.Make); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		spec := c.base()
		edits.Apply(spec)
		return c.launch(ctx, spec)
	})
}

// emit writes a plan for the runtime. The error is a refusal of package oci, or
// target.ErrBroken.
func (c *Container) emit(ctx context.Context, h target.Host, p plan.Plan) (oci.Edits, error) {
	prefix, err := c.Sandbox.Host(ctx, h, p)
	if err != nil {
		return oci.Edits{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.Outside("rootfs"))
	if err != nil {
		return oci.Edits{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	return oci.Emit(p, oci.Options{
		IDMap: c.Config.IDMap, Container: c.Config.Name, HostRoot: prefix,
		NodesDir: c.Inside("nodes"), HookPath: c.Sandbox.Inside(sandbox.HookPath), HookFile: c.HookFile(),
		Resolve: func(p string) (string, error) { return sandbox.Resolve(root, p) },
	})
}

// tidy makes mount points, and takes back what earlier starts left: an engine's
// duty, since no hook of a runtime comes before the mounts.
func (c *Container) tidy(ctx context.Context, e oci.Edits) error {
	if e.Hooks == nil {
		if !c.Hooked {
			return nil
		}
		err := c.Hook(ctx, "--stage", "clean", "--root", c.Root())
		c.Hooked = err != nil
		return err
	}
	if err := c.WriteHook(e.Hook, true); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return c.Hook(ctx, "--stage", "prepare", "--root", c.Root())
}

// launch writes the bundle and has the runtime run it in the foreground.
func (c *Container) launch(ctx context.Context, spec *rspec.Spec) error {
	data, err := json.MarshalIndent(spec, "", "  ")
	if err == nil {
		err = os.MkdirAll(c.Outside("bundle"), 0o755)
	}
	if err == nil {
		c.spec = append(data, '\n')
		err = os.WriteFile(c.Outside("bundle/config.json"), c.spec, 0o644)
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return c.Launch(ctx, c.command())
}

// command is the runtime in the foreground. Runtimes give standard streams to
// the container's root: it gets a pipe, never the machine's /dev/null.
func (c *Container) command() *exec.Cmd {
	args := []string{"--root", c.Inside("state")}
	if c.runtime == "crun" {
		args = append(args, "--cgroup-manager=cgroupfs")
	}
	args = append(args, "run", "--bundle", c.Inside("bundle"), c.Name)
	cmd := c.Sandbox.Command(context.Background(), c.program, args...)
	cmd.Stdin = strings.NewReader("")
	return cmd
}

// Forget is part of foreground.Program: it removes the runtime's state and its
// cgroups, as the end of the machine does.
func (c *Container) Forget() error {
	return errors.Join(os.RemoveAll(c.Outside("state")), c.Sandbox.RemoveCgroups(c.Name))
}

// Problem is part of foreground.Program.
func (c *Container) Problem(output string) error { return errors.New(problem(c.runtime, output)) }

// problem is what a runtime complained of: the hook's own words, else the runtime's
// first error.
func problem(runtime, output string) string {
	first := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && first == "" && !strings.Contains(line, "level=warning") {
			first = runtime + ": " + line
		}
	}
	return cmp.Or(target.HookSaid(output), first, runtime+": ended without a word")
}

// Plug is part of target.Container, Unplug too.
func (c *Container) Plug(context.Context, target.Host, plan.Plan) error { return errNoPlug() }

// Unplug is part of target.Container.
func (c *Container) Unplug(context.Context, target.Host, plan.Plan) error { return errNoPlug() }

func errNoPlug() error {
	return &target.CannotError{Target: "oci",
		Why:  "not applicable: no OCI runtime adds devices or mounts to a running container, or takes them away",
		Hint: "use a target of system containers, such as lxc"}
}

// Stop is part of target.Container. The runtime deletes the container, and the
// poststop hooks run.
func (c *Container) Stop(context.Context) error { return c.End(unix.SIGTERM) }

// Configuration is part of target.Container: config.json.
func (c *Container) Configuration() string { return string(c.spec) }
