package sim

import (
	"context"

	"gpurig/runner/target"
	"gpurig/runner/target/monitor"
)

var _ target.Hypervisor = (*Sim)(nil)

// VM is part of target.Hypervisor: the host changes in memory.
func (s *Sim) VM(_ context.Context, c target.Config) (target.VM, error) {
	if s.Name() != "sim" {
		return nil, &target.CannotError{Target: s.Name(), Why: "it makes no virtual machines", Hint: "use target sim or vfio"}
	}
	return monitor.New(s.Name(), c.Name, monitor.On), nil
}
