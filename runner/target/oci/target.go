// Package oci is the target that makes containers by an OCI runtime, runc or
// crun: a bundle with a configuration of ours, the edits of package core/oci in
// it, and the probe as first process.
//
// What an engine does beyond that is done here in its place: cdi-hook takes back
// before each start what an earlier one left. Nothing can be plugged into or
// unplugged from a running container, as no runtime does that either.
//
// Inject starts a container the other way, by the CDI reference implementation
// and the hooks that the Spec names, to compare the two.
//
// It lives in a world of package world and needs root.
package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/world"
)

// Options adjust a target. The zero value finds everything itself.
type Options struct {
	Images  *image.Set // nil: made from this machine
	Probe   string     // gpurig-probe; empty: beside our own program
	Hook    string     // cdi-hook; empty: beside our own program
	Runtime string     // "runc" or "crun"; empty: the first that is installed
}

// An OCI is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type OCI struct {
	images *image.Set
	opts   Options

	mu     sync.Mutex
	worlds map[string]*shared // by cgroup version
	cannot map[string]*target.CannotError
}

var _ target.Target = (*OCI)(nil)

// Runtimes are those that are known here, the one to be preferred first.
var Runtimes = []string{"runc", "crun"}

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *OCI {
	if opts.Images == nil {
		opts.Images = image.NewSet(nil)
	}
	if opts.Runtime == "" {
		opts.Runtime = Runtimes[0]
		for _, r := range Runtimes {
			if _, err := exec.LookPath(r); err == nil {
				opts.Runtime = r
				break
			}
		}
	}
	return &OCI{images: opts.Images, opts: opts, worlds: map[string]*shared{}, cannot: map[string]*target.CannotError{}}
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all.
func Open(opts Options) (*OCI, error) {
	t := New(opts)
	if _, err := t.able(); err != nil {
		return nil, err
	}
	return t, nil
}

// Name is part of target.Target.
func (t *OCI) Name() string { return "oci" }

// Family is part of target.Kin.
func (t *OCI) Family() string { return "oci-" + t.opts.Runtime }

// programs are what is run, by absolute path.
type programs struct {
	world.Programs
	runtime string
}

func (t *OCI) able() (programs, *target.CannotError) {
	var p programs
	var cerr *target.CannotError
	p.Programs, cerr = world.Find("oci", t.opts.Probe, t.opts.Hook,
		world.Tool{Name: t.opts.Runtime, Hint: "install an OCI runtime: apt-get install runc crun", Path: &p.runtime})
	return p, cerr
}

// Can is part of target.Target.
func (t *OCI) Can(_ context.Context, c target.Config) error {
	if !slices.Contains([]string{"v1", "v2"}, c.Cgroup) {
		return fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	if _, err := t.images.Image(c.Image); err != nil {
		return err
	}
	_, err := t.shared(c.Cgroup)
	return err
}

// mayLoadRules says what keeps crun from loading device rules for cgroup v2: it
// raises the limit of locked memory first, and gives up where it may not.
func mayLoadRules() string {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Max == unix.RLIM_INFINITY {
		return ""
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: l.Cur, Max: unix.RLIM_INFINITY}); err != nil {
		return "crun raises RLIMIT_MEMLOCK for the device rules of cgroup v2, and this machine does not allow that (no CAP_SYS_RESOURCE)"
	}
	// Back to what it was: lowering a limit cannot fail.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l)
	return ""
}

// shared is what containers of one cgroup version share.
type shared struct {
	*world.World
	prog programs

	mu         sync.Mutex
	count      int
	containers map[string]*Container
}

func (t *OCI) shared(cgroup string) (*shared, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.worlds[cgroup]; w != nil {
		return w, nil
	}
	if err := t.cannot[cgroup]; err != nil {
		return nil, err
	}
	p, cerr := t.able()
	if cerr == nil && t.opts.Runtime == "crun" && cgroup == "v2" {
		if why := mayLoadRules(); why != "" {
			cerr = &target.CannotError{Target: "oci", Why: why, Hint: "install runc, or use cgroup v1"}
		}
	}
	if cerr == nil {
		w, err := world.Open(cgroup, "", p.Programs)
		if err == nil {
			t.worlds[cgroup] = &shared{World: w, prog: p, containers: map[string]*Container{}}
			return t.worlds[cgroup], nil
		}
		cerr = &target.CannotError{Target: "oci", Why: err.Error()}
	}
	t.cannot[cgroup] = cerr
	return nil, cerr
}

// Create is part of target.Target.
func (t *OCI) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := t.Can(ctx, c); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	w, err := t.shared(c.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	img, err := t.images.Image(c.Image)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	ctr, err := w.create(ctx, c, img)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", cmp.Or(c.Name, "a container"), errors.Join(target.ErrBroken, err))
	}
	ctr.runtime = t.opts.Runtime
	return ctr, nil
}

// create makes a container's directory and its root.
func (w *shared) create(ctx context.Context, c target.Config, img *image.Image) (*Container, error) {
	w.mu.Lock()
	w.count++
	name := fmt.Sprintf("c%d", w.count)
	w.mu.Unlock()
	ctr := &Container{world: w, config: c, dir: w.Prefix() + "/" + name, name: name, readOnly: img.ReadOnly}
	if err := os.MkdirAll(w.Outside(ctr.dir), 0o755); err != nil {
		return nil, err
	}
	if err := w.WriteRoot(ctx, img, c.IDMap, ctr.dir+"/rootfs"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(w.Outside(ctr.dir)))
	}
	w.mu.Lock()
	w.containers[name] = ctr
	w.mu.Unlock()
	return ctr, nil
}

// Close is part of target.Target. It ends every container that is left.
func (t *OCI) Close(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, cgroup := range []string{"v1", "v2"} {
		if w := t.worlds[cgroup]; w != nil {
			errs = append(errs, w.close(ctx))
			delete(t.worlds, cgroup)
		}
	}
	return errors.Join(errs...)
}

func (w *shared) close(ctx context.Context) error {
	w.mu.Lock()
	var left []*Container
	for _, c := range w.containers {
		left = append(left, c)
	}
	w.mu.Unlock()
	var errs []error
	for _, c := range left {
		errs = append(errs, c.Remove(ctx))
	}
	return errors.Join(append(errs, w.Close())...)
}
