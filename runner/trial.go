package runner

import (
	"context"
	"fmt"
	"slices"

	"gpurig/core/host"
	"gpurig/core/strictdoc"
	"gpurig/fakehw"
	"gpurig/fakehw/fault"
	"gpurig/runner/image"
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

// TryLoaded is Try of hosts that can be loaded; the others take everything.
func (p Profiles) TryLoaded(name, scenarioFile, driver string) (scenarios.Trial, error) {
	if _, err := p.Host(name, scenarioFile); err != nil {
		return anything{}, nil
	}
	return p.Try(name, scenarioFile, driver)
}

type anything struct{}

func (anything) Fault(string) error { return nil }
func (anything) Heal(string) error  { return nil }

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

// CheckChanges carries out the changes of a scenario to its hosts as far as they are
// known before a run: up to the first step that is more than a change or a start. It
// returns the line of the change that a host cannot have, and why: a path that is not
// there is not removed.
func CheckChanges(ctx context.Context, s scenarios.Scenario) (line int, err error) {
	p := &hostCache{source: Profiles{}, images: image.NewSet(image.Bare{})}
	p.named.Limit, p.all.Limit = maxStates, maxStates
	done := map[[2]string]bool{}
	for _, v := range scenarios.Expand(s) {
		if done[[2]string{v.Host, v.Driver}] {
			continue
		}
		done[[2]string{v.Host, v.Driver}] = true
		first := v.Scenario
		first.Changes = nil
		m, err := p.first(ctx, &first)
		if err != nil {
			return 0, nil // its scenarios say so when they run
		}
		apply := func(at strictdoc.Path, c scenarios.Change) error {
			next, err := p.change(ctx, m, c)
			if err == nil {
				_, err = next.tree()
			}
			if m = next; err != nil {
				line = s.Lines[at]
				return fmt.Errorf("%s: host %s: %w", at, v.Host, err)
			}
			return nil
		}
		for i, c := range s.Changes {
			if err := apply(strictdoc.Path("changes").Item(i), c); err != nil {
				return line, err
			}
		}
		for i, st := range s.Steps {
			if st.Change == nil && st.Start == "" && st.Stop == "" && st.Restart == "" || s.Containers[st.Start].VM {
				break
			}
			if st.Change != nil {
				if err := apply(strictdoc.Path("steps").Item(i).Key("change"), *st.Change); err != nil {
					return line, err
				}
			}
		}
	}
	return 0, nil
}

// Removes reports whether a scenario removes files of its host.
func Removes(s scenarios.Scenario) bool {
	return slices.ContainsFunc(s.Changes, func(c scenarios.Change) bool { return len(c.Remove) > 0 }) ||
		slices.ContainsFunc(s.Steps, func(st scenarios.Step) bool { return st.Change != nil && len(st.Change.Remove) > 0 })
}
