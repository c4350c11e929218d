package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/host/osroot"
	"gpurig/core/oci"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/world"
)

// Errors of calls that do not fit the container's state: the caller's mistake.
var (
	errRunning    = fmt.Errorf("the container is running: %w", target.ErrBroken)
	errNotRunning = fmt.Errorf("the container is not running: %w", target.ErrBroken)
	errRemoved    = fmt.Errorf("the container was removed: %w", target.ErrBroken)
)

// A Container is a real container. Its directory holds the root, the bundle, the
// runtime's state, the hook file, and nodes of its own.
type Container struct {
	world    *shared
	config   target.Config
	runtime  string // "runc" or "crun"
	name     string // as the runtime knows it
	dir      string // below the scratch directory
	readOnly bool
	bound    bool // the read-only view of the root is mounted
	removed  bool

	run   *world.Run // nil: not running
	spec  []byte     // config.json
	hooks bool       // a hook file was written
}

var _ target.Container = (*Container)(nil)

func (c *Container) inside(p string) string  { return c.world.Inside(c.dir + "/" + p) }
func (c *Container) outside(p string) string { return c.world.Outside(c.dir + "/" + p) }

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer of the runtime or the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.begin(func() error {
		edits, err := c.emit(ctx, h, p)
		if err != nil {
			return err
		}
		if err := c.rootView(ctx); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		if err := c.tidy(ctx, edits); err != nil {
			return err
		}
		err = os.RemoveAll(c.outside("nodes")) // anew for each start
		if err == nil {
			err = c.world.MakeNodes(edits.Make)
		}
		if err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		spec := c.base()
		edits.Apply(spec)
		return c.launch(ctx, spec)
	})
}

// begin starts a container that can be started.
func (c *Container) begin(start func() error) error {
	err := error(nil)
	switch {
	case c.removed:
		return errRemoved
	case c.run != nil:
		return errRunning
	default:
		err = start()
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	return nil
}

// emit writes a plan for the runtime. The error is a refusal of package oci, or
// target.ErrBroken.
func (c *Container) emit(ctx context.Context, h target.Host, p plan.Plan) (oci.Edits, error) {
	prefix, err := c.world.Host(ctx, h, p)
	if err != nil {
		return oci.Edits{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.outside("rootfs"))
	if err != nil {
		return oci.Edits{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	return oci.Emit(p, oci.Options{
		IDMap: c.config.IDMap, Container: c.config.Name, HostRoot: prefix,
		NodesDir: c.inside("nodes"), HookPath: c.world.Inside(world.HookPath), HookFile: c.inside("hook/file.json"),
		Resolve: func(p string) (string, error) { return world.Resolve(root, p) },
	})
}

// tidy makes mount points, and takes back what earlier starts left: an engine's
// duty, since no hook of a runtime comes before the mounts.
func (c *Container) tidy(ctx context.Context, e oci.Edits) error {
	if e.Hooks == nil {
		if !c.hooks {
			return nil
		}
		err := c.hook(ctx, "--stage", "clean", "--root", c.root())
		c.hooks = err != nil
		return err
	}
	if err := c.writeHook(e.Hook); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return c.hook(ctx, "--stage", "prepare", "--root", c.root())
}

// writeHook writes the hook file. In a user namespace, it is the container's
// root that reads it.
func (c *Container) writeHook(f hookspec.File) error {
	data, err := f.Marshal()
	if err != nil {
		return err
	}
	at := c.outside("hook/file.json")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	c.hooks = true
	return os.WriteFile(at, data, 0o644)
}

func (c *Container) hook(ctx context.Context, args ...string) error {
	return c.world.Output(ctx, nil, c.world.Inside(world.HookPath), append(args, c.inside("hook/file.json"))...)
}

func (c *Container) root() string {
	if c.readOnly {
		return c.inside("ro")
	}
	return c.inside("rootfs")
}

// rootView mounts a read-only view of the root, once, for an image that cannot
// be changed: root.readonly would let the runtime and its hooks change it first.
func (c *Container) rootView(ctx context.Context) error {
	if !c.readOnly || c.bound {
		return nil
	}
	if err := c.world.ReadOnlyView(ctx, c.dir+"/rootfs", c.dir+"/ro"); err != nil {
		return err
	}
	c.bound = true
	return nil
}

// launch writes the bundle and has the runtime run it in the foreground.
func (c *Container) launch(ctx context.Context, spec *rspec.Spec) error {
	data, err := json.MarshalIndent(spec, "", "  ")
	if err == nil {
		err = os.MkdirAll(c.outside("bundle"), 0o755)
	}
	if err == nil {
		c.spec = append(data, '\n')
		err = os.WriteFile(c.outside("bundle/config.json"), c.spec, 0o644)
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	l, err := c.world.Listen(c.dir + "/own")
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	defer l.Close()
	r, err := world.Launch(ctx, c.command(), l)
	if errors.Is(err, world.ErrEnded) {
		// What it made stays where it did not come to its own end.
		return errors.Join(errors.New(problem(c.runtime, r.Output())), c.forget())
	}
	if err != nil {
		return err
	}
	c.run = r
	return nil
}

// command is the runtime in the foreground. Runtimes give standard streams to
// the container's root: it gets a pipe, never the machine's /dev/null.
func (c *Container) command() *exec.Cmd {
	args := []string{"--root", c.inside("state")}
	if c.runtime == "crun" {
		args = append(args, "--cgroup-manager=cgroupfs")
	}
	args = append(args, "run", "--bundle", c.inside("bundle"), c.name)
	cmd := c.world.Command(context.Background(), c.world.prog.runtime, args...)
	cmd.Stdin = strings.NewReader("")
	return cmd
}

// forget removes the runtime's state and its cgroups, as the end of the machine
// does.
func (c *Container) forget() error {
	err := errors.Join(os.RemoveAll(c.outside("state")), c.world.RemoveCgroups(c.name+"*"))
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return nil
}

// problem is what a runtime complained of: the hook's own last words, else the
// runtime's first error.
func problem(runtime, output string) string {
	hook, first := "", ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if _, said, ok := strings.Cut(line, "cdi-hook: "); ok {
			hook = "cdi-hook: " + strings.Trim(strings.ReplaceAll(said, `\n`, " "), `" `)
		}
		if line != "" && first == "" && !strings.Contains(line, "level=warning") {
			first = runtime + ": " + line
		}
	}
	switch {
	case hook != "":
		return hook
	case first != "":
		return first
	}
	return runtime + ": ended without a word"
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

// Stop is part of target.Container. The runtime deletes the container, and the
// poststop hooks run.
func (c *Container) Stop(context.Context) error {
	if c.run == nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, errNotRunning)
	}
	r := c.run
	c.run = nil
	said, err := r.Stop(unix.SIGTERM)
	if err != nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, err)
	}
	if said != nil {
		return fmt.Errorf("stop %s: %s", c.config.Name, problem(c.runtime, r.Output()))
	}
	return nil
}

// Crash is part of target.Container.
func (c *Container) Crash(context.Context) error {
	if c.run == nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, errNotRunning)
	}
	if err := c.end(); err != nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}

func (c *Container) end() error {
	r := c.run
	c.run = nil
	return errors.Join(r.KillAll(), c.forget())
}

// Running is part of target.Container.
func (c *Container) Running() bool { return c.run != nil }

// Configuration is part of target.Container: config.json.
func (c *Container) Configuration() string { return string(c.spec) }

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
