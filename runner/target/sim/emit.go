package sim

import (
	"errors"
	"io/fs"
	"path"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/target/liblxc"
)

// Paths of the host that a real target would choose for itself. They are only
// text here.
const (
	hookPath = "/usr/lib/gpurig/cdi-hook"
	nodesDir = "/run/gpurig/nodes"
	hookDir  = "/run/gpurig/hooks"
)

// An emission is a plan in liblxc's words, and as liblxc reads them.
type emission struct {
	lines []string
	conf  liblxc.Conf
	hook  hookspec.File
	made  map[string]*tree.Entry // nodes of the container's own, by path on the host
	nodes []plan.Node            // that an OCI runtime makes in /dev
}

// emit writes the configuration and reads it as liblxc would. The error is a
// refusal of package lxc, or liblxc's.
func (c *Container) emit(p plan.Plan) (e emission, err error) {
	emit, s := c.emitLXC, c.space()
	switch {
	case c.sim.oci != "":
		emit = c.emitOCI
	case c.sim.lxd:
		emit = c.emitLXD
	}
	s.still(func() { e, err = emit(p, s.resolveDir) })
	if err == nil && e.hook.Version != 0 { // else there is none
		err = e.hook.Validate() // as a real one is read
	}
	return e, err
}

func (c *Container) emitLXC(p plan.Plan, resolve func(string) (string, error)) (emission, error) {
	config, err := lxc.Emit(p, lxc.Options{
		Cgroup: c.config.Cgroup, IDMap: c.config.IDMap, Container: c.config.Name, LXCVersion: c.sim.version,
		NodesDir: nodesDir, HookPath: hookPath, HookFile: path.Join(hookDir, c.config.Name+".json"),
		Resolve: resolve,
	})
	if err != nil {
		return emission{}, err
	}
	lines := append(liblxc.Base(c.config.Cgroup, c.config.IDMap), config.Entries.Lines()...)
	conf, err := liblxc.Parse(lines, c.config.Cgroup, c.sim.version)
	if err != nil {
		return emission{}, err
	}
	e := emission{lines: lines, conf: conf, hook: config.Hook}
	e.made = makeNodes(config.Make)
	return e, nil
}

// resolveDir returns p with the links of its directories resolved. What does not exist
// is as it stands.
func (s *mountNS) resolveDir(p string) (string, error) {
	dir := path.Dir(p)
	if dir == p {
		return p, nil
	}
	real, err := s.Resolve(dir)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = s.resolveDir(dir)
	}
	return path.Join(real, path.Base(p)), err
}

// makeNodes makes the nodes of the container's own, as entries by path.
func makeNodes(list []plan.Node) map[string]*tree.Entry {
	out := make(map[string]*tree.Entry, len(list))
	for _, n := range list {
		mode := n.Mode.Perm() | fs.ModeDevice
		if n.Type == device.Char {
			mode |= fs.ModeCharDevice
		}
		out[n.Path] = &tree.Entry{Info: host.Info{Mode: mode, UID: n.UID, GID: n.GID, Num: n.Num}}
	}
	return out
}
