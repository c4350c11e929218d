package oci

import (
	"cmp"
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/device"
	"gpurig/core/place"
	"gpurig/core/plan"
)

// options checks the options, and fills in what they leave open.
func (e *emitter) options(p plan.Plan) {
	e.opts.Container = cmp.Or(e.opts.Container, "container")
	own := len(e.opts.IDMap) > 0 && slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Own })
	e.Dir(ReasonOption, "host root", e.opts.HostRoot, false)
	e.Dir(ReasonOption, "nodes directory", e.opts.NodesDir, own)
}

// nodes writes devices or, for a container with an id map, mounts.
func (e *emitter) nodes(list []plan.Node) {
	for _, n := range list {
		if !strings.HasPrefix(n.Path, "/dev/") || !place.Clean(n.Path) {
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
	if !place.Clean(source) {
		e.Refuse(ReasonEdit, target, "source %q is not an absolute, clean path", source)
	}
	e.edits.Mounts = append(e.edits.Mounts, rspec.Mount{Destination: target, Type: "bind", Source: source, Options: options})
}

// mounts writes the mounts, and which mount points the hook makes.
func (e *emitter) mounts(list []plan.Mount) {
	below := func(at string) bool { return strings.HasPrefix(at, "/dev/") }
	for _, m := range e.Mounts(list, ReasonEdit, below) {
		for _, o := range m.Options {
			if !m.Option(o) {
				e.Refuse(ReasonEdit, m.Target, "mount option %q is not allowed", o)
			}
		}
		options := slices.Clone(m.Options)
		if m.Type != "" {
			e.edits.Mounts = append(e.edits.Mounts, rspec.Mount{Destination: m.Real, Type: m.Type, Source: m.Source, Options: options})
			continue
		}
		if !slices.Contains(options, "bind") {
			options = append(options, "bind")
		}
		e.bind(e.opts.HostRoot+m.Source, m.Real, options)
	}
}

// rules writes one exact rule for each device (A30).
func (e *emitter) rules(list []plan.Node) {
	for _, r := range place.Rules(list) {
		major, minor := int64(r.Num.Major), int64(r.Num.Minor)
		e.edits.Rules = append(e.edits.Rules, rspec.LinuxDeviceCgroup{Allow: true, Type: string(r.Type), Major: &major, Minor: &minor, Access: r.Access})
	}
}

func (e *emitter) environment(list []plan.Var) {
	for _, v := range list {
		if v.Name == "" || strings.ContainsAny(v.Name, "= \t") || !place.Exact(v.Name) || !place.Exact(v.Value) {
			e.Refuse(ReasonEdit, "process.env", "%q is not a variable", v.Name)
			continue
		}
		e.edits.Env = append(e.edits.Env, v.Name+"="+v.Value)
	}
}

// hook fills in the hook file and the hooks that run cdi-hook, if there is
// anything for it to do.
func (e *emitter) hook(p plan.Plan) {
	apply, run := e.File(p, e.opts.Container, e.opts.Spec)
	if !run {
		return
	}
	for _, arg := range []struct{ name, value string }{{"hook path", e.opts.HookPath}, {"hook file", e.opts.HookFile}} {
		if !place.Clean(arg.value) {
			e.Refuse(ReasonOption, arg.name, "%q: want an absolute, clean path", arg.value)
		}
	}
	hooks := []rspec.Hook{{Path: e.opts.HookPath, Args: []string{"cdi-hook", "--oci", e.opts.HookFile}}}
	e.edits.Hooks = &rspec.Hooks{Poststop: hooks}
	if apply {
		e.edits.Hooks.CreateContainer = slices.Clone(hooks)
	}
}
