package lxd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/world"
)

// pool is the name of the storage pool.
const pool = "gpurig"

// A server is one daemon and what its containers share.
type server struct {
	*world.World
	daemon *daemon
	api    *lxdapi.Client
	cgroup string

	mu     sync.Mutex
	count  int
	images map[string]func() error // by kind: imports it, once
}

// startServer starts a daemon and makes its pool. What was made is removed when
// it fails.
func startServer(ctx context.Context, f lxdapi.Flavour, cgroup string, p programs) (_ *server, err error) {
	w, err := world.Open(cgroup, runtimeDir, p.Programs)
	if err != nil {
		return nil, err
	}
	s := &server{World: w, cgroup: cgroup, images: map[string]func() error{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	d, err := newDaemon(w, f, p)
	if err != nil {
		return nil, err
	}
	s.daemon = d
	if s.api, err = s.daemon.start(ctx); err != nil {
		return nil, err
	}
	return s, s.api.CreatePool(ctx, pool)
}

func (s *server) close() error {
	if s.api != nil {
		s.api.Close()
	}
	var errs []error
	if s.daemon != nil {
		errs = append(errs, s.daemon.close())
	}
	return errors.Join(append(errs, s.World.Close())...)
}

// create makes a container that has no device but its root.
func (s *server) create(ctx context.Context, c target.Config, img *image.Image) (*Container, error) {
	if err := s.imported(ctx, img); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.count++
	name := fmt.Sprintf("%s-c%d", s.Prefix(), s.count)
	s.mu.Unlock()
	ctr := &Container{server: s, config: c, name: name, dir: s.Prefix() + "/" + name, readOnly: img.ReadOnly}
	if err := s.api.Create(ctx, name, alias(s, img), ctr.instance(emission{})); err != nil {
		return nil, err
	}
	return ctr, os.MkdirAll(s.Outside(ctr.dir), 0o755)
}

// alias is what an image of ours is called.
func alias(s *server, img *image.Image) string { return s.Prefix() + "-" + img.Kind }

// imported imports an image when it is first asked for. Who asks meanwhile waits.
func (s *server) imported(ctx context.Context, img *image.Image) error {
	s.mu.Lock()
	once := s.images[img.Kind]
	if once == nil {
		once = sync.OnceValue(func() error {
			tar, err := imageTar(img, alias(s, img))
			if err != nil {
				return fmt.Errorf("image %s: %w", img.Kind, err)
			}
			// Not the context of one of those who wait for it.
			return s.api.ImportImage(context.WithoutCancel(ctx), alias(s, img), tar)
		})
		s.images[img.Kind] = once
	}
	s.mu.Unlock()
	return once()
}

// rootDir is where a container's root is, below the scratch directory.
func (s *server) rootDir(name string) string {
	return filepath.Join(stateDir, "storage-pools", pool, "containers", name, "rootfs")
}

// removed takes a container away, running or not. stopped is called between its
// stop and its removal.
func (s *server) removed(ctx context.Context, name string, stopped func(context.Context)) error {
	state, err := s.api.State(ctx, name)
	if err != nil {
		if lxdapi.IsNotFound(err) {
			return nil
		}
		return err
	}
	if state.Status != "Stopped" {
		if err := s.api.Stop(ctx, name, -1, true); err != nil && !lxdapi.IsStopped(err) {
			return err
		}
	}
	stopped(ctx)
	return s.api.Delete(ctx, name)
}
