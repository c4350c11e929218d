package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
	"gpurig/runner/target"
	"gpurig/runner/target/oci"
)

// injects reports whether an engine of this version injects CDI devices. It does
// from 25.0, where the feature is asked for.
//
// Reference: https://docs.docker.com/build/building/cdi/
func injects(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 25
}

// An Injection is a start in which the engine itself injects devices, as "docker
// run --device vendor/class=name" asks.
type Injection struct {
	Specs   []*specs.Spec // what the host has in its spec directories; their hooks are left out
	Devices []string      // qualified names
	Plan    plan.Plan     // what cdi-hook does in place of the Specs' hooks
}

// StartCDI starts the container with what the engine makes of the Specs. The error
// is a *target.CannotError where the engine is too old.
func (c *Container) StartCDI(ctx context.Context, h target.Host, in Injection) error {
	switch {
	case c.removed:
		return errRemoved
	case c.line != nil:
		return errRunning
	case !injects(c.engine.version):
		return &target.CannotError{Target: "docker",
			Why:  fmt.Sprintf("not applicable: engine %s injects no CDI devices: Docker does from 25.0", c.engine.version),
			Hint: "install a newer Docker, or give it the plan as devices, mounts and environment"}
	}
	r, err := c.emit(ctx, h, in.Plan)
	if err != nil {
		return err
	}
	base := c.base()
	r.Config, r.Host, r.amend.Options, r.make = base.Config, base.Host, nil, nil
	r.Host.DeviceRequests = []container.DeviceRequest{{Driver: "cdi", DeviceIDs: in.Devices}}
	if err := c.writeSpecs(ctx, h, in.Specs); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	if err := c.launch(ctx, r); err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	return nil
}

// writeSpecs writes copies of the Specs whose host paths are those of the world.
func (c *Container) writeSpecs(ctx context.Context, h target.Host, list []*specs.Spec) error {
	prefix, err := c.engine.Host(ctx, h, oci.Named(list))
	if err != nil {
		return err
	}
	for i, s := range list {
		s, err := oci.Moved(s, h.Root, prefix, "")
		if err != nil {
			return err
		}
		s.ContainerEdits.Hooks = nil
		for i := range s.Devices {
			s.Devices[i].ContainerEdits.Hooks = nil
		}
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		at := c.engine.Outside(filepath.Join(cdiDir, fmt.Sprintf("%s-%d.json", c.name, i)))
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
