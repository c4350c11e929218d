package lxc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/agent"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/sandbox"
)

// Plug is part of target.Container. LXC itself can add rules to the device
// cgroup of a running container (lxc-cgroup) and nothing else; mounts come by a
// helper process that enters the container's mount namespace, links and library
// cache by cdi-hook. Environment and groups of a running process stay.
func (c *Container) Plug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.change(ctx, "plug", h, p)
}

// Unplug is part of target.Container.
func (c *Container) Unplug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.change(ctx, "unplug", h, p)
}

func (c *Container) change(ctx context.Context, verb string, h target.Host, p plan.Plan) error {
	if !c.Running() {
		return fmt.Errorf("%s %s: %w", verb, c.Config.Name, target.ErrNotRunning)
	}
	e, err := c.emit(ctx, h, p)
	if err == nil {
		err = c.carryOut(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.Config.Name, c.Judged(err))
	}
	return nil
}

// carryOut makes the running container fit e: what leaves goes first.
func (c *Container) carryOut(ctx context.Context, e emission) error {
	was, links := c.conf, c.file.Links
	gone, added := liblxc.Changes(was.Mounts, e.conf.Mounts)
	if slices.ContainsFunc(added, func(m liblxc.Entry) bool { return m.Type == "tmpfs" }) {
		return &target.CannotError{Target: "lxc", Why: "not applicable: a tmpfs is mounted when the container starts", Hint: "start the container with the device"}
	}
	if err := c.Sandbox.MakeNodes(e.make); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	e.conf.Env, e.conf.Groups = was.Env, was.Groups
	c.lines, c.conf, c.file = append(c.ownLines(), e.lines...), e.conf, e.hook
	if err := c.join(ctx, takeAway(c.PID(), gone, links, e.hook.Links)); err != nil {
		return err
	}
	work := c.Hooked || hooked(e.conf)
	if work {
		if err := c.writeHook(e); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		if err := c.Hook(ctx, "--stage", "prepare", "--root", c.Root()); err != nil {
			return err
		}
	}
	if err := c.join(ctx, agent.Change{PID: c.PID(), Mount: binds(added)}); err != nil {
		return err
	}
	if err := c.rules(ctx, was.Devices, e.conf.Devices); err != nil {
		return err
	}
	if !work {
		return nil
	}
	return c.Hook(ctx, "--stage", "apply", "--pid", fmt.Sprint(c.PID()))
}

// takeAway unmounts entries, the last first, with what create= made for them and
// with links below /dev that are not wanted any more: the hook only knows those
// of the root itself.
func takeAway(pid int, gone []liblxc.Entry, links, want []hookspec.Link) agent.Change {
	ch := agent.Change{PID: pid}
	for _, e := range slices.Backward(gone) {
		ch.Unmount = append(ch.Unmount, "/"+e.Target)
		if e.Create() != "" {
			ch.Remove = append(ch.Remove, "/"+e.Target)
		}
	}
	for _, l := range links {
		if strings.HasPrefix(l.Path, "/dev/") && !slices.Contains(want, l) {
			ch.Remove = append(ch.Remove, l.Path)
		}
	}
	return ch
}

// binds are mount entries as liblxc would have carried them out at the start.
func binds(entries []liblxc.Entry) []agent.Bind {
	var out []agent.Bind
	for _, e := range entries {
		out = append(out, agent.Bind{Source: e.Source, Target: "/" + e.Target, Create: e.Create(), Flags: e.Flags(nil)})
	}
	return out
}

// join has the helper process change mounts.
func (c *Container) join(ctx context.Context, ch agent.Change) error {
	if len(ch.Unmount)+len(ch.Remove)+len(ch.Mount) == 0 {
		return nil
	}
	data, err := json.Marshal(ch)
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return c.Sandbox.Output(ctx, bytes.NewReader(data), c.Sandbox.Inside(sandbox.ProbePath), "join")
}

// rules changes the device cgroup by what the two lists differ in.
func (c *Container) rules(ctx context.Context, was, is []liblxc.Rule) error {
	for _, r := range was {
		if r.Allow && r.Major >= 0 && !slices.Contains(is, r) {
			if err := c.setRule(ctx, "devices.deny", r); err != nil {
				return err
			}
		}
	}
	for _, r := range is {
		if r.Allow && !slices.Contains(was, r) {
			if err := c.setRule(ctx, "devices.allow", r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Container) setRule(ctx context.Context, file string, r liblxc.Rule) error {
	return c.Sandbox.Output(ctx, nil, c.prog.cgroup, "-P", c.Sandbox.Inside(c.Sandbox.Prefix()), "-n", c.Name, file, r.String())
}
