package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// Options adjust a target. The zero value finds everything itself.
type Options struct {
	Images *image.Set // nil: made from this machine
	Probe  string     // gpurig-probe; empty: beside our own program
	Hook   string     // cdi-hook; empty: beside our own program
	CDI    bool       // the engine injects CDI devices by name; else it is given plans
}

// A Docker is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type Docker struct {
	opts Options

	mu      sync.Mutex
	engines map[kind]*engine
	others  []*engine // that serve Config.Alone, or wait to, or are dead and have containers
	cannot  map[kind]*target.CannotError
}

// A kind of engine: what it gives to each of its containers.
type kind struct {
	cgroup string
	mapped bool // a user namespace
}

var (
	_ target.Target = (*Docker)(nil)
)

// subids are what an engine gives to containers with an id map.
var subids = []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}}

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *Docker {
	if opts.Images == nil {
		opts.Images = image.NewSet(nil)
	}
	return &Docker{opts: opts, engines: map[kind]*engine{}, cannot: map[kind]*target.CannotError{}}
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all: no root, or a program is missing.
func Open(opts Options) (*Docker, error) {
	d := New(opts)
	if _, err := d.able(); err != nil {
		return nil, err
	}
	return d, nil
}

// Name is part of target.Target.
func (d *Docker) Name() string {
	if d.opts.CDI {
		return "docker-cdi"
	}
	return "docker"
}

// Capabilities is part of target.Target.
func (d *Docker) Capabilities() target.Capabilities { return target.Capabilities{Family: "docker"} }

// programs are what is run, by absolute path.
type programs struct {
	sandbox.Programs
	daemon, containerd, runc, unshare string
}

// able returns the programs, or why there can be no container.
func (d *Docker) able() (programs, *target.CannotError) {
	const hint = "install Docker: apt-get install docker.io"
	var p programs
	var cerr *target.CannotError
	p.Programs, cerr = sandbox.Find(d.Name(), d.opts.Probe, d.opts.Hook,
		sandbox.Tool{Name: "dockerd", Hint: hint, Path: &p.daemon},
		sandbox.Tool{Name: "containerd", Hint: hint, Path: &p.containerd},
		sandbox.Tool{Name: "runc", Hint: hint, Path: &p.runc},
		sandbox.Tool{Name: "unshare", Hint: "install util-linux: apt-get install util-linux", Path: &p.unshare})
	return p, cerr
}

// Can is part of target.Target. It finds out by starting an engine; the answer is
// kept.
func (d *Docker) Can(ctx context.Context, c target.Config) error {
	if !slices.Contains([]string{"v1", "v2"}, c.Cgroup) {
		return fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	if _, err := d.opts.Images.With(c.Image, c.Content); err != nil {
		return err
	}
	if len(c.IDMap) > 0 && !slices.Equal(c.IDMap, subids) {
		return d.unable("", "the engine's id map is %v, and %v is asked for", subids, c.IDMap)
	}
	if d.opts.CDI && len(c.IDMap) > 0 {
		return d.unable("use target docker", "not applicable: for an engine with userns-remap runc binds the node that this machine has at the container's path, where a fake host has none, and with other flags than the plan's")
	}
	e, err := d.shared(ctx, kindOf(c))
	if err == nil && d.opts.CDI {
		err = tooOld(e.version)
	}
	return err
}

func kindOf(c target.Config) kind { return kind{c.Cgroup, len(c.IDMap) > 0} }

func (d *Docker) unable(hint, why string, args ...any) *target.CannotError {
	return &target.CannotError{Target: d.Name(), Why: fmt.Sprintf(why, args...), Hint: hint}
}

// Create is part of target.Target.
func (d *Docker) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := d.Can(ctx, c); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	img, err := d.opts.Images.With(c.Image, c.Content)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	e, err := d.serve(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	ctr, err := e.create(ctx, c, img)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", c.Name, errors.Join(target.ErrBroken, e.why(err), d.release(e)))
	}
	ctr.leave = func() error { return d.release(e) }
	if d.opts.CDI {
		return named{ctr}, nil
	}
	return ctr, nil
}

// Close is part of target.Target. It ends every container that is left, and the
// engines.
func (d *Docker) Close(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, e := range slices.AppendSeq(d.others, maps.Values(d.engines)) {
		errs = append(errs, e.close())
	}
	clear(d.engines)
	d.others = nil
	return errors.Join(errs...)
}
