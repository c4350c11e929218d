// Package qemu is the target that boots virtual machines and judges by what their kernel
// sees: QEMU gets the arguments that core/vfio writes, and behind each device that they
// pass is a function of the fake host, served over vfio-user.
//
// The host's side is simulated, as for target sim, whose machines must agree with these
// entry by entry: package monitor says what a machine is expected to see. Every start
// boots: QEMU 11.1 aborts when a device with MSI-X leaves a machine that runs, so that a
// guest cannot be emptied for the next scenario.
package qemu

import (
	"context"
	"errors"
	"fmt"

	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/monitor"
	"gpurig/runner/target/sim"
)

// Name is that of the target.
const Name = "qemu"

// A Target is safe for use by several goroutines; each of its machines belongs to one at
// a time.
type Target struct {
	*sim.Sim
	programs Programs
}

var _ target.Hypervisor = (*Target)(nil)

// Open returns the target, or a *target.CannotError where no machine can be booted here.
func Open(ctx context.Context) (*Target, error) {
	p, err := Find(ctx, "")
	if err != nil {
		return nil, err
	}
	return New(p)
}

// New returns the target with these programs.
func New(p Programs) (*Target, error) {
	s, err := sim.New(nil)
	if err != nil {
		return nil, err
	}
	return &Target{Sim: s, programs: p}, nil
}

// Name is part of target.Target.
func (t *Target) Name() string { return Name }

// Capabilities is part of target.Target: those of the simulation, which is compared with.
func (t *Target) Capabilities() target.Capabilities {
	c := t.Sim.Capabilities()
	c.OnlyVMs = true
	return c
}

// VM is part of target.Hypervisor.
func (t *Target) VM(_ context.Context, c target.Config) (target.VM, error) {
	return &machine{VM: monitor.New(Name, c.Name, monitor.On), target: t}, nil
}

// A machine is one that boots.
type machine struct {
	*monitor.VM
	target *Target
	guest  *Guest // nil: it does not run
}

// Start is part of target.Container.
func (m *machine) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	if h.Enter == nil {
		return &target.CannotError{Target: Name, Why: "not applicable: its machines get functions of fake hosts, and the GPU at hand is not looked into", Hint: "use target vfio"}
	}
	if err := m.VM.Start(ctx, h, p); err != nil {
		return err
	}
	err := m.boot(ctx)
	if err != nil {
		err = errors.Join(err, m.end(), m.VM.Stop(context.WithoutCancel(ctx)))
	}
	return err
}

// boot has a guest with the devices.
func (m *machine) boot(ctx context.Context) (err error) {
	arguments, given, on := m.Given()
	var functions []pci.BDF
	for _, d := range given {
		if d.Type != "" {
			return &target.CannotError{Target: Name, Why: "not applicable: what a vGPU looks like inside a machine only its driver knows", Hint: "use target sim or vfio"}
		}
		functions = append(functions, d.BDF)
	}
	if m.guest, err = Boot(ctx, m.target.programs, arguments, on, functions); err != nil {
		err = fmt.Errorf("%w: %w", target.ErrBroken, err)
	}
	return err
}

// Observe is part of target.Container: the functions are those that the guest sees.
func (m *machine) Observe(ctx context.Context, r observe.Request) (observe.Observation, error) {
	o, err := m.VM.Observe(ctx, r)
	if err != nil || m.guest == nil {
		return o, err
	}
	if o.Functions, err = m.guest.Look(ctx); err != nil {
		err = fmt.Errorf("%w: %w", target.ErrBroken, err)
	}
	return o, err
}

// end ends the guest, with all of it.
func (m *machine) end() error {
	g := m.guest
	if m.guest = nil; g == nil {
		return nil
	}
	return g.Close()
}

// Stop is part of target.Container.
func (m *machine) Stop(ctx context.Context) error {
	return errors.Join(m.end(), m.VM.Stop(ctx))
}

// Crash is part of target.Container.
func (m *machine) Crash(ctx context.Context) error { return errors.Join(m.end(), m.VM.Crash(ctx)) }

// Remove is part of target.Container.
func (m *machine) Remove(ctx context.Context) error {
	return errors.Join(m.end(), m.VM.Remove(ctx))
}
