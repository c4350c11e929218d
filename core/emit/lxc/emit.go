package lxc

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/place"
	"gpurig/core/plan"
)

// options checks the options, and fills in what they leave open.
func (e *emitter) options(p plan.Plan) {
	o := &e.opts
	keys, err := DeviceKeys(o.Cgroup, o.LXCVersion)
	if err != nil {
		e.Refuse(ReasonOption, "cgroup", "%v", err)
	}
	e.deviceKeys = keys
	o.ApplyIn = cmp.Or(o.ApplyIn, "start-host")
	if o.ApplyIn != "start-host" && o.ApplyIn != "mount" {
		e.Refuse(ReasonOption, "apply-in", "%+.256q: want start-host or mount", o.ApplyIn)
	}
	o.Container = cmp.Or(o.Container, "container")
	own := slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Own })
	e.Dir(ReasonOption, "host root", o.HostRoot, false)
	e.Dir(ReasonOption, "nodes directory", o.NodesDir, own)
}

// nodes adds a mount entry for each node, and lists those to be made.
func (e *emitter) nodes(list []plan.Node) {
	for _, n := range list {
		source := e.opts.HostRoot + n.Source
		if n.Own {
			// The path below NodesDir is the node's own, so no two share a name.
			source = e.opts.NodesDir + n.Path
			if made, ok := e.Own(n, source); ok {
				e.config.Make = append(e.config.Make, made)
			}
		}
		if !strings.HasPrefix(n.Path, "/dev/") || path.Clean(n.Path) != n.Path {
			e.Refuse(ReasonLine, n.Path, "is not a clean path below /dev")
			continue
		}
		if n.Type != device.Char && n.Type != device.Block || !n.Num.Known() {
			e.Refuse(ReasonLine, n.Path, "%s %s is not a device with a number", n.Type, n.Num)
		}
		e.Claim(n.Path, n.Path)
		e.add("lxc.mount.entry", Mount{Node: &n, Source: source, Target: n.Path, Type: "none", Options: []string{"ro", "nosuid", "noexec", "bind"}, Create: "file"})
	}
}

// mounts adds the mount entries, and which mount points must be made.
func (e *emitter) mounts(list []plan.Mount) {
	for _, m := range e.Mounts(list, ReasonLine, madeByLXC) {
		for _, o := range m.Options {
			if !m.Option(o) {
				e.Refuse(ReasonLine, m.Target, "mount option %+.256q is not allowed", o)
			}
		}
		entry := Mount{Source: m.Source, Target: m.Real, Type: m.Type, Options: m.Options}
		if madeByLXC(m.Real) {
			entry.Create = "file"
			if m.Dir {
				entry.Create = "dir"
			}
		}
		if m.Type == "" {
			entry.Source, entry.Type = e.opts.HostRoot+m.Source, "none"
			if !slices.Contains(m.Options, "ro") {
				e.note("mounts", "options of "+m.Target, ReasonHostFlags,
					"liblxc sets nosuid, nodev and noexec on read-only mounts only; this one is writable and has the flags that %s has on the host", m.Source)
			}
		}
		e.add("lxc.mount.entry", entry)
	}
}

// madeByLXC reports whether liblxc may make the mount point: it follows links of
// the image, and /dev is the only place that has none (A13).
func madeByLXC(at string) bool { return strings.HasPrefix(at, "/dev/") }

// cgroup adds one exact rule for each device, character devices first (A30).
func (e *emitter) cgroup(list []plan.Node) {
	rules := place.Rules(list)
	slices.SortStableFunc(rules, func(a, b place.Rule) int { return cmp.Compare(b.Type, a.Type) })
	for _, key := range e.deviceKeys {
		for _, r := range rules {
			e.add(key+".allow", Rule(r))
		}
	}
}

func (e *emitter) environment(list []plan.Var) {
	key := "lxc.environment"
	if e.opts.LXCVersion.RuntimeEnvironment() { // and no hook
		key = "lxc.environment.runtime"
	}
	for _, v := range list {
		if v.Name == "" || strings.ContainsAny(v.Name, "= \t") {
			e.Refuse(ReasonLine, key, "%+.256q is not the name of a variable", v.Name)
			continue
		}
		e.add(key, Var(v))
	}
}

func (e *emitter) groups(list Groups) {
	if len(list) == 0 {
		return
	}
	what := "additional groups " + list.String()
	if !e.opts.LXCVersion.InitGroups() {
		e.note("additionalGids", what, ReasonGroupsNewer,
			"LXC %s has no lxc.init.groups; the container's root does not need the groups to open the nodes", e.opts.LXCVersion)
		return
	}
	if len(e.opts.IDMap) > 0 && !e.opts.LXCVersion.MappedGroups() {
		e.note("additionalGids", what, ReasonGroupsIDMap,
			"liblxc before 6.0.6 ignores lxc.init.groups in a container with an id map; the container's root does not need the groups to open nodes of its own")
	}
	e.add("lxc.init.groups", list)
}

// hook fills in the hook file and adds the entries that run cdi-hook, if there
// is anything for it to do.
func (e *emitter) hook(p plan.Plan) {
	apply, run := e.File(p, e.opts.Container, e.opts.Spec)
	if !run {
		return
	}
	for _, arg := range []struct{ name, value string }{{"hook path", e.opts.HookPath}, {"hook file", e.opts.HookFile}} {
		if !plain(arg.value) || !path.IsAbs(arg.value) || path.Clean(arg.value) != arg.value {
			e.Refuse(ReasonOption, arg.name, "%+.256q: want an absolute, clean path of letters, digits and /._- (liblxc gives it to a shell)", arg.value)
		}
	}
	e.config.Hooked = true
	command := Command{e.opts.HookPath, e.opts.HookFile}
	e.add("lxc.hook.version", Text("1"))
	// A mount hook in an id map runs as the container's root and cannot write the
	// journal: the stage before notes ahead what it is going to make.
	noteAhead := e.opts.ApplyIn == "mount" && len(e.opts.IDMap) > 0
	if len(e.Hook.MountPoints) > 0 || noteAhead {
		e.add("lxc.hook.pre-start", command)
	}
	if apply {
		e.add("lxc.hook."+e.opts.ApplyIn, command)
	}
	e.add("lxc.hook.post-stop", command)
}

// plain reports whether s can stand on a line that a shell reads (A24).
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("/._-", rune(c)) {
			return false
		}
	}
	return s != ""
}
