package oci

import (
	"cmp"
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/device"
	"gpurig/core/hookspec"
	"gpurig/core/plan"
)

// options checks the options, and fills in what they leave open.
func (e *emitter) options(p plan.Plan) {
	e.opts.Container = cmp.Or(e.opts.Container, "container")
	own := len(e.opts.IDMap) > 0 && slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Own })
	if own && e.opts.NodesDir == "" {
		e.Refuse(ReasonOption, "nodes directory", "is not given, and the plan has nodes of the container's own")
	}
	for _, d := range []struct{ what, at string }{{"host root", e.opts.HostRoot}, {"nodes directory", e.opts.NodesDir}} {
		if d.at != "" && !clean(d.at) {
			e.Refuse(ReasonOption, d.what, "%q is not an absolute, clean path", d.at)
		}
	}
}

// nodes writes devices or, for a container with an id map, mounts.
func (e *emitter) nodes(list []plan.Node) {
	for _, n := range list {
		if !strings.HasPrefix(n.Path, "/dev/") || !clean(n.Path) {
			e.Refuse(ReasonEdit, n.Path, "is not a clean path below /dev")
			continue
		}
		if n.Type != device.Char && n.Type != device.Block || !n.Num.Known() {
			e.Refuse(ReasonEdit, n.Path, "%s %s is not a device with a number", n.Type, n.Num)
			continue
		}
		e.Claim(n.Path, n.Path)
		if len(e.opts.IDMap) > 0 {
			e.bindNode(n)
			continue
		}
		mode, uid, gid := n.Mode.Perm(), n.UID, n.GID
		e.edits.Devices = append(e.edits.Devices, rspec.LinuxDevice{
			Path: n.Path, Type: string(n.Type), Major: int64(n.Num.Major), Minor: int64(n.Num.Minor), FileMode: &mode, UID: &uid, GID: &gid,
		})
	}
}

// bindNode binds the host's node, or one that is made for the container.
func (e *emitter) bindNode(n plan.Node) {
	source := e.opts.HostRoot + n.Source
	if n.Own {
		source = e.opts.NodesDir + n.Path
		made, ok := e.Own(n, source)
		if !ok {
			return
		}
		e.edits.Make = append(e.edits.Make, made)
	}
	e.bind(source, n.Path, []string{"ro", "nosuid", "noexec", "bind"})
}

func (e *emitter) bind(source, target string, options []string) {
	if !clean(source) {
		e.Refuse(ReasonEdit, target, "source %q is not an absolute, clean path", source)
	}
	e.edits.Mounts = append(e.edits.Mounts, rspec.Mount{Destination: target, Type: "bind", Source: source, Options: options})
}

// known are the options that may be written.
var known = []string{"ro", "rw", "nosuid", "nodev", "noexec", "bind", "private", "rprivate", "slave", "rslave"}

// tmpfsOption reports whether a tmpfs alone may have the option.
func tmpfsOption(o string) bool {
	return slices.Contains([]string{"strictatime", "relatime", "noatime"}, o) || strings.HasPrefix(o, "mode=") || strings.HasPrefix(o, "size=")
}

// mounts writes the mounts, and which mount points the hook makes.
func (e *emitter) mounts(list []plan.Mount) {
	type placed struct {
		plan.Mount
		real string
	}
	var all []placed
	for _, m := range list {
		if !clean(m.Target) {
			e.Refuse(ReasonEdit, m.Target, "is not an absolute, clean path")
			continue
		}
		for _, o := range m.Options {
			if !slices.Contains(known, o) && (m.Type != "tmpfs" || !tmpfsOption(o)) {
				e.Refuse(ReasonEdit, m.Target, "mount option %q is none that a plan may have", o)
			}
		}
		all = append(all, placed{m, e.Path(m.Target)})
	}
	// Links of the image may have changed which lies below which.
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Compare(strings.Count(a.real, "/"), strings.Count(b.real, "/"))
	})
	var dirs []string
	for _, m := range all {
		e.Claim(m.real, m.Target)
		inMount := slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(m.real, d+"/") })
		if !strings.HasPrefix(m.real, "/dev/") && !inMount {
			e.Hook.MountPoints = append(e.Hook.MountPoints, hookspec.MountPoint{Path: m.real, Dir: m.Dir})
		}
		if m.Dir {
			dirs = append(dirs, m.real)
		}
		options := slices.Clone(m.Options)
		if m.Type == "tmpfs" {
			e.edits.Mounts = append(e.edits.Mounts, rspec.Mount{Destination: m.real, Type: m.Type, Source: m.Source, Options: options})
			continue
		}
		if !slices.Contains(options, "bind") {
			options = append(options, "bind")
		}
		e.bind(e.opts.HostRoot+m.Source, m.real, options)
	}
}

// rules writes one exact rule for each device (A30).
func (e *emitter) rules(list []plan.Node) {
	type dev struct {
		typ device.Type
		num device.Num
	}
	access := map[dev]string{}
	var order []dev
	for _, n := range list {
		d := dev{n.Type, n.Num}
		for _, c := range []string{"r", "w"} {
			if strings.Contains(n.Permissions, c) && !strings.Contains(access[d], c) {
				access[d] += c
			}
		}
	}
	for d := range access {
		order = append(order, d)
	}
	slices.SortFunc(order, func(a, b dev) int {
		return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.num.Major, b.num.Major), cmp.Compare(a.num.Minor, b.num.Minor))
	})
	for _, d := range order {
		major, minor, allowed := int64(d.num.Major), int64(d.num.Minor), access[d]
		if allowed == "wr" {
			allowed = "rw"
		}
		e.edits.Rules = append(e.edits.Rules, rspec.LinuxDeviceCgroup{Allow: true, Type: string(d.typ), Major: &major, Minor: &minor, Access: allowed})
	}
}

func (e *emitter) environment(list []plan.Var) {
	for _, v := range list {
		if v.Name == "" || strings.ContainsAny(v.Name, "= \t") || !exact(v.Name) || !exact(v.Value) {
			e.Refuse(ReasonEdit, "process.env", "%q is no variable", v.Name)
			continue
		}
		e.edits.Env = append(e.edits.Env, v.Name+"="+v.Value)
	}
}

// hook fills in the hook file and the hooks that run cdi-hook, if there is
// anything for it to do.
func (e *emitter) hook(p plan.Plan) {
	apply, ok := e.File(p, e.opts.Container, e.opts.Spec)
	f := &e.Hook
	if !ok {
		return
	}
	if !apply && len(f.MountPoints) == 0 {
		return
	}
	for _, arg := range []struct{ name, value string }{{"hook path", e.opts.HookPath}, {"hook file", e.opts.HookFile}} {
		if !clean(arg.value) {
			e.Refuse(ReasonOption, arg.name, "%q: want an absolute, clean path", arg.value)
		}
	}
	run := []rspec.Hook{{Path: e.opts.HookPath, Args: []string{"cdi-hook", "--oci", e.opts.HookFile}}}
	e.edits.Hooks = &rspec.Hooks{Poststop: run}
	if apply {
		e.edits.Hooks.CreateContainer = slices.Clone(run)
	}
}
