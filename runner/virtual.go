package runner

import (
	"context"
	"errors"
	"fmt"
	"os"

	fakemachine "gpurig/fakehw/machine"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// hasMachine reports whether a scenario has a virtual machine.
func hasMachine(v *scenarios.Variant) bool {
	for _, c := range v.Containers {
		if c.VM {
			return true
		}
	}
	return false
}

// createMachine makes a virtual machine; nil: the target makes none, and this one is
// only ever refused.
func (s *session) createMachine(ctx context.Context, name string, cfg target.Config) (target.Container, error) {
	cannot := &target.CannotError{Target: s.target.Name(), Why: "it makes no virtual machines"}
	if h, ok := s.target.(target.Hypervisor); ok {
		m, err := h.VM(ctx, cfg)
		if err == nil {
			return m, nil
		}
		if !errors.As(err, &cannot) {
			return nil, fmt.Errorf("create %s: %w", name, err)
		}
	}
	for _, moment := range moments(s.v) {
		if want, ok := moment[name]; ok && want.Refused == "" {
			return nil, &skipError{cannot.Error()}
		}
	}
	return nil, nil
}

// moments are all expectations, step by step, the end's last.
func moments(v *scenarios.Variant) []map[string]scenarios.Expect {
	var out []map[string]scenarios.Expect
	for _, st := range v.Steps {
		out = append(out, st.Expect)
	}
	return append(out, v.Expect)
}

// busy says which nodes of the host those that run have. What is taken from its
// driver while one of their programs has it open would wait for that program.
func (s *session) busy(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	if s.opts.Hardware != nil && s.opts.Hardware.Open != nil {
		out = s.opts.Hardware.Open()
	}
	for _, name := range s.names() {
		c := s.ctrs[name]
		if !c.running() {
			continue
		}
		if c.got.Plan != nil {
			for _, n := range c.got.Plan.Nodes {
				out[n.Source] = append(out[n.Source], "container "+name)
			}
		}
		if m, ok := c.real.(target.VM); ok {
			o, err := m.Observe(ctx, observe.Request{})
			if err != nil {
				return nil, err
			}
			for _, n := range o.Nodes {
				out[n.Path] = append(out[n.Path], "machine "+name)
			}
		}
	}
	return out, nil
}

// onHardware reports whether GPUs of the machine at hand go to virtual machines.
func (s *session) onHardware() bool {
	return s.host.state.real != nil && s.target.Capabilities().OnlyVMs && hasMachine(s.v)
}

// forMachines adds what virtual machines need of the host.
func (s *session) forMachines(h *target.Host) error {
	if !hasMachine(s.v) {
		return nil
	}
	if s.onHardware() {
		h.Sys = s.host.state.real.Sys
		return nil
	}
	l, err := s.liveHost()
	if err != nil {
		return err
	}
	h.Sys = l.Sys()
	h.Enter = func(ctx context.Context, command []string, in, out, errs *os.File) error {
		ended, err := fakemachine.Enter(ctx, l, fakemachine.Options{Command: command, Stdin: in, Stdout: out, Stderr: errs})
		if err == nil && ended.Exit != 0 {
			err = fmt.Errorf("exit code %d", ended.Exit)
		}
		return err
	}
	return nil
}
