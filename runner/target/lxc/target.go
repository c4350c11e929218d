package lxc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"gpurig/core/lxc"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/world"
)

// Options adjust a target. The zero value finds everything itself.
type Options struct {
	Images *image.Set // nil: made from this machine
	Probe  string     // gpurig-probe; empty: beside our own program
	Hook   string     // cdi-hook; empty: beside our own program
}

// An LXC is the target. It is safe for use by several goroutines; each of its
// containers belongs to one at a time.
type LXC struct {
	images *image.Set
	opts   Options

	mu     sync.Mutex
	worlds map[string]*shared // by cgroup version
	cannot map[string]*target.CannotError
}

var _ target.Target = (*LXC)(nil)

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *LXC {
	if opts.Images == nil {
		opts.Images = image.NewSet(nil)
	}
	return &LXC{images: opts.Images, opts: opts, worlds: map[string]*shared{}, cannot: map[string]*target.CannotError{}}
}

// Open returns a target, or a *target.CannotError where this machine can make no
// container at all: no root, or a program is missing. Whether it can make one of
// a cgroup version only Can knows, since that takes setting one up.
func Open(opts Options) (*LXC, error) {
	l := New(opts)
	if _, err := l.able(); err != nil {
		return nil, err
	}
	return l, nil
}

// Name is part of target.Target.
func (l *LXC) Name() string { return "lxc" }

// Family is part of target.Kin.
func (l *LXC) Family() string { return "lxc" }

// programs are what is run, by absolute path.
type programs struct {
	world.Programs
	start, cgroup string
	version       lxc.Version
}

// runtimeDir is where liblxc keeps its locks.
const runtimeDir = "/run/lxc"

// able returns the programs, or why there can be no container.
func (l *LXC) able() (programs, *target.CannotError) {
	const hint = "install LXC: apt-get install lxc"
	var p programs
	var cerr *target.CannotError
	p.Programs, cerr = world.Find("lxc", l.opts.Probe, l.opts.Hook,
		world.Tool{Name: "lxc-start", Hint: hint, Path: &p.start}, world.Tool{Name: "lxc-cgroup", Hint: hint, Path: &p.cgroup})
	if cerr != nil {
		return p, cerr
	}
	var err error
	if p.version, err = versionOf(p.start); err != nil {
		return p, &target.CannotError{Target: "lxc", Why: err.Error(), Hint: hint}
	}
	return p, nil
}

// versionOf asks lxc-start for its version.
func versionOf(start string) (lxc.Version, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, start, "--version").Output()
	if err == nil {
		var v lxc.Version
		if v, err = lxc.ParseVersion(strings.TrimSpace(string(out))); err == nil {
			return v, nil
		}
	}
	return lxc.Version{}, fmt.Errorf("%s --version: %w", start, err)
}

// Installed returns the version of the LXC on the path; ok is false where there
// is none that says it.
func Installed() (v lxc.Version, ok bool) {
	start, err := exec.LookPath("lxc-start")
	if err != nil {
		return v, false
	}
	v, err = versionOf(start)
	return v, err == nil
}

// Can is part of target.Target. It finds out by setting up what containers of
// that cgroup version need; the answer is kept.
func (l *LXC) Can(_ context.Context, c target.Config) error {
	if !slices.Contains([]string{"v1", "v2"}, c.Cgroup) {
		return fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	if _, err := l.images.Image(c.Image); err != nil {
		return err
	}
	_, err := l.world(c.Cgroup)
	return err
}

// shared is what containers of one cgroup version share.
type shared struct {
	*world.World
	prog programs

	mu         sync.Mutex
	count      int
	containers map[string]*Container
}

// world returns what containers of one cgroup version share.
func (l *LXC) world(cgroup string) (*shared, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.worlds[cgroup]; w != nil {
		return w, nil
	}
	if err := l.cannot[cgroup]; err != nil {
		return nil, err
	}
	p, cerr := l.able()
	if cerr == nil {
		cerr = liblxc.Can("lxc", cgroup, p.version)
	}
	if cerr == nil {
		w, err := world.Open(cgroup, runtimeDir, p.Programs)
		if err == nil {
			l.worlds[cgroup] = &shared{World: w, prog: p, containers: map[string]*Container{}}
			return l.worlds[cgroup], nil
		}
		cerr = &target.CannotError{Target: "lxc", Why: err.Error()}
	}
	l.cannot[cgroup] = cerr
	return nil, cerr
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

// close removes every container and ends the namespace.
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

// Create is part of target.Target.
func (l *LXC) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := l.Can(ctx, c); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	w, err := l.world(c.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	img, err := l.images.Image(c.Image)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	ctr, err := w.create(ctx, c, img)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", c.Name, errors.Join(target.ErrBroken, err))
	}
	return ctr, nil
}

// Close is part of target.Target. It ends every container that is left.
func (l *LXC) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, cgroup := range []string{"v1", "v2"} {
		if w := l.worlds[cgroup]; w != nil {
			errs = append(errs, w.close(ctx))
			delete(l.worlds, cgroup)
		}
	}
	return errors.Join(errs...)
}
