package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/emit/oci"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/runner/target"
)

// An Injection is a start by the CDI reference implementation, as engines do it.
type Injection struct {
	// Specs are what the host has in its spec directories.
	Specs []*specs.Spec
	// Devices are qualified names, as podman run --device takes them.
	Devices []string
	// Annotations ask for further devices, as containerd and CRI-O take them:
	// keys that begin with "cdi.k8s.io/".
	Annotations map[string]string
	// VendorHook is the program that hooks of the Specs run; empty: they are
	// dropped, and cdi-hook does the work of Plan in their place.
	VendorHook string
	Plan       plan.Plan
}

// vendorHook is where the vendor's program is, below the scratch directory.
const vendorHook = "bin/vendor-hook"

// Inject starts the container with what the reference implementation makes of
// the Specs. An error that is not target.ErrBroken is the answer of the library,
// the runtime or a hook.
func (c *Container) Inject(ctx context.Context, h target.Host, in Injection) error {
	return c.Begin(func() error {
		prefix, err := c.Sandbox.Host(ctx, h, Named(in.Specs))
		if err == nil && in.VendorHook != "" {
			err = c.install(in.VendorHook)
		}
		if err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		dir := c.Outside("cdi")
		if err := c.writeSpecs(dir, h.Root, prefix, in); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
		if err != nil {
			return err
		}
		_, asked, err := cdi.ParseAnnotations(in.Annotations)
		if err != nil {
			return err
		}
		spec := c.base()
		if missing, err := cache.InjectDevices(spec, append(asked, in.Devices...)...); err != nil {
			return fmt.Errorf("inject %q: %w", missing, err)
		}
		if in.VendorHook == "" {
			if err := c.takeOver(ctx, h, in.Plan, spec); err != nil {
				return err
			}
		}
		return c.launch(ctx, spec)
	})
}

// takeOver has cdi-hook do what p asks for inside the root, and no other hook.
func (c *Container) takeOver(ctx context.Context, h target.Host, p plan.Plan, spec *rspec.Spec) error {
	edits, err := c.emit(ctx, h, p)
	if err != nil {
		return err
	}
	if err := c.tidy(ctx, edits); err != nil {
		return err
	}
	spec.Hooks = nil
	oci.Edits{Hooks: edits.Hooks}.Apply(spec)
	return nil
}

// Files is Named with the device nodes.
func Files(list []*specs.Spec) plan.Plan {
	p := Named(list)
	for _, s := range list {
		for _, e := range AllEdits(s) {
			for _, n := range e.DeviceNodes {
				p.Nodes = append(p.Nodes, plan.Node{Path: n.Path, Source: cmp.Or(n.HostPath, n.Path)})
			}
		}
	}
	return p
}

// Named is a plan of the files of the host that Specs name.
func Named(list []*specs.Spec) plan.Plan {
	var p plan.Plan
	for _, s := range list {
		for _, e := range AllEdits(s) {
			for _, m := range e.Mounts {
				if !isBind(m) {
					continue
				}
				p.Mounts = append(p.Mounts, plan.Mount{Source: m.HostPath})
			}
		}
	}
	return p
}

// isBind reports whether a mount is of a path of the host.
func isBind(m *specs.Mount) bool { return m.Type == "" || m.Type == "bind" || m.Type == "none" }

// AllEdits are the edits of a Spec, those of each device among them.
func AllEdits(s *specs.Spec) []*specs.ContainerEdits {
	out := []*specs.ContainerEdits{&s.ContainerEdits}
	for i := range s.Devices {
		out = append(out, &s.Devices[i].ContainerEdits)
	}
	return out
}

// install copies the vendor's program into the sandbox.
func (c *Container) install(program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Sandbox.Outside(vendorHook), data, 0o755)
}

// writeSpecs writes copies of the Specs whose host paths are those of the sandbox.
// The library would look for a node's number at its path on the host, which is
// no path of ours: it is filled in as the library does.
func (c *Container) writeSpecs(dir string, root host.Root, prefix string, in Injection) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	for i, s := range in.Specs {
		moved, err := Moved(s, root, prefix, c.Sandbox.Inside(vendorHook))
		if err != nil {
			return err
		}
		if err := cache.WriteSpec(moved, fmt.Sprintf("spec-%d.json", i)); err != nil {
			return err
		}
	}
	return cache.Refresh()
}

// Moved returns a copy of s for a host whose files lie below prefix, and whose
// hooks run another program. What nodes lack is filled in from root; nil: whoever
// reads the copy finds it below prefix.
func Moved(s *specs.Spec, root host.Root, prefix, hook string) (*specs.Spec, error) {
	out := *s
	edits, err := movedEdits(&s.ContainerEdits, root, prefix, hook)
	if err != nil {
		return nil, err
	}
	out.ContainerEdits = *edits
	out.Devices = nil
	for _, d := range s.Devices {
		edits, err := movedEdits(&d.ContainerEdits, root, prefix, hook)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d.Name, err)
		}
		d.ContainerEdits = *edits
		out.Devices = append(out.Devices, d)
	}
	return &out, nil
}

func movedEdits(e *specs.ContainerEdits, root host.Root, prefix, hook string) (*specs.ContainerEdits, error) {
	out := *e
	out.DeviceNodes, out.Mounts, out.Hooks = nil, nil, nil
	for _, n := range e.DeviceNodes {
		d := *n
		if d.HostPath == "" {
			d.HostPath = d.Path
		}
		if root != nil {
			if err := fill(&d, root); err != nil {
				return nil, err
			}
		}
		d.HostPath = filepath.Join(prefix, d.HostPath)
		out.DeviceNodes = append(out.DeviceNodes, &d)
	}
	for _, m := range e.Mounts {
		d := *m
		if isBind(m) {
			d.HostPath = filepath.Join(prefix, d.HostPath)
		}
		out.Mounts = append(out.Mounts, &d)
	}
	for _, k := range e.Hooks {
		d := *k
		if d.HookName != "startContainer" { // that one is a path of the container
			d.Path = hook
		}
		out.Hooks = append(out.Hooks, &d)
	}
	return &out, nil
}

// fill fills in what a Spec left out of a node, from the host's.
func fill(d *specs.DeviceNode, root host.Root) error {
	known := d.Type != "" && (d.Major != 0 || d.Type == "p")
	info, err := root.Lstat(d.HostPath)
	if err != nil || !info.IsDevice() {
		if known {
			return nil
		}
		return fmt.Errorf("%s: no device node of the host (%v)", d.HostPath, err)
	}
	if d.FileMode == nil {
		mode := info.Mode.Perm()
		d.FileMode = &mode
	}
	if known {
		return nil
	}
	d.Type = string(info.DeviceType())
	if d.Major == 0 {
		d.Major, d.Minor = int64(info.Num.Major), int64(info.Num.Minor)
	}
	return nil
}
