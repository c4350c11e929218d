package lxd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
)

var (
	_ target.Served = (*Container)(nil)
	_ target.Served = (*nativeContainer)(nil)
)

// errAlone is the caller's mistake: others would lose the daemon.
var errAlone = fmt.Errorf("the container shares its daemon: %w", target.ErrBroken)

// Daemon is part of target.Served.
func (c *Container) Daemon() any { return c.server }

// RestartDaemon is part of target.Served.
func (c *Container) RestartDaemon(ctx context.Context) error {
	if c.server.daemon == nil {
		return &target.CannotError{Target: string(c.server.api.Server().Flavour), Why: "the daemon is not ours to restart",
			Hint: "use a daemon of our own: --lxd-socket " + Private}
	}
	if c.config.Alone == "" {
		return errAlone
	}
	if err := c.server.restart(ctx, unix.SIGTERM); err != nil {
		return fmt.Errorf("restart the daemon: %w", errors.Join(target.ErrBroken, err))
	}
	return nil
}

// RebootHost is part of target.Served. A daemon that is not ours goes on.
func (c *Container) RebootHost(ctx context.Context, crash bool) error {
	if c.server.daemon == nil {
		return nil
	}
	if c.config.Alone == "" {
		return errAlone
	}
	if err := c.server.reboot(ctx, crash); err != nil {
		return fmt.Errorf("reboot: %w", errors.Join(target.ErrBroken, err))
	}
	return nil
}

// restart ends the daemon with a signal, and starts it again on what it left, its
// containers among it.
func (s *server) restart(ctx context.Context, sig unix.Signal) error {
	if err := s.daemon.stop(sig); err != nil {
		return err
	}
	return s.again(ctx)
}

func (s *server) again(ctx context.Context) error {
	s.api.Close()
	api, err := s.daemon.start(ctx)
	if err == nil {
		s.api = api
	}
	return err
}

// reboot ends the daemon and every other process, in good order or as by power loss,
// and with them its mounts: the folders of nodes, which are in memory. What is below
// /run goes too. Then the daemon is started on its state and storage pool, which stay.
func (s *server) reboot(ctx context.Context, crash bool) error {
	sig := unix.SIGTERM
	if crash {
		sig = unix.SIGKILL
	}
	if err := s.daemon.stop(sig); err != nil {
		return err
	}
	if err := s.daemon.close(); err != nil {
		return err
	}
	left, err := filepath.Glob(s.OutsideRuntime() + "/*")
	if err != nil {
		return err
	}
	for _, p := range left {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	if err := s.RemoveCgroups("*"); err != nil {
		return err
	}
	if err := s.daemon.boot(); err != nil {
		return err
	}
	return s.again(ctx)
}

// lost reports whether a daemon of our own does not answer any more.
func (s *server) lost(ctx context.Context) bool {
	api, err := lxdapi.Dial(ctx, s.Outside(socketName))
	if err != nil {
		return true
	}
	api.Close()
	return false
}

// Daemon is part of target.Served.
func (c *nativeContainer) Daemon() any {
	if c.now == nil {
		return nil
	}
	return c.now.Daemon()
}

// RestartDaemon is part of target.Served.
func (c *nativeContainer) RestartDaemon(ctx context.Context) error {
	if c.now == nil {
		return nil
	}
	return c.now.RestartDaemon(ctx)
}

// RebootHost is part of target.Served.
func (c *nativeContainer) RebootHost(ctx context.Context, crash bool) error {
	if c.now == nil {
		return nil
	}
	return c.now.RebootHost(ctx, crash)
}
