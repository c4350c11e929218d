package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	specs "tags.cncf.io/container-device-interface/specs-go"

	corecdi "gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/oci"
)

// injects reports whether an engine of this version injects CDI devices. It does
// from 25.0, where the feature is asked for; 26.1 has it off by itself, 28.5 on.
//
// Reference: https://docs.docker.com/build/building/cdi/
func injects(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 25
}

// tooOld is why an engine cannot be asked for CDI devices; nil: it can.
func tooOld(version string) error {
	if injects(version) {
		return nil
	}
	return fmt.Errorf("engine %s is too old: Docker injects CDI devices from 25.0; put a newer dockerd and containerd first on the path, or use target docker: %w", version, target.ErrBroken)
}

// A named container is one whose devices the engine itself injects, as "docker run
// --device vendor/class=name" asks.
type named struct{ *Container }

var _ target.Injector = named{}

// Inject is part of target.Injector.
func (c named) Inject(ctx context.Context, h target.Host, in target.Injection, p plan.Plan) error {
	if why := beyond(in.Specs, p); why != "" {
		return &target.CannotError{Target: "docker-cdi", Why: "not applicable: " + why, Hint: "use target docker"}
	}
	return c.inject(ctx, h, in, p, "")
}

// beyond says what of the Specs an engine does otherwise than the plan, where no
// words of a Spec would make it do the same; empty: nothing.
func beyond(list []*specs.Spec, p plan.Plan) string {
	for _, s := range list {
		for _, e := range oci.AllEdits(s) {
			for _, n := range e.DeviceNodes {
				if n.Permissions == "none" {
					return n.Path + " has permissions none, with which Docker to 28.5 takes a Spec for malformed"
				}
			}
			for _, m := range e.Mounts {
				i := slices.IndexFunc(p.Mounts, func(to plan.Mount) bool { return sameTarget(m, to) })
				switch {
				case i < 0:
					return m.ContainerPath + " is no mount in the plan"
				case !slices.Contains(m.Options, "ro") && slices.Contains(p.Mounts[i].Options, "ro"):
					return m.ContainerPath + " is read-only by the plan, and not by the Spec"
				}
			}
		}
	}
	return ""
}

// sameTarget reports whether a plan has a mount of a Spec, for a host with a merged
// usr perhaps.
func sameTarget(m *specs.Mount, to plan.Mount) bool {
	return to.Target == m.ContainerPath || to.Target == "/usr"+m.ContainerPath
}

// inject starts the container with what the engine makes of the Specs. vendor is
// the program that their hooks run; empty: cdi-hook does the plan in their place.
func (c *Container) inject(ctx context.Context, h target.Host, in target.Injection, p plan.Plan, vendor string) error {
	if err := target.Startable(c.line != nil, c.removed); err != nil {
		return err
	}
	r, err := c.emit(ctx, h, p)
	if err != nil {
		return err
	}
	hooks := r.edits.Hooks
	if vendor != "" {
		hooks, r.edits.Hooks, r.amend.Before = nil, nil, nil
		if err := c.install(vendor); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
	}
	base := c.base()
	groups := r.Host.GroupAdd
	r.Config, r.Host, r.amend.Options, r.amend.Hooks, r.make = base.Config, base.Host, nil, nil, nil
	names, err := c.writeSpecs(ctx, h, in, p, hooks, vendor != "")
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	if vendor == "" {
		// An engine before the one that https://github.com/moby/moby/pull/52579 is in
		// forgets the additionalGids of Specs (seen with 26.1 and 28.5).
		r.Host.GroupAdd = groups
	}
	r.Host.DeviceRequests = []container.DeviceRequest{{Driver: "cdi", DeviceIDs: names}}
	if err := c.launch(ctx, r); err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	return nil
}

// vendorHook is where the vendor's program is, below the scratch directory.
const vendorHook = "bin/vendor-hook"

func (c *Container) install(program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return os.WriteFile(c.engine.Outside(vendorHook), data, 0o755)
}

// writeSpecs writes copies of the Specs into the engine's directory, with host
// paths of the sandbox, and returns the names to ask for. Many hosts share the engine,
// and their devices have the same names: kinds get one of this container's, and of
// the content, so that a Spec which the engine has read does not change.
func (c *Container) writeSpecs(ctx context.Context, h target.Host, in target.Injection, p plan.Plan, hooks *rspec.Hooks, vendors bool) ([]string, error) {
	prefix, err := c.engine.Host(ctx, h, oci.Files(in.Specs))
	if err != nil {
		return nil, err
	}
	var list []*specs.Spec
	for i, s := range in.Specs {
		s, err := oci.Moved(s, nil, prefix, c.engine.Inside(vendorHook))
		if err != nil {
			return nil, err
		}
		if !vendors {
			withoutHooks(s)
			if i == 0 && hooks != nil {
				s.ContainerEdits.Hooks = append(cdiHooks("createContainer", hooks.CreateContainer), cdiHooks("poststop", hooks.Poststop)...)
			}
		}
		if !vendors {
			asPlanned(s, p)
		}
		s.Version = max(s.Version, corecdi.MinimumVersion(s)) // a path on the host takes 0.5.0
		list = append(list, s)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	own := c.name + "-" + hex.EncodeToString(sum[:4]) + "."
	if err := c.removeSpecs(); err != nil {
		return nil, err
	}
	for i, s := range list {
		s.Kind = own + s.Kind
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		at := filepath.Join(c.engine.Outside(cdiDir), fmt.Sprintf("%s-%d.json", c.name, i))
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return nil, err
		}
		c.specs = append(c.specs, at)
	}
	var names []string
	for _, n := range in.Devices {
		names = append(names, own+n)
	}
	return names, nil
}

// asPlanned writes down what a plan has and engines to 28.5 do not look up: mode and
// owner of a node on the host (they make it 0666, of root), and where a host with a
// merged usr has a folder of /lib.
func asPlanned(s *specs.Spec, p plan.Plan) {
	for _, e := range oci.AllEdits(s) {
		for _, n := range e.DeviceNodes {
			for _, as := range p.Nodes {
				if as.Path == n.Path {
					mode := as.Mode.Perm()
					n.FileMode, n.UID, n.GID = &mode, &as.UID, &as.GID
				}
			}
		}
		for _, m := range e.Mounts {
			for _, to := range p.Mounts {
				if sameTarget(m, to) {
					m.ContainerPath = to.Target
				}
			}
		}
	}
}

func (c *Container) removeSpecs() error {
	var errs []error
	for _, at := range c.specs {
		errs = append(errs, os.Remove(at))
	}
	c.specs = nil
	return errors.Join(errs...)
}

func withoutHooks(s *specs.Spec) {
	s.ContainerEdits.Hooks = nil
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		s.Devices[i].ContainerEdits.Hooks = nil
	}
}

func cdiHooks(stage string, list []rspec.Hook) []*specs.Hook {
	var out []*specs.Hook
	for _, h := range list {
		out = append(out, &specs.Hook{HookName: stage, Path: h.Path, Args: h.Args})
	}
	return out
}

// readTime is how long an engine may take to read a Spec that was written.
const readTime = 2 * time.Second

// startCreated starts the engine's container. The engine hears of a new Spec from
// the kernel, a moment after it was written.
func (c *Container) startCreated(ctx context.Context) error {
	for end := time.Now().Add(readTime); ; time.Sleep(20 * time.Millisecond) {
		err := c.ctr.Start(ctx)
		if err == nil || len(c.specs) == 0 || !strings.Contains(err.Error(), "unresolvable CDI devices") || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}
