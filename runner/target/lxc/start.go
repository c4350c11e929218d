package lxc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/hookspec"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/lxc"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
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
	prefix, err := c.world.host(ctx, h, p)
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.outside("rootfs"))
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	config, err := lxc.Emit(p, lxc.Options{
		Cgroup: c.config.Cgroup, IDMap: c.config.IDMap, Container: c.config.Name, HostRoot: prefix,
		NodesDir: c.inside("nodes"), HookPath: c.world.keep.inside(hookPath), HookFile: c.inside("hook/file.json"),
		Resolve: func(p string) (string, error) { return resolve(root, p) },
	})
	if err != nil {
		return emission{}, err
	}
	lines := append(liblxc.Base(c.config.Cgroup, c.config.IDMap), config.Lines...)
	conf, err := liblxc.Parse(lines, c.config.Cgroup)
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	return emission{lines: lines, conf: conf, hook: config.Hook, make: config.Make}, nil
}

// resolve returns p with the links of its directories resolved in the root. What
// does not exist is as it stands.
func resolve(root host.Root, p string) (string, error) {
	dir := path.Dir(p)
	if dir == p {
		return p, nil
	}
	real, err := host.Resolve(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = resolve(root, dir)
	}
	return path.Join(real, path.Base(p)), err
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
	root, group := "rootfs", c.world.keep.prefix+"/"+c.name
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
	return c.world.keep.output(ctx, nil, c.world.keep.inside(hookPath), append(args, c.inside("hook/file.json"))...)
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
	return c.addNodes(list)
}

// addNodes makes those that are not there yet.
func (c *Container) addNodes(list []plan.Node) error {
	for _, n := range list {
		rel, err := filepath.Rel(c.inside(""), n.Path)
		if err != nil {
			return err
		}
		at := c.outside(rel)
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		mode := uint32(unix.S_IFBLK)
		if n.Type == device.Char {
			mode = unix.S_IFCHR
		}
		if err := unix.Mknod(at, mode|0o600, int(unix.Mkdev(n.Num.Major, n.Num.Minor))); err != nil {
			return &os.PathError{Op: "mknod", Path: at, Err: err}
		}
		if err := errors.Join(os.Chown(at, int(n.UID), int(n.GID)), os.Chmod(at, n.Mode.Perm())); err != nil {
			return err
		}
	}
	return nil
}

// Programs of the base system, for the one mount that a read-only root needs.
const (
	shell  = "/bin/sh"
	umount = "/bin/umount"
)

// rootView mounts a read-only view of the root, once, for an image that cannot
// be changed.
func (c *Container) rootView(ctx context.Context) error {
	if !c.readOnly || c.bound {
		return nil
	}
	if err := os.MkdirAll(c.outside("ro"), 0o755); err != nil {
		return err
	}
	script := fmt.Sprintf("mount --bind %[1]s %[2]s && mount -o remount,bind,ro %[2]s", c.inside("rootfs"), c.inside("ro"))
	if err := c.world.keep.output(ctx, nil, "/usr/bin/env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", shell, "-c", script); err != nil {
		return err
	}
	c.bound = true
	return nil
}
