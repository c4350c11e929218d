package lxc

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/hookspec"
	"gpurig/core/plan"
)

// options checks the options, and fills in what they leave open.
func (e *emitter) options(p plan.Plan) {
	o := &e.opts
	if o.Cgroup == "" {
		o.Cgroup = "both"
		if !o.LXCVersion.CgroupV1() {
			o.Cgroup = "v2"
		}
	}
	switch {
	case o.Cgroup != "v1" && o.Cgroup != "v2" && o.Cgroup != "both":
		e.Refuse(ReasonOption, "cgroup", "%s: want v1, v2 or both", cut(o.Cgroup))
	case o.Cgroup != "v2" && !o.LXCVersion.CgroupV1():
		e.Refuse(ReasonOption, "cgroup", "%s: LXC %s knows cgroup v2 alone, and starts nothing from a configuration with a key of v1", o.Cgroup, o.LXCVersion)
	}
	if o.ApplyIn == "" {
		o.ApplyIn = "start-host"
	}
	if o.ApplyIn != "start-host" && o.ApplyIn != "mount" {
		e.Refuse(ReasonOption, "apply-in", "%s: want start-host or mount", cut(o.ApplyIn))
	}
	o.Container = cmp.Or(o.Container, "container")
	own := slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Own })
	e.dir("host root", o.HostRoot, false)
	e.dir("nodes directory", o.NodesDir, own)
}

// dir checks a directory of the host.
func (e *emitter) dir(what, at string, needed bool) {
	switch {
	case at == "" && needed:
		e.Refuse(ReasonOption, what, "is not given, and the plan has nodes of the container's own")
	case at != "" && (!path.IsAbs(at) || path.Clean(at) != at || at == "/"):
		e.Refuse(ReasonOption, what, "%s is not an absolute, clean path", cut(at))
	}
}

// nodes writes a mount entry for each node, and lists those to be made.
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
		e.Claim(n.Path, n.Path)
		e.mount(source, n.Path, "none", []string{"ro", "nosuid", "noexec", "bind", "create=file"})
	}
}

// mounts writes the mount entries, and which mount points must be made.
func (e *emitter) mounts(list []plan.Mount) {
	type placed struct {
		plan.Mount
		real string
	}
	var all []placed
	for _, m := range list {
		if path.Clean(m.Target) != m.Target || !path.IsAbs(m.Target) || m.Target == "/" {
			e.Refuse(ReasonLine, m.Target, "is not an absolute, clean path")
			continue
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
		options := slices.Clone(m.Options)
		if madeByLXC(m.real) {
			kind := "create=file"
			if m.Dir {
				kind = "create=dir"
			}
			options = append(options, kind)
		} else if !insideOf(m.real, dirs) {
			e.Hook.MountPoints = append(e.Hook.MountPoints, hookspec.MountPoint{Path: m.real, Dir: m.Dir})
		}
		for _, o := range m.Options {
			if !known(o) && (m.Type == "" || !knownTmpfs(o)) {
				e.Refuse(ReasonLine, m.Target, "mount option %s is none that a plan may have", cut(o))
			}
		}
		if m.Dir {
			dirs = append(dirs, m.real)
		}
		if m.Type != "" {
			e.mount(m.Source, m.real, m.Type, options)
			continue
		}
		if !slices.Contains(m.Options, "ro") {
			e.note("mounts", "options of "+m.Target, "flags-of-the-host",
				"liblxc sets nosuid, nodev and noexec on read-only mounts only; this one is writable and has the flags that %s has on the host", m.Source)
		}
		e.mount(e.opts.HostRoot+m.Source, m.real, "none", options)
	}
}

// insideOf reports whether at lies below one of dirs: what is mounted there is
// the host's, and nothing can be made in it.
func insideOf(at string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(at, d+"/") })
}

// cgroup writes one exact rule for each device number (A30).
func (e *emitter) cgroup(list []plan.Node) {
	type dev struct {
		typ device.Type
		num device.Num
	}
	rules := map[dev]string{}
	for _, n := range list {
		d := dev{n.Type, n.Num}
		for _, c := range []string{"r", "w"} {
			if strings.Contains(n.Permissions, c) && !strings.Contains(rules[d], c) {
				rules[d] += c
			}
		}
		if n.Type != device.Char && n.Type != device.Block || !n.Num.Known() {
			e.Refuse(ReasonLine, n.Path, "%s %s is not a device with a number", n.Type, n.Num)
		}
	}
	var devs []dev
	for d := range rules {
		devs = append(devs, d)
	}
	slices.SortFunc(devs, func(a, b dev) int {
		return cmp.Or(-cmp.Compare(a.typ, b.typ), cmp.Compare(a.num.Major, b.num.Major), cmp.Compare(a.num.Minor, b.num.Minor))
	})
	for _, key := range cgroupKeys(e.opts.Cgroup) {
		for _, d := range devs {
			permissions := rules[d]
			if permissions == "wr" {
				permissions = "rw"
			}
			e.line(key+".devices.allow", fmt.Sprintf("%s %d:%d %s", d.typ, d.num.Major, d.num.Minor, permissions))
		}
	}
}

func cgroupKeys(version string) []string {
	switch version {
	case "v1":
		return []string{"lxc.cgroup"}
	case "v2":
		return []string{"lxc.cgroup2"}
	}
	return []string{"lxc.cgroup", "lxc.cgroup2"}
}

// DeviceBase returns the lines that a container's own configuration needs before
// those of Emit: all devices denied, then those that every container has.
// cgroup is "v1", "v2" or "both".
func DeviceBase(cgroup string) []string {
	var out []string
	for _, key := range cgroupKeys(cgroup) {
		out = append(out, key+".devices.deny = a")
		for _, rule := range []string{
			"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", // null zero full random urandom
			"c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm", // tty console ptmx pts
		} {
			out = append(out, key+".devices.allow = "+rule)
		}
	}
	return out
}

func (e *emitter) environment(list []plan.Var) {
	key := "lxc.environment"
	if e.opts.LXCVersion.RuntimeEnvironment() { // and no hook
		key = "lxc.environment.runtime"
	}
	for _, v := range list {
		if v.Name == "" || strings.ContainsAny(v.Name, "= \t") {
			e.Refuse(ReasonLine, key, "%s is no name of a variable", cut(v.Name))
			continue
		}
		e.line(key, v.Name+"="+v.Value)
	}
}

func (e *emitter) groups(list []uint32) {
	if len(list) == 0 {
		return
	}
	var ids []string
	for _, g := range list {
		ids = append(ids, strconv.FormatUint(uint64(g), 10))
	}
	value := strings.Join(ids, ",")
	if !e.opts.LXCVersion.InitGroups() {
		e.note("additionalGids", "additional groups "+value, "groups-need-newer-lxc",
			"LXC %s has no lxc.init.groups; the container's root does not need the groups to open the nodes", e.opts.LXCVersion)
		return
	}
	if len(e.opts.IDMap) > 0 && !e.opts.LXCVersion.MappedGroups() {
		e.note("additionalGids", "additional groups "+value, "groups-not-with-idmap",
			"liblxc before 6.0.6 ignores lxc.init.groups in a container with an id map; the container's root does not need the groups to open nodes of its own")
	}
	e.line("lxc.init.groups", value)
}

// hook fills in the hook file and writes the lines that run cdi-hook, if there
// is anything for it to do.
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
		if !plain(arg.value) || !path.IsAbs(arg.value) || path.Clean(arg.value) != arg.value {
			e.Refuse(ReasonOption, arg.name, "%s: want an absolute, clean path of letters, digits and /._- (liblxc gives it to a shell)", cut(arg.value))
		}
	}
	e.config.Hooked = true
	command := e.opts.HookPath + " " + e.opts.HookFile
	e.line("lxc.hook.version", "1")
	// A mount hook in an id map runs as the container's root and cannot write the
	// journal: the stage before notes ahead what it is going to make.
	noteAhead := e.opts.ApplyIn == "mount" && len(e.opts.IDMap) > 0
	if len(f.MountPoints) > 0 || noteAhead {
		e.line("lxc.hook.pre-start", command)
	}
	if apply {
		e.line("lxc.hook."+e.opts.ApplyIn, command)
	}
	e.line("lxc.hook.post-stop", command)
}
