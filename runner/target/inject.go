package target

import (
	"context"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
)

// An Injection is what a plan was made of: devices of CDI Specs.
type Injection struct {
	Specs   []*specs.Spec // each with those devices alone that are asked for
	Devices []string      // qualified names
}

// An Injector is a Container whose manager makes container edits of CDI devices
// itself.
type Injector interface {
	Container
	// Inject is Start with the devices by name. p is the plan for them: cdi-hook
	// does of it what the Specs have hooks for, which are not run. A *CannotError
	// says that names cannot express what p has.
	Inject(ctx context.Context, h Host, in Injection, p plan.Plan) error
}
