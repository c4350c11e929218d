package sim

import (
	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/target/liblxc"
)

// Paths of the host that a real target would choose for itself. They are only
// text here.
const (
	hookPath = "/usr/lib/gpurig/cdi-hook"
	nodesDir = "/run/gpurig/nodes/"
	hookDir  = "/run/gpurig/hooks/"
)

// An emission is a plan in liblxc's words, and as liblxc reads them.
type emission struct {
	lines []string
	conf  liblxc.Conf
	hook  hookspec.File
	made  map[string]*tree.Entry // nodes of the container's own, by path on the host
}

func (c *Container) emit(p plan.Plan) (emission, error) {
	lines := liblxc.Base(c.config.Cgroup)
	f := hookspec.File{Version: 1, Container: c.config.Name, LibraryDirs: p.LibraryDirs}
	e := emission{made: map[string]*tree.Entry{}}
	key := liblxc.DeviceKey(c.config.Cgroup)
	for _, n := range p.Nodes {
		src := n.Source
		lines = append(lines, "lxc.mount.entry = "+src+" "+n.Path[1:]+" none bind,create=file 0 0")
		if n.Permissions != "" {
			lines = append(lines, key+".allow = "+string(n.Type)+" "+n.Num.String()+" "+n.Permissions)
		}
	}
	for _, m := range p.Mounts {
		lines = append(lines, "lxc.mount.entry = "+m.Source+" "+m.Target[1:]+" none "+join(m.Options)+" 0 0")
		f.MountPoints = append(f.MountPoints, hookspec.MountPoint{Path: m.Target, Dir: m.Dir})
	}
	for _, l := range p.Links {
		f.Links = append(f.Links, hookspec.Link{Path: l.Path, Target: l.Target})
	}
	for _, v := range p.Env {
		lines = append(lines, "lxc.environment = "+v.Name+"="+v.Value)
	}
	for _, h := range []string{"pre-start", "start-host", "post-stop"} {
		lines = append(lines, "lxc.hook."+h+" = "+hookPath+" "+hookDir+c.config.Name+".json")
	}
	conf, err := liblxc.Parse(lines, c.config.Cgroup)
	e.lines, e.conf, e.hook = lines, conf, f
	return e, err
}

func join(o []string) string {
	s := ""
	for i, v := range o {
		if i > 0 {
			s += ","
		}
		s += v
	}
	return s
}
