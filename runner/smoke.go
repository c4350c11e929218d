package runner

import (
	"context"
	"errors"

	"gpurig/fakehw/clib"
	"gpurig/fakehw/cudalib"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/userspace"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// canWork skips a scenario with the smoke workload where containers are real and the
// driver's libraries of a fake host cannot be compiled.
func (s *session) canWork(ctx context.Context) error {
	if s.asks.Smoke != nil && s.opts.Hardware != nil {
		return s.opts.Hardware.canWork(ctx)
	}
	if s.asks.Smoke == nil || s.target.Capabilities().Simulated {
		return nil
	}
	_, err := cudalib.Build(ctx, "")
	if errors.Is(err, clib.ErrNoCompiler) {
		return &skipError{err.Error()}
	}
	return err
}

// targetHost is the machine as the target gets it. Its libraries work where the smoke
// workload is asked for, and are what they weigh, no more, everywhere else.
func (s *session) targetHost() (target.Host, error) {
	h, err := s.host.state.host()
	if err == nil && s.target.Capabilities().PlanTarget != "" && s.host.state.real == nil {
		h.Enter = s.host.state.enter
	}
	if err == nil {
		err = s.forMachines(&h)
	}
	if err != nil || s.asks.Smoke == nil || s.opts.Hardware != nil {
		return h, err
	}
	t, err := s.host.state.tree()
	if err != nil {
		return h, err
	}
	h.Works = func(ctx context.Context) (map[string]string, error) { return userspace.Libraries(ctx, t, "") }
	return h, nil
}

// work is what the workload needs to know of the host as it is now.
func (s *session) work() (*observe.Work, error) {
	if s.asks.Smoke == nil {
		return nil, nil
	}
	state, err := s.nvmlState()
	if err != nil {
		return nil, err
	}
	if s.opts.Hardware != nil {
		if state, err = s.opts.Hardware.state(s.target, state); err != nil {
			return nil, err
		}
	}
	return &observe.Work{State: state, Model: &s.host.state.model}, nil
}

// nvmlState is what the libraries of the fake host answer from.
func (s *session) nvmlState() (string, error) {
	broken, err := fault.Break(s.host.state.sound, s.host.state.faults)
	if err != nil {
		return "", err
	}
	return string(nvmllib.StateWith(broken.Model, broken.NVML(nvmlfake.Options{}))), nil
}
