package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/hook/stage"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
)

// A Container is a simulated container.
type Container struct {
	sim      *Sim
	config   target.Config
	image    *image.Image
	root     *tree.Tree // outlives runs; nil: removed
	readOnly bool
	fresh    bool // the root is as in the image
	journal  journal

	running  *view // nil: not running
	file     hookspec.File
	conf     liblxc.Conf
	warnings []hookspec.Warning // of the hook, when it last applied file
	lines    []string
}

var _ target.Container = (*Container)(nil)

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer that liblxc or the hook would give.
func (c *Container) Start(_ context.Context, h target.Host, p plan.Plan) error {
	if err := target.Startable(c.running != nil, c.root == nil); err != nil {
		return err
	}
	e, err := c.emit(p)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	c.warnings = nil
	err = c.start(h, e)
	c.fresh = false
	if err != nil {
		c.running = nil
		c.postStop()
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	return nil
}

// take makes e the configuration in force.
func (c *Container) take(e emission) { c.lines, c.conf, c.file = e.lines, e.conf, e.hook }

// start goes through the stages in liblxc's order (start.c, lxc_setup).
func (c *Container) start(h target.Host, e emission) error {
	if err := c.preStart(e); err != nil {
		return err
	}
	s := c.space()
	if err := c.mountDev(s); err != nil {
		return err
	}
	m := mounter{space: s, host: h.Root, made: e.made}
	if c.sim.oci != "" {
		m.flags = c.ociFlags
	}
	for _, entry := range c.conf.Mounts {
		if err := m.mount(entry); err != nil {
			return fmt.Errorf("%s: %w", c.sim.mountWord(), err)
		}
	}
	if err := c.makeOCINodes(&m, e.nodes); err != nil {
		return err
	}
	c.running = &view{mountNS: s, conf: &c.conf, manager: c.sim.manager(), cgroup: liblxc.NewCgroup(c.conf.Devices), groups: c.groups()}
	if c.hooks("mount") || c.hooks("start-host") {
		if err := c.hook(s, stage.Apply, c.cacheKey(h)); err != nil {
			return fmt.Errorf("lxc.hook: %w", err)
		}
	}
	return nil
}

// preStart has the hook make mount points. Where the new configuration does not
// run it, because the plan has nothing for it to do, the target itself has it take
// back what earlier starts left, by the old hook file: a container manager's duty
// when a device goes.
func (c *Container) preStart(e emission) (err error) {
	hooked := len(e.conf.Hooks["pre-start"])+len(e.conf.Hooks["start-host"])+len(e.conf.Hooks["mount"]) > 0
	if !hooked && c.file.Version != 0 {
		err = c.hook(c.space(), stage.Clean, "")
	}
	c.take(e)
	if hooked {
		err = c.hook(c.space(), stage.Prepare, "")
	}
	if err != nil {
		return fmt.Errorf("lxc.hook.pre-start: %w", err)
	}
	return nil
}

// mountDev mounts the fresh /dev. LXC makes the folder where the image has none.
func (c *Container) mountDev(s *mountNS) error {
	if _, err := c.root.Entry("/dev"); err != nil && !c.readOnly {
		if err := c.root.Mkdir("/dev", 0o755); err != nil {
			return fmt.Errorf("mkdir /dev: %w", err)
		}
	}
	dev := c.sim.dev.Clone()
	top, err := dev.Entry("/")
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	s.add(&mount{target: "/dev", src: entry{top}, fstype: "tmpfs", own: true})
	return nil
}

// space returns the container's root with nothing mounted on it.
func (c *Container) space() *mountNS {
	var flags []string
	if c.readOnly {
		flags = []string{"ro"}
	}
	return newMountNS(c.root, flags)
}

func (c *Container) hooks(name string) bool { return len(c.conf.Hooks[name]) > 0 }

// groups are those of the first process. liblxc before 6.0.6 sets none where it
// made a user namespace (start.c, do_start).
func (c *Container) groups() []uint32 {
	if len(c.conf.UIDs) > 0 && c.sim.oci == "" && !c.sim.version.MappedGroups() {
		return nil
	}
	return c.conf.Groups
}

// Warnings is part of target.Container.
func (c *Container) Warnings() ([]hookspec.Warning, error) { return c.warnings, nil }

// Observe is part of target.Container.
func (c *Container) Observe(_ context.Context, r observe.Request) (observe.Observation, error) {
	if c.running == nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, target.ErrNotRunning)
	}
	r.Manager = c.sim.engine
	var o observe.Observation
	c.running.still(func() { o = observe.Look(c.running, r) })
	return o, nil
}

// Stop is part of target.Container.
func (c *Container) Stop(context.Context) error {
	if c.running == nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, target.ErrNotRunning)
	}
	c.running = nil
	return c.postStop()
}

// postStop is what liblxc's monitor has done after every end of a container.
func (c *Container) postStop() error {
	if !c.hooks("post-stop") {
		return nil
	}
	return c.hook(c.space(), stage.Finish, "")
}

// Crash is part of target.Container: the mounts are gone with the kernel, and
// what was made in the root stays.
func (c *Container) Crash(context.Context) error {
	if c.running == nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, target.ErrNotRunning)
	}
	c.running = nil
	return nil
}

// Running is part of target.Container.
func (c *Container) Running() bool { return c.running != nil }

// Configuration is part of target.Container.
func (c *Container) Configuration() string {
	if len(c.lines) == 0 {
		return ""
	}
	return strings.Join(c.lines, "\n") + "\n"
}

// Remove is part of target.Container.
func (c *Container) Remove(context.Context) error {
	c.running, c.root = nil, nil
	return nil
}
