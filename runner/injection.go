package runner

import (
	"context"
	"fmt"
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/runner/target"
)

// unnamed says what of the devices cannot be said by names of CDI devices; empty:
// everything can.
func (p product) unnamed() string {
	for _, r := range p.Requests {
		switch {
		case len(r.Selection.GPUs) > 0:
			return fmt.Sprintf("device %s has no CDI name", r.Device)
		case r.Request.UID != nil || r.Request.GID != nil || r.Request.Mode != nil:
			return fmt.Sprintf("device %s asks for an owner or mode, which a CDI name does not", r.Device)
		}
	}
	return ""
}

// injection is what the plan was made of, as Specs and names.
func (p product) injection() target.Injection {
	var in target.Injection
	for _, src := range p.Sources {
		s := *src.Spec
		s.Devices = slices.DeleteFunc(slices.Clone(s.Devices), func(d specs.Device) bool {
			return !slices.ContainsFunc(p.Devices, func(f cdi.Device) bool {
				return f.Where == src.Where && f.Name.String() == s.Kind+"="+d.Name
			})
		})
		if len(s.Devices) > 0 {
			in.Specs = append(in.Specs, &s)
		}
	}
	for _, f := range p.Devices {
		in.Devices = append(in.Devices, f.Name.String())
	}
	return in
}

// started hands the container what it is to start with: a plan or, where its manager
// injects CDI devices itself, their names.
func (c *container) started(real target.Container, ctx context.Context, h target.Host, p plan.Plan) error {
	i, ok := real.(target.Injector)
	config := c.spec.Expanded()
	if !ok || len(c.devices)+len(config) == 0 {
		return real.Start(ctx, h, p)
	}
	why := c.got.unnamed()
	if len(config) > 0 {
		why = "nvidia.runtime has no CDI name"
	}
	if why != "" {
		return &target.CannotError{Target: "CDI by name", Why: "not applicable: " + why, Hint: "use a target that is given plans"}
	}
	return i.Inject(ctx, h, c.got.injection(), p)
}
