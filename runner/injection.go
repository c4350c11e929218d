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

// unnamed says what of the wishes cannot be said by names of CDI devices; empty:
// everything can.
func unnamed(wishes []wish) string {
	for _, x := range wishes {
		switch {
		case len(x.sel.GPUs) > 0:
			return fmt.Sprintf("device %s has no CDI name", x.name)
		case x.req.UID != nil || x.req.GID != nil || x.req.Mode != nil:
			return fmt.Sprintf("device %s asks for an owner or mode, which a CDI name does not", x.name)
		}
	}
	return ""
}

// injection is what the plan was made of, as Specs and names.
func (w *walked) injection() target.Injection {
	var in target.Injection
	for _, src := range w.sources {
		s := *src.Spec
		s.Devices = slices.DeleteFunc(slices.Clone(s.Devices), func(d specs.Device) bool {
			return !slices.ContainsFunc(w.found, func(f cdi.Device) bool {
				return f.Where == src.Where && f.Name.String() == s.Kind+"="+d.Name
			})
		})
		if len(s.Devices) > 0 {
			in.Specs = append(in.Specs, &s)
		}
	}
	for _, f := range w.found {
		in.Devices = append(in.Devices, f.Name.String())
	}
	return in
}

// started hands the container what it is to start with: a plan or, where its manager
// injects CDI devices itself, their names.
func (c *container) started(real target.Container, ctx context.Context, h target.Host, p plan.Plan) error {
	i, ok := real.(target.Injector)
	if !ok || len(c.devices) == 0 {
		return real.Start(ctx, h, p)
	}
	if c.got.unnamed != "" {
		return &target.CannotError{Target: "CDI by name", Why: "not applicable: " + c.got.unnamed, Hint: "use a target that is given plans"}
	}
	return i.Inject(ctx, h, c.got.injection(), p)
}
