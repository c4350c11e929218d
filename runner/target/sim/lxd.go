package sim

import (
	"context"
	"path"
	"strings"

	"gpurig/core/emit/lxd"
	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
	"gpurig/runner/target/lxdconf"
)

// hostRoot makes package lxd describe nodes by number, as it does for a real
// target on a fake machine. It is no part of any path here.
const hostRoot = "/host"

// emitLXD writes the configuration of an instance, has the model of LXD make
// lines for liblxc of it, and reads those as liblxc would.
func (c *Container) emitLXD(p plan.Plan, resolve func(string) (string, error)) (emission, error) {
	config, err := lxd.Emit(p, lxd.Options{
		IDMap: c.config.IDMap, Container: c.config.Name, HostRoot: hostRoot, LXCVersion: c.sim.version,
		HookPath: hookPath, HookFile: path.Join(hookDir, c.config.Name+".json"), Resolve: resolve,
	})
	if err != nil {
		return emission{}, err
	}
	dirs := map[string]bool{}
	for _, m := range p.Mounts {
		dirs[m.Source] = m.Dir
	}
	for _, d := range config.Devices {
		if source, ok := d["source"]; ok {
			d["source"] = strings.TrimPrefix(source, hostRoot)
		}
	}
	lines, made, err := lxdconf.Lines(c.config.Name, c.config.Cgroup, c.config.IDMap, config.Devices, func(s string) bool { return dirs[s] })
	if err != nil {
		return emission{}, err
	}
	all := append(append(lxdconf.Base(c.config.Cgroup, c.config.IDMap), lines...), config.Raw.Lines()...)
	conf, err := liblxc.Parse(all, c.config.Cgroup, c.sim.version)
	if err != nil {
		return emission{}, err
	}
	e := emission{lines: all, conf: conf, hook: config.Hook}
	e.made = makeNodes(made)
	return e, nil
}

// An lxdContainer is a Container of a simulated LXD. LXD starts no container and touches
// no device when it is started again: it finds what liblxc's monitors run, and mounts
// what it had mounted. Nodes, which it has in memory, are made anew at each start.
type lxdContainer struct{ *Container }

var _ target.Served = lxdContainer{}

// Daemon is part of target.Served.
func (c lxdContainer) Daemon() any { return c.sim }

// RestartDaemon is part of target.Served: what runs is as it was.
func (lxdContainer) RestartDaemon(context.Context) error { return nil }

// RebootHost is part of target.Served: containers were stopped or lost before.
func (lxdContainer) RebootHost(context.Context, bool) error { return nil }
