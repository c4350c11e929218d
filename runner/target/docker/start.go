package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/emit/oci"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/agent"
	"gpurig/runner/target/sandbox"
)

// stopSeconds is how long a container may take to stop.
const stopSeconds = 20

// A request is a plan in Docker's words.
type request struct {
	Config *container.Config
	Host   *container.HostConfig
	amend  agent.Amendment
	edits  oci.Edits
	make   []plan.Node // nodes to be made: Path is where on the host
}

// text is what the engine is given, as a person can read it.
func (r request) text() (string, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return string(data) + "\n", err
}

// emit writes a plan for Docker. The error is a refusal of package core/emit/oci, or
// target.ErrBroken.
func (c *Container) emit(ctx context.Context, h target.Host, p plan.Plan) (request, error) {
	prefix, err := c.engine.Host(ctx, h, p)
	if err != nil {
		return request{}, errors.Join(target.ErrBroken, err)
	}
	root, done, err := c.root()
	if err != nil {
		return request{}, errors.Join(target.ErrBroken, err)
	}
	defer done()
	edits, err := oci.Emit(p, oci.Options{
		IDMap: c.config.IDMap, Container: c.config.Name, HostRoot: prefix,
		NodesDir: c.inside("nodes"), HookPath: c.engine.Inside(sandbox.HookPath), HookFile: c.inside("hook/file.json"),
		Resolve: func(p string) (string, error) { return sandbox.Resolve(root, p) },
	})
	if err != nil {
		return request{}, err
	}
	r := c.base()
	r.edits, r.make = edits, edits.Make
	r.Config.Env = append(r.Config.Env, edits.Env...)
	for _, g := range edits.Groups {
		r.Host.GroupAdd = append(r.Host.GroupAdd, fmt.Sprint(g))
	}
	r.mounts(edits.Mounts)
	if len(c.config.IDMap) == 0 {
		c.devices(&r, p.Nodes, prefix)
	} else {
		r.rules(edits.Rules)
	}
	c.hooks(&r)
	return r, nil
}

// base is a container without devices. Docker's own limits are as an ordinary
// container has them.
func (c *Container) base() request {
	stop := stopSeconds
	return request{
		Config: &container.Config{
			Image: c.image, Hostname: c.config.Name, StopSignal: "SIGTERM", StopTimeout: &stop,
			Cmd: []string{observe.OwnDir + "/probe", "init", observe.OwnDir},
			Env: []string{"container=docker", "PATH=/sbin:/usr/sbin:/bin:/usr/bin"},
		},
		Host: &container.HostConfig{
			NetworkMode: noNetwork, Runtime: runtime, ReadonlyRootfs: c.content.ReadOnly,
			DNS:       []netip.Addr{}, // not the machine's
			Resources: container.Resources{CgroupParent: "/" + c.engine.Prefix()},
			Mounts:    []mount.Mount{{Type: mount.TypeBind, Source: c.inside("own"), Target: observe.OwnDir, ReadOnly: true}},
		},
		amend: agent.Amendment{Options: map[string][]string{}},
	}
}

// mounts asks for bind mounts and tmpfs. The options that Docker has no word for go
// to the runtime.
func (r *request) mounts(list []rspec.Mount) {
	for _, m := range list {
		one := mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Destination, ReadOnly: slices.Contains(m.Options, "ro")}
		for _, o := range m.Options {
			if slices.Contains([]string{"private", "rprivate", "slave", "rslave"}, o) {
				one.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(o)}
			}
		}
		if m.Type == "tmpfs" {
			one.Type, one.Source = mount.TypeTmpfs, ""
		}
		r.Host.Mounts = append(r.Host.Mounts, one)
		r.amend.Options[m.Destination] = m.Options
	}
}

// devices asks for nodes: those of the host, or ones that are made for the
// container alone, since Docker gives a node the mode and owner that it has on
// the host. A node without a rule gets one to make it, which every container has.
func (c *Container) devices(r *request, list []plan.Node, prefix string) {
	for _, n := range list {
		source := prefix + n.Source
		if n.Own {
			source = c.inside("nodes") + n.Path
			made := n
			made.Path = source
			r.make = append(r.make, made)
		}
		access := "m"
		if n.Permissions != "" {
			access = strings.ReplaceAll(n.Permissions, "m", "")
		}
		r.Host.Devices = append(r.Host.Devices, container.DeviceMapping{PathOnHost: source, PathInContainer: n.Path, CgroupPermissions: access})
	}
}

func (r *request) rules(list []rspec.LinuxDeviceCgroup) {
	for _, d := range list {
		r.Host.DeviceCgroupRules = append(r.Host.DeviceCgroupRules, fmt.Sprintf("%s %d:%d %s", d.Type, *d.Major, *d.Minor, d.Access))
	}
}

// hooks has the runtime run cdi-hook: before each start, and as OCI hook. It is
// told the root: in a user namespace it may not read the bundle of containerd.
func (c *Container) hooks(r *request) {
	file := c.inside("hook/file.json")
	run := func(stage string) []string {
		return []string{c.engine.Inside(sandbox.HookPath), "--stage", stage, "--root", agent.RootArg, file}
	}
	if r.edits.Hooks == nil {
		if c.hooked { // what is left of an earlier start goes
			r.amend.Before = run("clean")
		}
		return
	}
	r.amend.Before = run("prepare")
	r.amend.Hooks = map[string][]agent.Hook{}
	for stage, list := range map[string][]rspec.Hook{"createContainer": r.edits.Hooks.CreateContainer, "poststop": r.edits.Hooks.Poststop} {
		for _, h := range list {
			r.amend.Hooks[stage] = append(r.amend.Hooks[stage], agent.Hook{
				Path: h.Path, Args: append([]string{h.Args[0], "--root", agent.RootArg}, h.Args[1:]...),
			})
		}
	}
}

// root is the container's root as it is now, or is going to be when the engine
// has made it.
func (c *Container) root() (host.Root, func(), error) {
	if c.ctr == nil {
		root := c.content.Tree.Clone()
		return root, func() {}, image.DockerRoot(root)
	}
	dir, err := c.engine.rootDir(c.ctr.GetContainerID())
	if err != nil {
		return nil, nil, err
	}
	root, err := osroot.New(dir)
	if err != nil {
		return nil, nil, err
	}
	return root, func() { root.Close() }, nil
}

// rootDir is where the storage driver has a container's root.
func (e *engine) rootDir(id string) (string, error) {
	data := e.Outside(dataDir)
	if e.kind.mapped {
		data = filepath.Join(data, fmt.Sprintf("%d.%d", subids[0].Host, subids[0].Host))
	}
	name, err := os.ReadFile(filepath.Join(data, "image/vfs/layerdb/mounts", id, "mount-id"))
	if err != nil {
		return "", err
	}
	return filepath.Join(data, "vfs/dir", string(name)), nil
}

// prepare writes what a start needs: nodes, the hook file, and the amendment.
func (c *Container) prepare(r request) error {
	if err := os.RemoveAll(c.outside("nodes")); err != nil { // anew for each start
		return err
	}
	if err := c.engine.MakeNodes(r.make); err != nil {
		return err
	}
	if r.edits.Hooks == nil {
		return nil
	}
	data, err := r.edits.Hook.Marshal()
	if err != nil {
		return err
	}
	at := c.outside("hook/file.json")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := target.ForgetWarnings(at); err != nil {
		return err
	}
	c.hooked = true
	return os.WriteFile(at, data, 0o644)
}

// writeAmendment writes what our runtime reads.
func (c *Container) writeAmendment(a agent.Amendment) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(c.amendment(), data, 0o600)
}

func (c *Container) amendment() string {
	return c.engine.Outside(filepath.Join(amendDir, c.ctr.GetContainerID()+".json"))
}
