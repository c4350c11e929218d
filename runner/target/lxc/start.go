package lxc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/host/osroot"
	"gpurig/core/lxc"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/world"
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
	prefix, err := c.world.Host(ctx, h, p)
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.outside("rootfs"))
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	config, err := lxc.Emit(p, lxc.Options{
		Cgroup: c.config.Cgroup, IDMap: c.config.IDMap, Container: c.name, HostRoot: prefix, LXCVersion: c.world.prog.version,
		NodesDir: c.inside("nodes"), HookPath: c.world.Inside(world.HookPath), HookFile: c.inside("hook/file.json"),
		Resolve: func(p string) (string, error) { return world.Resolve(root, p) },
	})
	if err != nil {
		return emission{}, err
	}
	lines := append(liblxc.Base(c.config.Cgroup, c.config.IDMap), config.Lines...)
	conf, err := liblxc.Parse(lines, c.config.Cgroup, c.world.prog.version)
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
	err := c.makeNodes(e.make)
	if err == nil {
		err = c.writeHook(e)
	}
	if err == nil {
		err = os.WriteFile(c.outside("config"), []byte(c.Configuration()), 0o644)
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return nil
}

// ownLines are what differs from container to container.
func (c *Container) ownLines() []string {
	root, group := "rootfs", c.world.Prefix()+"/"+c.name
	if c.readOnly {
		root = "ro"
	}
	return []string{
		"lxc.uts.name = " + c.config.Name,
		"lxc.rootfs.path = dir:" + c.inside(root),
		"lxc.apparmor.profile = unconfined",
		"lxc.cgroup.dir.container = " + group,
		"lxc.cgroup.dir.monitor = " + group + ".monitor",
		"lxc.cgroup.dir.monitor.pivot = " + group + ".pivot",
		"lxc.init.cmd = " + observe.OwnDir + "/probe init " + observe.OwnDir,
		"lxc.mount.entry = " + c.inside("own") + " " + strings.TrimPrefix(observe.OwnDir, "/") + " none bind,ro,create=dir 0 0",
	}
}

// hooked reports whether the configuration runs the hook before the start.
func hooked(conf liblxc.Conf) bool {
	return len(conf.Hooks["pre-start"])+len(conf.Hooks["start-host"])+len(conf.Hooks["mount"]) > 0
}

// tidy has the hook take back what earlier starts left, where the configuration
// itself does not: a container manager's duty when a device goes.
func (c *Container) tidy(ctx context.Context, e emission) error {
	if !c.hooks || hooked(e.conf) && len(e.conf.Hooks["pre-start"]) > 0 {
		return nil
	}
	if hooked(e.conf) {
		if err := c.writeHook(e); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		return c.hook(ctx, "--stage", "prepare", "--root", c.rootInside())
	}
	if err := c.hook(ctx, "--stage", "clean", "--root", c.rootInside()); err != nil {
		return err
	}
	c.hooks = false
	return nil
}

func (c *Container) rootInside() string {
	if c.readOnly {
		return c.inside("ro")
	}
	return c.inside("rootfs")
}

// hook runs cdi-hook by hand.
func (c *Container) hook(ctx context.Context, args ...string) error {
	return c.world.Output(ctx, nil, c.world.Inside(world.HookPath), append(args, c.inside("hook/file.json"))...)
}

// writeHook writes the hook file. It only trusts one that root alone can change.
func (c *Container) writeHook(e emission) error {
	if e.hook.Version == 0 || !hooked(e.conf) && !c.hooks {
		return nil
	}
	data, err := e.hook.Marshal()
	if err != nil {
		return err
	}
	at := c.outside("hook/file.json")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	c.hooks = true
	return os.WriteFile(at, data, 0o600)
}

// makeNodes makes the nodes of the container's own, anew for each start: what an
// earlier one did to them is gone.
func (c *Container) makeNodes(list []plan.Node) error {
	if err := os.RemoveAll(c.outside("nodes")); err != nil {
		return err
	}
	return c.world.MakeNodes(list)
}

// rootView mounts a read-only view of the root, once, for an image that cannot
// be changed.
func (c *Container) rootView(ctx context.Context) error {
	if !c.readOnly || c.bound {
		return nil
	}
	if err := c.world.ReadOnlyView(ctx, c.dir+"/rootfs", c.dir+"/ro"); err != nil {
		return err
	}
	c.bound = true
	return nil
}
