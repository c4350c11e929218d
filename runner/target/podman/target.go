package podman

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/foreground"
	"gpurig/runner/target/oci"
	"gpurig/runner/target/sandbox"
)

// Options adjust a target. The zero value finds everything itself.
type Options struct {
	Images *image.Set // nil: made from this machine
	Probe  string     // gpurig-probe; empty: beside our own program
	Hook   string     // cdi-hook; empty: beside our own program
}

// A Podman is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type Podman struct {
	*foreground.Sandboxes
	able func() (programs, *target.CannotError) // the programs, or why there can be no container

	mu    sync.Mutex
	tried map[string]error // by cgroup version: why there can be none
}

var _ target.Target = (*Podman)(nil)

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *Podman {
	t := &Podman{tried: map[string]error{}, able: sync.OnceValues(func() (programs, *target.CannotError) { return find(opts) })}
	t.Sandboxes = foreground.NewSandboxs(opts.Images, t.open)
	return t
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all.
func Open(opts Options) (*Podman, error) {
	t := New(opts)
	if _, err := t.able(); err != nil {
		return nil, err
	}
	return t, nil
}

// Name is part of target.Target.
func (t *Podman) Name() string { return "podman" }

// Capabilities is part of target.Target.
func (t *Podman) Capabilities() target.Capabilities { return target.Capabilities{Family: "podman"} }

// Version is what the podman that was found says it is: "4.3.1".
func (t *Podman) Version(ctx context.Context) (string, error) {
	p, cannot := t.able()
	if cannot != nil {
		return "", cannot
	}
	out, err := exec.CommandContext(ctx, p.podman, "--version").Output() // "podman version 4.3.1"
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "podman version "), err
}

// programs are what is run, by absolute path.
type programs struct {
	sandbox.Programs
	podman, conmon, runtime, unshare, shell string
}

// find looks for the programs. conmon is the one on the path, else Podman's own choice
// might be of another release.
func find(o Options) (programs, *target.CannotError) {
	const hint = "install Podman: apt-get install podman"
	var p programs
	var cannot *target.CannotError
	p.Programs, cannot = sandbox.Find("podman", o.Probe, o.Hook,
		sandbox.Tool{Name: "podman", Hint: hint, Path: &p.podman},
		sandbox.Tool{Name: "conmon", Hint: "install conmon: apt-get install conmon", Path: &p.conmon},
		sandbox.Tool{Name: oci.Runtimes[0], Hint: "install an OCI runtime: apt-get install " + oci.Runtimes[0], Path: &p.runtime},
		sandbox.Tool{Name: "unshare", Hint: "install util-linux: apt-get install util-linux", Path: &p.unshare},
		sandbox.Tool{Name: "sh", Hint: "install a shell: apt-get install dash", Path: &p.shell})
	return p, cannot
}

// specDir is where every release of Podman looks for CDI Specs.
const specDir = "/etc/cdi"

// open sets up what containers of one cgroup version share.
func (t *Podman) open(cgroup string) (*sandbox.Sandbox, *target.CannotError) {
	p, cannot := t.able()
	if cannot != nil {
		return nil, cannot
	}
	w, err := sandbox.Open(cgroup, specDir, p.Programs)
	if err != nil {
		return nil, &target.CannotError{Target: "podman", Why: err.Error()}
	}
	return w, nil
}

// Can is part of target.Target.
func (t *Podman) Can(ctx context.Context, c target.Config) error {
	if len(c.IDMap) > 0 {
		return &target.CannotError{Target: "podman",
			Why:  "not applicable: with --uidmap Podman leaves out all device rules, and runc binds the node that this machine has at the container's path, where a fake host has none",
			Hint: "use target docker or oci"}
	}
	if err := t.Sandboxes.Can(ctx, c); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err, tried := t.tried[c.Cgroup]
	if !tried {
		err = t.try(ctx, c.Cgroup)
		t.tried[c.Cgroup] = err
	}
	return err
}

// try makes a container without devices: what Podman lacks on this machine is no answer
// to a plan.
func (t *Podman) try(ctx context.Context, cgroup string) error {
	c, err := t.create(ctx, target.Config{Name: "try", Image: "none", Cgroup: cgroup})
	if err != nil {
		return err
	}
	none := tree.New()
	if err = c.Start(ctx, target.Host{Root: none, Sum: none.Sum}, plan.Plan{}); err != nil && !errors.Is(err, target.ErrBroken) {
		err = &target.CannotError{Target: "podman", Why: fmt.Sprintf("no container can be made: %v", err), Hint: "see docs/podman.md"}
	}
	return errors.Join(err, c.Remove(ctx))
}

// Create is part of target.Target.
func (t *Podman) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := t.Can(ctx, c); err != nil {
		return nil, err
	}
	return t.create(ctx, c)
}

func (t *Podman) create(ctx context.Context, c target.Config) (*Container, error) {
	base, err := t.Sandboxes.Create(ctx, c)
	if err != nil {
		return nil, err
	}
	ctr := &Container{Container: base}
	ctr.programs, _ = t.able() // there is a container
	base.Program = ctr
	return ctr, nil
}
