package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/device"
	"gpurig/core/emit/oci"
	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
)

// What an OCI runtime does otherwise than liblxc, seen with runc 1.1.5 and crun
// 1.8.1:
//
//   - Without an id map, nodes are no mounts: the runtime makes them in its /dev,
//     after the mounts, with mode and owner as asked.
//   - Every flag that a bind mount asks for is set, except by crun in a user
//     namespace: there a mount that is not read-only has none.
//   - Additional groups are set in a user namespace too.
//   - Nothing is plugged into a running container.

// emitOCI writes the edits and reads them as a runtime would, in the words that
// the rest of this package has: an engine's call of the hook before the start is
// its pre-start hook, createContainer its mount hook.
func (c *Container) emitOCI(p plan.Plan, resolve func(string) (string, error)) (emission, error) {
	edits, err := oci.Emit(p, oci.Options{
		IDMap: c.config.IDMap, Container: c.config.Name,
		NodesDir: nodesDir, HookPath: hookPath, HookFile: path.Join(hookDir, c.config.Name+".json"),
		Resolve: resolve,
	})
	if err != nil {
		return emission{}, err
	}
	var spec rspec.Spec
	edits.Apply(&spec)
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return emission{}, errors.Join(target.ErrBroken, err)
	}
	conf := liblxc.Conf{Env: edits.Env, Groups: edits.Groups, UIDs: c.config.IDMap, GIDs: c.config.IDMap, Hooks: map[string][]string{}}
	for _, m := range edits.Mounts {
		e := liblxc.Entry{Source: m.Source, Target: strings.TrimPrefix(m.Destination, "/"), Type: m.Type, Options: slices.Clone(m.Options)}
		if strings.HasPrefix(m.Destination, "/dev/") { // where no hook has made it
			e.Options = append(e.Options, "create="+pointKind(p, m.Destination))
		}
		conf.Mounts = append(conf.Mounts, e)
	}
	conf.Devices = append(conf.Devices, liblxc.Rule{Major: -1, Minor: -1, Perms: "rwm"})
	for _, r := range edits.Rules {
		conf.Devices = append(conf.Devices, liblxc.Rule{Allow: r.Allow, Type: device.Type(r.Type), Major: *r.Major, Minor: *r.Minor, Perms: r.Access})
	}
	if h := edits.Hooks; h != nil {
		run := []string{hookPath}
		conf.Hooks["pre-start"], conf.Hooks["post-stop"] = run, run
		if len(h.CreateContainer) > 0 {
			conf.Hooks["mount"] = run
		}
	}
	e := emission{lines: strings.Split(string(text), "\n"), conf: conf, hook: edits.Hook, made: makeNodes(edits.Make)}
	for _, d := range edits.Devices {
		e.nodes = append(e.nodes, plan.Node{
			Path: d.Path, Type: device.Type(d.Type), Num: device.Num{Major: uint32(d.Major), Minor: uint32(d.Minor)},
			Mode: *d.FileMode, UID: *d.UID, GID: *d.GID,
		})
	}
	return e, nil
}

// pointKind is that of the mount point that a runtime makes: as the source is.
func pointKind(p plan.Plan, at string) string {
	for _, m := range p.Mounts {
		if m.Target == at && m.Dir {
			return "dir"
		}
	}
	return "file"
}

// ociFlags are the flags of a finished bind mount. A bind takes those of its source;
// the runtime mounts again, with the entry's alone, where that has any.
func (c *Container) ociFlags(e liblxc.Entry, source []string) []string {
	asked := slices.ContainsFunc(e.Options, func(o string) bool {
		return slices.Contains([]string{"ro", "nosuid", "nodev", "noexec"}, o)
	})
	if !asked || c.sim.oci == "crun" && len(c.config.IDMap) > 0 && !e.Has("ro") {
		return source
	}
	return askedFlags(e)
}

// askedFlags are the flags that an entry names, "rw" among them as the lack of ro.
func askedFlags(e liblxc.Entry) []string {
	var out []string
	for _, o := range e.Options {
		switch o {
		case "ro", "nosuid", "nodev", "noexec":
			out = append(out, o)
		case "rw":
			out = slices.DeleteFunc(out, func(f string) bool { return f == "ro" })
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// makeOCINodes makes nodes in the container's own /dev.
func (c *Container) makeOCINodes(m *mounter, list []plan.Node) error {
	for _, n := range list {
		if err := m.mkdirAll(path.Dir(n.Path)); err != nil {
			return fmt.Errorf("device %s: %w", n.Path, err)
		}
		d, err := m.space.own(path.Dir(n.Path))
		if err == nil {
			for _, e := range makeNodes([]plan.Node{n}) {
				err = d.put(path.Base(n.Path), e)
			}
		}
		if err != nil {
			return fmt.Errorf("device %s: %w", n.Path, err)
		}
	}
	return nil
}

// manager is what a container manager of this kind calls itself.
func (s *Sim) manager() string {
	if s.oci != "" {
		return "oci"
	}
	return "lxc"
}

// mountWord is how such a manager calls a mount.
func (s *Sim) mountWord() string {
	if s.oci != "" {
		return "mount"
	}
	return "lxc.mount.entry"
}

// errNoPlug is why nothing is plugged into such a container.
func (s *Sim) errNoPlug() error {
	why := "not applicable: no OCI runtime adds devices or mounts to a running container, or takes them away"
	if s.engine != "" {
		why = "not applicable: an engine such as Docker fixes a container's devices and mounts when it creates it"
	}
	return &target.CannotError{Target: s.Name(), Why: why, Hint: "use a target of system containers, such as sim"}
}
