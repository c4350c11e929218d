// Package vfio is the target that really passes GPUs to virtual machines: a process
// on the fake machine makes the writes to sysfs, with system calls, and opens the
// VFIO nodes there. No machine boots: that needs hardware.
//
// Package monitor does the part of the machine's monitor, as for target sim, whose
// machines must agree with these entry by entry. Containers beside them are simulated.
package vfio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	fakemachine "gpurig/fakehw/machine"
	"gpurig/runner/target"
	"gpurig/runner/target/monitor"
	"gpurig/runner/target/sim"
)

// Name is that of the target.
const Name = "vfio"

// A Target is safe for use by several goroutines; each of its machines belongs to one
// at a time.
type Target struct {
	*sim.Sim
	mu      sync.Mutex
	entered map[string]*entered // by Config.Alone
}

var _ target.Hypervisor = (*Target)(nil)

// Open returns the target, or a *target.CannotError where no fake machine with nodes
// that open can be had here.
func Open() (*Target, error) {
	if os.Geteuid() != 0 {
		return nil, &target.CannotError{Target: Name, Why: "needs root: nodes of a fake machine do not open for others", Hint: "run gpurig as root, or with sudo"}
	}
	s, err := sim.New(nil)
	if err != nil {
		return nil, err
	}
	return &Target{Sim: s, entered: map[string]*entered{}}, nil
}

// Name is part of target.Target.
func (t *Target) Name() string { return Name }

// Capabilities is part of target.Target: those of the simulation, which is compared with.
func (t *Target) Capabilities() target.Capabilities {
	c := t.Sim.Capabilities()
	c.Simulated, c.OnlyVMs = false, true
	return c
}

// VM is part of target.Hypervisor.
func (t *Target) VM(_ context.Context, c target.Config) (target.VM, error) {
	if c.Alone == "" {
		return nil, fmt.Errorf("machine %s: the host that it is on is not named", c.Name)
	}
	m := &machine{target: t, alone: c.Alone}
	m.VM = monitor.New(Name, c.Name, m.at)
	return m, nil
}

// A machine is one of the machines on an entered host.
type machine struct {
	*monitor.VM
	target *Target
	alone  string
	on     *entered // nil: not yet
}

// at lets the monitor into the host: where one of the scenario's machines has been let
// in already, to that one.
func (m *machine) at(ctx context.Context, h target.Host) (target.Sys, error) {
	switch {
	case h.Sys == nil:
		return nil, fmt.Errorf("the host cannot be written to: %w", target.ErrBroken)
	case h.Enter == nil: // the machine at hand, or one that we are in already
		return h.Sys, nil
	}
	e, err := m.target.enter(ctx, m, h)
	var unable *fakemachine.Error
	if errors.Is(err, fakemachine.ErrUnable) && errors.As(err, &unable) {
		return nil, &target.CannotError{Target: Name, Why: unable.Error(), Hint: unable.Hint}
	}
	return e, err
}

// enter returns the host that machines with this one's word are on. It is another one
// after a reboot, and then nothing runs on the one before.
func (t *Target) enter(ctx context.Context, m *machine, h target.Host) (*entered, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entered[m.alone]
	if e == nil || e.host != h.Sys {
		if e != nil {
			delete(t.entered, m.alone)
			if err := e.leave(); err != nil {
				return nil, fmt.Errorf("leave the host: %w: %w", target.ErrBroken, err)
			}
		}
		var err error
		if e, err = enter(ctx, h); err != nil {
			return nil, err
		}
		t.entered[m.alone] = e
	}
	if m.on != e {
		m.on = e
		e.used++
	}
	return e, nil
}

// Remove is part of target.Container: the last leaves the host.
func (m *machine) Remove(ctx context.Context) error {
	err := m.VM.Remove(ctx)
	m.target.mu.Lock()
	defer m.target.mu.Unlock()
	e := m.on
	if m.on = nil; e == nil || m.target.entered[m.alone] != e {
		return err
	}
	if e.used--; e.used == 0 {
		delete(m.target.entered, m.alone)
		err = errors.Join(err, e.leave())
	}
	return err
}

// Close is part of target.Target: whatever is left, of a scenario that was cut short.
func (t *Target) Close(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := []error{t.Sim.Close(ctx)}
	for word, e := range t.entered {
		delete(t.entered, word)
		errs = append(errs, e.leave())
	}
	return errors.Join(errs...)
}
