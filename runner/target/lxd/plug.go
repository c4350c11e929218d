package lxd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/plan"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/agent"
	"gpurig/runner/target/sandbox"
)

// Plug is part of target.Container: the daemon mounts into the running container
// and changes its device rules, cdi-hook makes links and library cache.
// Environment and groups of a running process stay.
func (c *Container) Plug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.change(ctx, "plug", h, p)
}

// Unplug is part of target.Container.
func (c *Container) Unplug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.change(ctx, "unplug", h, p)
}

func (c *Container) change(ctx context.Context, verb string, h target.Host, p plan.Plan) error {
	if c.line == nil {
		return fmt.Errorf("%s %s: %w", verb, c.config.Name, target.ErrNotRunning)
	}
	e, err := c.emit(ctx, h, p)
	if err == nil {
		err = c.carryOut(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.config.Name, sandbox.Judged(err, c.line.Lost))
	}
	return nil
}

// carryOut makes the running container fit e: what leaves goes first, then the
// hook takes back its mount points and makes those of what comes.
func (c *Container) carryOut(ctx context.Context, e emission) error {
	was := c.now
	if slices.ContainsFunc(e.raw, func(l string) bool {
		return strings.HasPrefix(l, "lxc.mount.entry = tmpfs ") && !slices.Contains(was.raw, l)
	}) {
		return &target.CannotError{Target: string(c.server.api.Server().Flavour), Why: "not applicable: a tmpfs is mounted when the container starts", Hint: "start the container with the device"}
	}
	staying := maps.Clone(was.devices)
	maps.DeleteFunc(staying, func(name string, d lxdapi.Device) bool { return !maps.Equal(d, e.devices[name]) })
	if len(staying) < len(was.devices) {
		less := was
		less.devices = staying
		if err := c.configure(ctx, less); err != nil {
			return err
		}
	}
	if err := c.dropLinks(ctx, was, e); err != nil {
		return err
	}
	work := c.hooks || e.hooked
	if work {
		if err := c.writeHook(e); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		if err := c.hook(ctx, "--stage", "prepare", "--root", c.rootByHand()); err != nil {
			return err
		}
	}
	if err := c.configure(ctx, e); err != nil {
		return err
	}
	if !work {
		return nil
	}
	return c.hook(ctx, "--stage", "apply", "--pid", fmt.Sprint(c.line.PID))
}

// dropLinks removes links below /dev that are not wanted any more: the hook only
// knows those of the root itself.
func (c *Container) dropLinks(ctx context.Context, was, is emission) error {
	ch := agent.Change{PID: c.line.PID}
	for _, l := range was.hook.Links {
		if strings.HasPrefix(l.Path, "/dev/") && !slices.Contains(is.hook.Links, l) {
			ch.Remove = append(ch.Remove, l.Path)
		}
	}
	if len(ch.Remove) == 0 {
		return nil
	}
	data, err := json.Marshal(ch)
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return c.server.Output(ctx, bytes.NewReader(data), c.server.ByHand(sandbox.ProbePath), "join")
}
