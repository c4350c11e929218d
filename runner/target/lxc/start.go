package lxc

import (
	"context"
	"errors"
	"os"
	"strings"

	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
	"gpurig/core/host/osroot"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/sandbox"
)

// An emission is a plan in liblxc's words.
type emission struct {
	lines []string
	conf  liblxc.Conf
	hook  hookspec.File
	make  []plan.Node
}

// emit writes a plan for liblxc. The error is a refusal of package lxc, or
// target.ErrBroken.
func (c *Container) emit(ctx context.Context, h target.Host, p plan.Plan) (emission, error) {
	prefix, err := c.Sandbox.Host(ctx, h, p)
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.Outside("rootfs"))
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	config, err := lxc.Emit(p, lxc.Options{
		Cgroup: c.Config.Cgroup, IDMap: c.Config.IDMap, Container: c.Name, HostRoot: prefix, LXCVersion: c.prog.version,
		NodesDir: c.Inside("nodes"), HookPath: c.Sandbox.Inside(sandbox.HookPath), HookFile: c.HookFile(),
		Resolve: func(p string) (string, error) { return sandbox.Resolve(root, p) },
	})
	if err != nil {
		return emission{}, err
	}
	lines := append(liblxc.Base(c.Config.Cgroup, c.Config.IDMap), config.Entries.Lines()...)
	conf, err := liblxc.Parse(lines, c.Config.Cgroup, c.prog.version)
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	return emission{lines: lines, conf: conf, hook: config.Hook, make: config.Make}, nil
}

// install writes everything that liblxc and the hook read.
func (c *Container) install(ctx context.Context, e emission) error {
	if err := c.tidy(ctx, e); err != nil {
		return err
	}
	c.lines, c.conf, c.file = append(c.ownLines(), e.lines...), e.conf, e.hook
	err := c.MakeNodes(e.make)
	if err == nil {
		err = c.writeHook(e)
	}
	if err == nil {
		err = os.WriteFile(c.Outside("config"), []byte(c.Configuration()), 0o644)
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return nil
}

// ownLines are what differs from container to container.
func (c *Container) ownLines() []string {
	group := c.Sandbox.Prefix() + "/" + c.Name
	return []string{
		"lxc.uts.name = " + c.Config.Name,
		"lxc.rootfs.path = dir:" + c.Root(),
		"lxc.apparmor.profile = unconfined",
		"lxc.cgroup.dir.container = " + group,
		"lxc.cgroup.dir.monitor = " + group + ".monitor",
		"lxc.cgroup.dir.monitor.pivot = " + group + ".pivot",
		"lxc.init.cmd = " + observe.OwnDir + "/probe init " + observe.OwnDir,
		"lxc.mount.entry = " + c.Inside("own") + " " + strings.TrimPrefix(observe.OwnDir, "/") + " none bind,ro,create=dir 0 0",
	}
}

// hooked reports whether the configuration runs the hook before the start.
func hooked(conf liblxc.Conf) bool {
	return len(conf.Hooks["pre-start"])+len(conf.Hooks["start-host"])+len(conf.Hooks["mount"]) > 0
}

// tidy has the hook take back what earlier starts left, where the configuration
// itself does not: a container manager's duty when a device goes.
func (c *Container) tidy(ctx context.Context, e emission) error {
	if !c.Hooked || hooked(e.conf) && len(e.conf.Hooks["pre-start"]) > 0 {
		return nil
	}
	if hooked(e.conf) {
		if err := c.writeHook(e); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		return c.Hook(ctx, "--stage", "prepare", "--root", c.Root())
	}
	if err := c.Hook(ctx, "--stage", "clean", "--root", c.Root()); err != nil {
		return err
	}
	c.Hooked = false
	return nil
}

// writeHook writes the hook file. It only trusts one that root alone can change.
func (c *Container) writeHook(e emission) error {
	if e.hook.Version == 0 || !hooked(e.conf) && !c.Hooked {
		return nil
	}
	return c.WriteHook(e.hook, false)
}
