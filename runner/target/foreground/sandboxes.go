// Package foreground is shared by targets that run a program in the foreground
// for each container, lxc-start or an OCI runtime: a mount namespace for each cgroup
// version, a folder with a root for each container, and starting and stopping it.
//
// The arguments of the program, and the meaning of its errors, are left to the target.
package foreground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// cgroups are the versions that there are.
var cgroups = []string{"v1", "v2"}

// Sandboxes are those of one target, by version of cgroups. They are safe for use by
// several goroutines.
type Sandboxes struct {
	images *image.Set
	open   func(cgroup string) (*sandbox.Sandbox, *target.CannotError)

	mu     sync.Mutex
	opened map[string]*shared
	cannot map[string]*target.CannotError
}

// shared is a sandbox and who lives in it.
type shared struct {
	*sandbox.Sandbox

	mu    sync.Mutex
	count int
	left  map[string]*Container
}

// NewSandboxs returns sandboxes that open sets up, each when it is first wanted: what it
// answers is kept. images is where roots come from; nil: made from this machine.
func NewSandboxs(images *image.Set, open func(cgroup string) (*sandbox.Sandbox, *target.CannotError)) *Sandboxes {
	if images == nil {
		images = image.NewSet(nil)
	}
	return &Sandboxes{images: images, open: open, opened: map[string]*shared{}, cannot: map[string]*target.CannotError{}}
}

// Can is part of target.Target. It finds out by setting up what containers of
// that cgroup version need.
func (s *Sandboxes) Can(_ context.Context, c target.Config) error {
	_, _, err := s.of(c)
	return err
}

// of returns where a container lives and what its root is.
func (s *Sandboxes) of(c target.Config) (*shared, *image.Image, error) {
	if !slices.Contains(cgroups, c.Cgroup) {
		return nil, nil, fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	img, err := s.images.With(c.Image, c.Content)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[c.Cgroup] == nil && s.cannot[c.Cgroup] == nil {
		w, cannot := s.open(c.Cgroup)
		if cannot != nil {
			s.cannot[c.Cgroup] = cannot
		} else {
			s.opened[c.Cgroup] = &shared{Sandbox: w, left: map[string]*Container{}}
		}
	}
	if err := s.cannot[c.Cgroup]; err != nil {
		return nil, nil, err
	}
	return s.opened[c.Cgroup], img, nil
}

// Create makes a container's folder, with its root.
func (s *Sandboxes) Create(ctx context.Context, c target.Config) (*Container, error) {
	w, img, err := s.of(c)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	ctr, err := w.create(ctx, c, img)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", c.Name, errors.Join(target.ErrBroken, err))
	}
	return ctr, nil
}

func (w *shared) create(ctx context.Context, c target.Config, img *image.Image) (*Container, error) {
	w.mu.Lock()
	w.count++
	name := fmt.Sprintf("c%d", w.count)
	w.mu.Unlock()
	ctr := &Container{Sandbox: w.Sandbox, Config: c, Name: name, dir: w.Prefix() + "/" + name, readOnly: img.ReadOnly}
	ctr.gone = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.left, name)
	}
	if err := os.MkdirAll(ctr.Outside(""), 0o755); err != nil {
		return nil, err
	}
	if err := w.WriteRoot(ctx, img, c.IDMap, ctr.dir+"/rootfs"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(ctr.Outside("")))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[name] = ctr
	return ctr, nil
}

// Close is part of target.Target. It ends every container that is left.
func (s *Sandboxes) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, cgroup := range cgroups {
		if w := s.opened[cgroup]; w != nil {
			errs = append(errs, w.close(ctx))
			delete(s.opened, cgroup)
		}
	}
	return errors.Join(errs...)
}

func (w *shared) close(ctx context.Context) error {
	w.mu.Lock()
	var left []*Container
	for _, c := range w.left {
		left = append(left, c)
	}
	w.mu.Unlock()
	var errs []error
	for _, c := range left {
		errs = append(errs, c.Remove(ctx))
	}
	return errors.Join(append(errs, w.Close())...)
}
