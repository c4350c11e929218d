package docker

import (
	"context"

	"gpurig/runner/target"
)

var _ target.Served = (*Container)(nil)

// Daemon is part of target.Served.
func (c *Container) Daemon() any { return c.engine }

// RestartDaemon is part of target.Served. An engine without live-restore ends its
// containers when it is restarted, and this one serves those of other scenarios.
func (c *Container) RestartDaemon(context.Context) error {
	return &target.CannotError{Target: "docker", Why: "an engine of Docker ends its containers when it is restarted, unless it is told otherwise"}
}

// RebootHost is part of target.Served. Containers were stopped or lost before; the
// engine goes on.
func (c *Container) RebootHost(context.Context, bool) error { return nil }
