package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gpurig/core/passthrough"
	"gpurig/runner/partition"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// ThisMachine is what reports call the host of a run on hardware.
const ThisMachine = "this machine"

// Hardware is the machine at hand in the place of every fake host. Host is required.
type Hardware struct {
	Host *passthrough.Host
	// Problem is what keeps NVIDIA's GPUs of this machine from being judged, in
	// words; empty: nothing. Scenarios that are about them are skipped with it.
	Problem string
	// Works tries the smoke workload outside of any container. The error says what
	// is wrong with the machine: what fails there can be expected of no container.
	Works func(ctx context.Context) error
	// State is for a machine that is itself a fake one: what its libraries read in
	// place of the kernel's driver (package nvmllib). Nil, or empty: the driver is real.
	State func() (string, error)

	// Partition gives a GPU another MIG geometry; undo gives it back its own. Nil: the
	// machine is left as it is, and scenarios that change it are skipped.
	Partition func(c scenarios.MIGChange) (undo func() error, err error)
	// Sys is the machine as GPUs of it are handed to virtual machines, which return them.
	// Nil: it is left as it is, and scenarios with virtual machines are skipped.
	Sys target.Sys
	// Open says who has which nodes of the machine open; nil: nobody.
	Open func() map[string][]string
	// Reopen opens the machine as it is after such a change.
	Reopen func() *passthrough.Host

	tried  sync.Once // Works, before the first scenario that needs it
	failed error     // of that
}

// OnHardware returns what is to be run of the variants on the machine at hand. Which
// fake host a scenario with needs would be run on does not matter any more, so such
// choices of its matrix fall together.
func OnHardware(all []scenarios.Variant) []scenarios.Variant {
	var out []scenarios.Variant
	seen := map[string]bool{}
	for _, v := range all {
		if v.Needs != nil {
			v.Keys = slices.DeleteFunc(slices.Clone(v.Keys), func(p scenarios.Pick) bool { return p.Key == "host" })
			v.Host = ThisMachine
			if seen[v.ID()] {
				continue
			}
			seen[v.ID()] = true
		}
		out = append(out, v)
	}
	return out
}

// unfit says why a scenario is not for this machine, whatever it has; empty: it is.
func (h *Hardware) unfit(v *scenarios.Variant) string {
	switch {
	case v.Needs == nil:
		return "names the fake host " + v.Host
	case slices.ContainsFunc(v.Changes, func(c scenarios.Change) bool { return !h.allows(c) }) || len(v.Faults) > 0 || len(v.Specs) > 0 || v.Driver != "":
		return "begins with changes to its host, and this machine is left as it is"
	case hasMachine(v) && h.Sys == nil:
		return "hands GPUs to virtual machines, and this machine is left as it is without --allow-reconfigure"
	case hasMachine(v) && slices.ContainsFunc(slices.Collect(maps.Values(v.Containers)), func(c scenarios.Container) bool { return !c.VM }):
		return "has containers beside virtual machines, which works only on fake hosts"
	case h.Problem != "" && v.Needs.Vendor == "nvidia":
		return h.Problem
	}
	for i := range v.Steps {
		if st := &v.Steps[i]; st.Change != nil && !h.allows(*st.Change) || st.Reboot || st.Crash || st.RestartDaemon || st.Fault != "" || st.Heal != "" {
			return fmt.Sprintf("changes its host (step %d: %s), and this machine is left as it is", i+1, stepName(st))
		}
	}
	return ""
}

// allows reports whether a change may be made to this machine: only what can be put
// back, and only when that was said.
func (h *Hardware) allows(c scenarios.Change) bool { return h.Partition != nil && c.MIG != nil }

// change carries out one change and returns the machine as it is then, and what puts it
// back. What the GPU does not do skips the scenario.
func (h *Hardware) change(c scenarios.Change) (m *hostState, undo func() error, err error) {
	undo, err = h.Partition(*c.MIG)
	if errors.Is(err, partition.ErrCannot) {
		return nil, nil, &skipError{err.Error()}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", target.ErrBroken, err)
	}
	m, err = h.again()
	return m, undo, err
}

// again is the machine as it is now.
func (h *Hardware) again() (*hostState, error) {
	after := &Hardware{Host: h.Reopen(), Works: h.Works, State: h.State, Partition: h.Partition, Sys: h.Sys, Open: h.Open, Reopen: h.Reopen}
	m, err := after.machine()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", target.ErrBroken, err)
	}
	return m, nil
}

// changeMachine changes the machine at hand, to be put back when the session ends.
func (s *session) changeMachine(c scenarios.Change) error {
	m, undo, err := s.host.state.real.change(c)
	if undo != nil {
		s.undo = append(s.undo, undo)
	}
	return s.setHost(m, err)
}

// restoreMachine undoes the changes to the machine, the last first. Who comes next finds a
// machine whose MIG devices have other UUIDs than before.
func (s *session) restoreMachine() error {
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		if err := undo(); err != nil {
			errs = append(errs, fmt.Errorf("%w: this machine is not as it was: %w", target.ErrBroken, err))
		}
	}
	if len(s.undo) > 0 {
		m, err := s.opts.Hardware.again()
		if err == nil {
			s.hosts.here.Store(m)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// machine is the hardware as scenarios reach it.
func (h *Hardware) machine() (*hostState, error) {
	model, err := h.Host.Model()
	if err != nil {
		return nil, err
	}
	m := &hostState{id: ThisMachine, sound: model, model: model, real: h}
	m.sum = sync.OnceValue(func() string { return digest(model) })
	m.opened = func() (*passthrough.Host, error) { return h.Host, nil }
	return m, nil
}

// canWork skips a scenario with the smoke workload where it does not even work
// outside of containers.
func (h *Hardware) canWork(ctx context.Context) error {
	if h.Works == nil {
		return nil
	}
	h.tried.Do(func() { h.failed = h.Works(context.WithoutCancel(ctx)) })
	if h.failed != nil {
		return &skipError{"the smoke workload fails on this machine, outside of any container: " + h.failed.Error()}
	}
	return nil
}

// stillWorks tells what a container does wrong from what the machine does: after a
// finding the workload is tried once more outside. The GPU may have become busy.
func (h *Hardware) stillWorks(ctx context.Context) error {
	if h.Works == nil {
		return nil
	}
	if err := h.Works(ctx); err != nil {
		return fmt.Errorf("%w: the smoke workload does not work outside of containers any more: %w", target.ErrBroken, err)
	}
	return nil
}

// state is what the libraries of the host read, for a target. Who foretells what the
// workload says does so from a state made of the model.
func (h *Hardware) state(t target.Target, ofModel string) (string, error) {
	if t.Capabilities().Simulated {
		return ofModel, nil
	}
	if h.State == nil {
		return "", nil
	}
	return h.State()
}
