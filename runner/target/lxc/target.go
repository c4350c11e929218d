package lxc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"gpurig/runner/image"
	"gpurig/runner/target"
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
	worlds map[string]*world // by cgroup version
	cannot map[string]*target.CannotError
}

var _ target.Target = (*LXC)(nil)

// New returns a target. Nothing is started before it is needed.
func New(opts Options) *LXC {
	if opts.Images == nil {
		opts.Images = image.NewSet(nil)
	}
	return &LXC{images: opts.Images, opts: opts, worlds: map[string]*world{}, cannot: map[string]*target.CannotError{}}
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

// able returns the programs, or why there can be no container.
func (l *LXC) able() (programs, *target.CannotError) {
	if os.Geteuid() != 0 {
		return programs{}, cannot("run as root, or use --target sim", "needs root")
	}
	return l.find()
}

// Name is part of target.Target.
func (l *LXC) Name() string { return "lxc" }

// programs are what is run, by absolute path.
type programs struct{ start, cgroup, nsenter, probe, hook string }

// find looks for the programs.
func (l *LXC) find() (programs, *target.CannotError) {
	var p programs
	for _, t := range []struct {
		to         *string
		name, hint string
	}{
		{&p.start, "lxc-start", "install LXC: apt-get install lxc"},
		{&p.cgroup, "lxc-cgroup", "install LXC: apt-get install lxc"},
		{&p.nsenter, "nsenter", "install util-linux: apt-get install util-linux"},
	} {
		path, err := exec.LookPath(t.name)
		if err != nil {
			return p, cannot(t.hint, "there is no %s", t.name)
		}
		if *t.to, err = filepath.Abs(path); err != nil {
			return p, cannot("", "%s: %v", t.name, err)
		}
	}
	var err error
	for _, t := range []struct {
		to          *string
		given, name string
	}{{&p.probe, l.opts.Probe, "gpurig-probe"}, {&p.hook, l.opts.Hook, "cdi-hook"}} {
		if *t.to, err = beside(t.given, t.name); err != nil {
			return p, cannot("build it: make build puts all programs beside each other", "there is no %s: %v", t.name, err)
		}
	}
	return p, nil
}

// beside returns a program that was given, or one that lies where ours does.
func beside(given, name string) (string, error) {
	if given == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		given = filepath.Join(filepath.Dir(self), name)
	}
	if _, err := os.Stat(given); err != nil {
		return "", err
	}
	return filepath.Abs(given)
}

func cannot(hint, why string, args ...any) *target.CannotError {
	return &target.CannotError{Target: "lxc", Why: fmt.Sprintf(why, args...), Hint: hint}
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

var worlds atomic.Int64 // of this process, so that cgroup names differ

// world returns what containers of one cgroup version share.
func (l *LXC) world(cgroup string) (*world, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.worlds[cgroup]; w != nil {
		return w, nil
	}
	if err := l.cannot[cgroup]; err != nil {
		return nil, err
	}
	w, cerr := l.newWorld(cgroup)
	if cerr != nil {
		l.cannot[cgroup] = cerr
		return nil, cerr
	}
	l.worlds[cgroup] = w
	return w, nil
}

func (l *LXC) newWorld(cgroup string) (*world, *target.CannotError) {
	p, cerr := l.able()
	if cerr != nil {
		return nil, cerr
	}
	k, err := startKeeper(cgroup, fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), worlds.Add(1)), p)
	if err != nil {
		return nil, cannot("", "%v", err)
	}
	return newWorldIn(k, p), nil
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
