package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/hook/stage"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
)

// Plug is part of target.Container: mounts into the running container, rules of
// its device cgroup, links and library cache by the hook. Environment and
// groups of a running process cannot be changed, and are not.
func (c *Container) Plug(_ context.Context, h target.Host, p plan.Plan) error {
	return c.change("plug", h, p)
}

// Unplug is part of target.Container.
func (c *Container) Unplug(_ context.Context, h target.Host, p plan.Plan) error {
	return c.change("unplug", h, p)
}

// change makes the running container fit p: what leaves goes first, then comes
// what is new, so that a mount point can change hands.
func (c *Container) change(verb string, h target.Host, p plan.Plan) error {
	if c.running == nil {
		return fmt.Errorf("%s %s: %w", verb, c.config.Name, target.ErrNotRunning)
	}
	if c.sim.oci != "" {
		return c.sim.errNoPlug()
	}
	e, err := c.emit(p)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.config.Name, err)
	}
	gone, added := liblxc.Changes(c.conf.Mounts, e.conf.Mounts)
	if slices.ContainsFunc(added, func(m liblxc.Entry) bool { return m.Type == "tmpfs" }) {
		return &target.CannotError{Target: c.sim.Name(), Why: "not applicable: a tmpfs is mounted when the container starts", Hint: "start the container with the device"}
	}
	c.dropLinks(e.hook.Links)
	e.conf.Env, e.conf.Groups = c.conf.Env, c.conf.Groups
	c.take(e)
	if err := c.carryOut(h, e, gone, added); err != nil {
		return fmt.Errorf("%s %s: %w", verb, c.config.Name, err)
	}
	return nil
}

func (c *Container) carryOut(h target.Host, e emission, gone, added []liblxc.Entry) error {
	s := c.running.mountNS
	for i := len(gone) - 1; i >= 0; i-- {
		c.unmount(s, gone[i])
	}
	// On the root itself, where nothing is mounted: a folder in use as a mount
	// point could not be entered through its mount.
	if err := c.hook(c.space(), stage.Prepare, ""); err != nil {
		return err
	}
	m := mounter{space: s, host: h.Root, made: e.made}
	for _, entry := range added {
		if err := m.mount(entry); err != nil {
			return fmt.Errorf("lxc.mount.entry: %w", err)
		}
	}
	c.running.conf, c.running.cgroup = &c.conf, liblxc.NewCgroup(c.conf.Devices)
	return c.hook(s, stage.Apply, "")
}

// dropLinks removes links below /dev that are not wanted any more. The hook
// takes back what it made in the root; the running container's /dev is none of
// it and would have gone with the container.
func (c *Container) dropLinks(want []hookspec.Link) {
	r := c.rootIn(c.running.mountNS)
	for _, l := range c.file.Links {
		if strings.HasPrefix(l.Path, "/dev/") && !slices.Contains(want, l) {
			_, _ = r.RemoveLink(l.Path, l.Target)
		}
	}
}

// unmount takes an entry back, with the mount point that create= made for it
// below /dev: it is nothing without the mount.
func (c *Container) unmount(s *mountNS, e liblxc.Entry) {
	to, err := targetOf(e)
	if err != nil || !s.remove(to) || e.Create() == "" {
		return
	}
	_, _ = c.rootIn(s).removeIf(to, func(e *tree.Entry) bool {
		return e.Mode.IsRegular() && len(e.Data) == 0 || e.Mode.IsDir() && len(e.Children) == 0
	})
}
