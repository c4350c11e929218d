package lxd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/emit/lxd"
	"gpurig/core/hookspec"
	"gpurig/core/host/osroot"
	"gpurig/core/plan"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// An emission is a plan in LXD's words.
type emission struct {
	devices map[string]lxdapi.Device
	raw     []string
	hook    hookspec.File
	hooked  bool
	text    string // for people
}

// emit writes a plan for LXD. The error is a refusal of package core/emit/lxd, or
// target.ErrBroken.
func (c *Container) emit(ctx context.Context, h target.Host, p plan.Plan) (emission, error) {
	if c.own != nil {
		return emission{devices: c.own, text: deviceText(c.own)}, nil
	}
	prefix, err := c.server.Host(ctx, h, p)
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.server.Outside(rootDir(c.name)))
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	config, err := lxd.Emit(p, lxd.Options{
		IDMap: c.config.IDMap, Container: c.name, HostRoot: prefix, LXCVersion: c.server.liblxc(), Manager: c.server.api.Server().Flavour.Title(),
		HookPath: c.server.Inside(sandbox.HookPath), HookFile: c.inside("hook/file.json"),
		Resolve: func(p string) (string, error) { return sandbox.Resolve(root, p) },
	})
	if err != nil {
		return emission{}, err
	}
	e := emission{raw: config.Raw.Lines(), hook: config.Hook, hooked: config.Hooked, text: config.Text(), devices: map[string]lxdapi.Device{}}
	for name, d := range config.Devices {
		e.devices[name] = lxdapi.Device(d)
	}
	return e, nil
}

// instance is the whole configuration: the plan's, and what every container of
// ours has.
func (c *Container) instance(e emission) lxdapi.Instance {
	group := c.server.Prefix() + "/" + c.name
	raw := []string{
		"lxc.log.level = DEBUG", // only at this level liblxc tells what a hook said
		"lxc.cgroup.dir.container = " + group,
		"lxc.cgroup.dir.monitor = " + group + ".monitor",
		"lxc.cgroup.dir.monitor.pivot = " + group + ".pivot",
		"lxc.signal.halt = SIGPWR", // liblxc takes a Go program, which handles all signals, for systemd
		"lxc.init.cmd = " + observe.OwnDir + "/probe init " + observe.OwnDir,
		"lxc.mount.entry = " + c.inside("own") + " " + strings.TrimPrefix(observe.OwnDir, "/") + " none bind,ro,create=dir 0 0",
	}
	if c.readOnly {
		// LXD takes away what is mounted on the root, until it starts liblxc, which
		// alone says where that is.
		raw = append(raw, `lxc.hook.pre-start = /bin/sh -c 'r=${LXC_ROOTFS_PATH#dir:} && mount --bind "$r" "$r" && mount -o remount,bind,ro "$r"'`)
	}
	raw = append(raw, e.raw...)
	devices := map[string]lxdapi.Device{"root": {"type": "disk", "path": "/", "pool": c.server.Prefix()}}
	for name, d := range e.devices {
		devices[name] = d
	}
	config := map[string]string{
		"raw.lxc": strings.Join(raw, "\n"), "security.privileged": fmt.Sprint(len(c.config.IDMap) == 0), "boot.autostart": "false",
	}
	if c.own != nil {
		maps.Copy(config, c.config.Options)
	}
	if c.nesting || c.config.Nesting {
		config["security.nesting"] = "true"
	}
	if c.nesting {
		devices["machine"] = lxdapi.Device{"type": "disk", "source": "/usr", "path": Machine + "/usr", "readonly": "true"}
	}
	return lxdapi.Instance{Config: config, Devices: devices}
}

// runsFirst reports whether the hook runs before everything else at a start.
func (e emission) runsFirst() bool { return len(e.hook.MountPoints) > 0 }

// tidy has the hook take back what earlier starts left, where the configuration
// itself does not: a container manager's duty when a device goes.
func (c *Container) tidy(ctx context.Context, e emission) error {
	if !c.hooks || e.hooked && e.runsFirst() {
		return nil
	}
	if e.hooked {
		if err := c.writeHook(e); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		return c.hook(ctx, "--stage", "prepare", "--root", c.rootByHand())
	}
	if err := c.hook(ctx, "--stage", "clean", "--root", c.rootByHand()); err != nil {
		return err
	}
	c.hooks = false
	return nil
}

func (c *Container) rootByHand() string { return c.server.ByHand(rootDir(c.name)) }

// hook runs cdi-hook by hand.
func (c *Container) hook(ctx context.Context, args ...string) error {
	return c.server.Output(ctx, nil, c.server.ByHand(sandbox.HookPath), append(args, c.server.ByHand(c.dir+"/hook/file.json"))...)
}

// writeHook writes the hook file. It only trusts one that root alone can change.
func (c *Container) writeHook(e emission) error {
	if e.hook.Version == 0 || !e.hooked && !c.hooks {
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
	if err := target.ForgetWarnings(at); err != nil {
		return err
	}
	c.hooks = true
	return os.WriteFile(at, data, 0o600)
}

// kill ends a container whose first process is pid: liblxc's monitor, which is
// its parent, and then itself.
func kill(pid int) error {
	monitor, err := parent(pid)
	if err != nil {
		return err
	}
	for _, p := range []int{monitor, pid} {
		if err := unix.Kill(p, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return err
		}
	}
	for wait := time.Millisecond; ; wait *= 2 {
		if err := unix.Kill(pid, 0); err == unix.ESRCH {
			return nil
		}
		if wait > 10*time.Second {
			return fmt.Errorf("process %d does not end", pid)
		}
		time.Sleep(wait)
	}
}

// A monitor is liblxc's process that runs a container's hooks, by its pidfd.
type monitor struct{ *os.File }

// monitorOf returns that of the container whose first process is pid.
func monitorOf(pid int) (monitor, error) {
	of, err := parent(pid)
	if err != nil {
		return monitor{}, err
	}
	fd, err := unix.PidfdOpen(of, 0)
	if err != nil {
		return monitor{}, fmt.Errorf("liblxc's monitor, process %d: %w", of, err)
	}
	return monitor{os.NewFile(uintptr(fd), "liblxc's monitor")}, nil
}

// wait waits for its end, for as long as a container may take to stop.
func (m monitor) wait() error {
	defer m.Close()
	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(m.Fd()), Events: unix.POLLIN}}, stopSeconds*1000)
	}
	if err == nil && n == 0 {
		err = fmt.Errorf("still runs hooks after %d seconds", stopSeconds)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name(), err)
	}
	return nil
}

// parent is a process's parent. Only liblxc's monitor is ever killed as one.
func parent(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// "PID (NAME) STATE PPID …", and a name may have anything in it.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
	var state string
	var ppid int
	if _, err := fmt.Sscan(rest, &state, &ppid); err != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", ppid))
	if err != nil {
		return 0, err
	}
	if !strings.HasPrefix(string(cmdline), "[lxc monitor]") {
		return 0, fmt.Errorf("the parent of the container's first process is %q, not liblxc's monitor", cmdline)
	}
	return ppid, nil
}

// deviceText is devices as "lxc config edit" shows them.
func deviceText(devices map[string]lxdapi.Device) string {
	var b strings.Builder
	b.WriteString("devices:\n")
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		fmt.Fprintf(&b, "  %s:\n", name)
		for _, k := range slices.Sorted(maps.Keys(devices[name])) {
			fmt.Fprintf(&b, "    %s: %q\n", k, devices[name][k])
		}
	}
	return b.String()
}
