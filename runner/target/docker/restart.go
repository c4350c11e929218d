package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

var _ target.Served = (*Container)(nil)

// Daemon is part of target.Served.
func (c *Container) Daemon() any { return c.engine }

// RestartDaemon is part of target.Served. An engine without live-restore ends its
// containers when it is restarted.
func (c *Container) RestartDaemon(context.Context) error {
	return &target.CannotError{Target: "docker", Why: "an engine of Docker ends its containers when it is restarted, unless it is told otherwise"}
}

// errAlone is the caller's mistake: others would lose the engine.
var errAlone = fmt.Errorf("the container shares its engine: %w", target.ErrBroken)

// RebootHost is part of target.Served. Containers were stopped or lost before.
func (c *Container) RebootHost(ctx context.Context, crash bool) error {
	if c.config.Alone == "" {
		return errAlone
	}
	if err := c.engine.reboot(ctx, crash); err != nil {
		return fmt.Errorf("reboot: %w", errors.Join(target.ErrBroken, err))
	}
	return nil
}

// reboot ends the engine and every other process, in good order or as by power loss, and
// takes away what lay in /run. Then the engine is started on what it had stored.
func (e *engine) reboot(ctx context.Context, crash bool) error {
	sig := unix.SIGTERM
	if crash {
		sig = unix.SIGKILL
	}
	if err := e.stop(sig); err != nil {
		return err
	}
	pidns := e.pidns
	e.pidns = nil
	if err := pidns.Close(); err != nil {
		return err
	}
	gone, err := filepath.Glob(e.OutsideRuntime() + "/*")
	if err != nil {
		return err
	}
	for _, p := range append(gone, e.Outside(execDir), e.Outside(socketName), e.Outside(engineDir+"/pid")) {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	if err := e.RemoveCgroups("*"); err != nil {
		return err
	}
	if e.pidns, err = e.NewPIDNS(e.unshare, remapped, subids); err != nil {
		return err
	}
	return e.start(ctx)
}

// stop ends the daemon with a signal. SIGTERM ends its containers in good order.
func (e *engine) stop(sig unix.Signal) error {
	pid, err := sandbox.Listener(e.Outside(socketName))
	if err == nil {
		err = unix.Kill(pid, sig)
	}
	if err != nil {
		return err
	}
	select {
	case <-e.life.Ended():
		return nil
	case <-time.After(startTime):
		return fmt.Errorf("the engine still runs %s after signal %d", startTime, sig)
	}
}

// dead reports whether the engine has ended by itself. Its containers go with its
// namespaces.
func (e *engine) dead() bool {
	if e.sick.Load() || e.life.Over() {
		return true
	}
	// The engine may start another containerd, some day.
	_, err := sandbox.Listener(e.Outside(execDir + "/containerd/containerd.sock"))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
		return true
	}
	// Its socket refuses a moment before its end is heard of.
	_, err = sandbox.Listener(e.Outside(socketName))
	return errors.Is(err, unix.ECONNREFUSED) && e.life.Why() != nil
}
