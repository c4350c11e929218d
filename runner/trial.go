package runner

import (
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/fault"
	"gpurig/scenarios"
)

// Try is scenarios.Options.Try: a host as a run would have it.
func (p Profiles) Try(name, scenarioFile, driver string) (scenarios.Trial, error) {
	model, err := p.Host(name, scenarioFile)
	if err != nil {
		return nil, err
	}
	faults, err := p.Faults(name, scenarioFile)
	if err == nil && driver != "" {
		model, err = fakehw.WithDriver(model, driver)
	}
	return &trial{model, faults}, err
}

type trial struct {
	sound  host.Model
	faults fault.List
}

// Fault is part of scenarios.Trial.
func (t *trial) Fault(text string) error { return t.become(text, t.faults.With) }

// Heal is part of scenarios.Trial.
func (t *trial) Heal(text string) error { return t.become(text, t.faults.Without) }

func (t *trial) become(text string, change func(fault.Fault) (fault.List, error)) error {
	f, err := fault.Parse(text)
	if err != nil {
		return err
	}
	faults, err := change(f)
	if err == nil {
		_, err = fault.Break(t.sound, faults)
	}
	t.faults = faults
	return err
}
