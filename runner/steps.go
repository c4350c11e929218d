package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/passthrough"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/reports"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// do makes one thing happen. An error means that the scenario cannot go on; a
// refusal of the product is not one: it is kept in the container, to be judged.
func (s *session) do(ctx context.Context, st *scenarios.Step) error {
	switch {
	case st.Start != "":
		return s.start(ctx, s.ctrs[st.Start])
	case st.Stop != "":
		return s.stop(ctx, s.ctrs[st.Stop])
	case st.Restart != "":
		return s.restart(ctx, s.ctrs[st.Restart])
	case st.Plug != nil:
		return s.plug(ctx, s.ctrs[st.Plug.Container], st.Plug)
	case st.Unplug != nil:
		return s.unplug(ctx, s.ctrs[st.Unplug.Container], st.Unplug.Name)
	case st.Reboot:
		return s.reboot(ctx, target.Container.Stop, false)
	case st.Crash:
		return s.reboot(ctx, target.Container.Crash, true)
	case st.RestartDaemon:
		return s.restartDaemon(ctx)
	case st.Ldconfig != "":
		return s.ldconfig(ctx, s.ctrs[st.Ldconfig])
	case st.Run != nil:
		return s.program(ctx, st.Run)
	case st.Change != nil && s.host.state.real != nil:
		return s.changeMachine(*st.Change)
	case st.Change != nil && st.Change.Write != nil:
		return s.writeSysfs(ctx, st.Change.Write)
	case st.Change != nil:
		return s.changeHost(func(m *hostState) (*hostState, error) { return s.hosts.change(ctx, m, *st.Change) })
	case st.Fault != "":
		return s.changeHost(func(m *hostState) (*hostState, error) { return s.hosts.fault(ctx, m, st.Fault, false) })
	case st.Heal != "":
		return s.changeHost(func(m *hostState) (*hostState, error) { return s.hosts.fault(ctx, m, s.faultOf(m, st.Heal), true) })
	}
	return errors.New("nothing to do") // the loader lets no such step through
}

// start makes a new Spec and plan for the host as it is now, and starts the
// container.
func (s *session) start(ctx context.Context, c *container) error {
	if c.running() {
		if slices.ContainsFunc(s.found, func(f reports.Finding) bool { return f.Container == c.name }) {
			return fmt.Errorf("%s %w", c.name, errRunsAlready)
		}
		return fmt.Errorf("%s runs already", c.name)
	}
	return s.planAndApply(ctx, c, c.devices, c.started)
}

// errRefused says that a step has no container to be done on, and that the product's
// refusal of it was found fault with already: that is the verdict.
var errRefused = errors.New("was refused before")

// errRunsAlready says the opposite: a start that was to be refused was not, which was
// found fault with.
var errRunsAlready = errors.New("runs already")

func (s *session) notRunning(c *container) error {
	s.unjudged(c)
	if c.err != nil && len(s.found) > 0 {
		return fmt.Errorf("%s %w", c.name, errRefused)
	}
	return fmt.Errorf("%s does not run", c.name)
}

func (s *session) plug(ctx context.Context, c *container, p *scenarios.Plug) error {
	if !c.running() {
		return s.notRunning(c)
	}
	if _, twice := c.devices[p.Name]; twice {
		return fmt.Errorf("%s has a device %s already", c.name, p.Name)
	}
	devices := maps.Clone(c.devices)
	if devices == nil {
		devices = map[string]scenarios.Device{}
	}
	devices[p.Name] = p.Device
	if err := s.planAndApply(ctx, c, devices, target.Container.Plug); err != nil {
		return err
	}
	if c.err == nil {
		c.devices = devices
	}
	return nil
}

func (s *session) unplug(ctx context.Context, c *container, name string) error {
	if !c.running() {
		return s.notRunning(c)
	}
	if _, ok := c.devices[name]; !ok {
		return fmt.Errorf("%s has no device %s", c.name, name)
	}
	s.unjudged(c)
	devices := maps.Clone(c.devices)
	delete(devices, name)
	if err := s.apply(ctx, c, c.got.without(name), devices, target.Container.Unplug); err != nil {
		return err
	}
	if c.err == nil {
		c.devices = devices
	}
	return nil
}

type applyFunc func(c target.Container, ctx context.Context, h target.Host, p plan.Plan) error

// planAndApply walks from the host to the plan and hands it to the target. A
// refusal on the way is kept in the container.
func (s *session) planAndApply(ctx context.Context, c *container, devices map[string]scenarios.Device, how applyFunc) error {
	s.unjudged(c)
	r := planRequest{devices: optionsOf(devices), config: c.spec.Expanded(), options: passthrough.Options{Strict: c.spec.Strict, IDMap: idmap(c.spec.IDMap),
		Policy: s.v.Policy, Groups: s.hosts.groups(c.spec), MapGroups: c.spec.Groups == "by-name"}}
	if c.spec.VM {
		busy, err := s.busy(ctx)
		if err != nil {
			return err
		}
		r.options.VM, r.busy = c.name, busy
	}
	got, err := s.plan(ctx, s.host.state, r)
	if err != nil {
		return err
	}
	return s.apply(ctx, c, got, devices, how)
}

// apply gives the target what the product made, or keeps its refusal. A manager that
// passes GPUs itself is given the devices, whatever the product makes of them.
func (s *session) apply(ctx context.Context, c *container, got product, devices map[string]scenarios.Device, how applyFunc) error {
	refused, at := got.refused()
	if refused == nil && c.real == nil {
		return &skipError{fmt.Sprintf("%s is a virtual machine, and target %s makes none", c.name, s.target.Name())}
	}
	before, ran := c.got, c.running()
	p := plan.Plan{}
	switch real := c.real.(type) {
	case target.Native:
		ask(real, devices)
		refused, at, got.Warnings = nil, "", nil
	case target.VM:
		if refused == nil {
			real.Give(*got.VM)
		}
	default:
		if refused == nil {
			p = *got.Plan
		}
	}
	c.got, c.err, c.at = got, refused, at
	if refused == nil {
		h, err := s.targetHost()
		if err != nil {
			return err
		}
		if err := how(c.real, ctx, h, p); err != nil {
			if errors.Is(err, target.ErrBroken) || ctx.Err() != nil {
				return err
			}
			if cannot, ok := errors.AsType[*target.CannotError](err); ok {
				return &skipError{cannot.Why}
			}
			c.err, c.at = startFailed(err), verdict.Mounts
		} else if err := s.warned(c); err != nil {
			return err
		}
		if err := s.refreshHost(ctx); err != nil {
			return err
		}
	}
	if c.err != nil && ran { // what it has is what it had
		c.got = before
		c.got.Warnings = got.Warnings
	}
	s.digests.planned(c.name, &c.got)
	c.pending = c.err != nil
	s.traceContainer(c, nil)
	return nil
}

// ask tells a manager that passes GPUs itself which ones are meant.
func ask(c target.Native, devices map[string]scenarios.Device) {
	all := map[string]map[string]string{}
	for name, o := range optionsOf(devices) {
		all[name] = o.Map()
	}
	c.Ask(all)
}

// startFailed is what a target's error is for the product: a refusal of it, or of
// cdi-hook by its own word.
func startFailed(err error) error {
	if len(refuse.As(err)) > 0 {
		return err
	}
	reason := ReasonStartFailed
	if strings.Contains(err.Error(), "cdi-hook: "+hookspec.LibraryShadowed+": ") {
		reason = ReasonLibraryShadowed
	}
	return &refuse.Error{Reason: reason, Err: err}
}

// warned takes what cdi-hook warned of, beside what was warned of before the start.
func (s *session) warned(c *container) error {
	list, err := c.real.Warnings()
	if err != nil {
		return fmt.Errorf("warnings of %s: %w", c.name, err)
	}
	c.got.Warnings = slices.Clip(c.got.Warnings)
	for _, w := range list {
		c.got.Warnings = append(c.got.Warnings, passthrough.Warning{Reason: refuse.Reason(w.Reason), Text: w.String()})
		s.warnings = append(s.warnings, reports.Warning{Reason: w.Reason, Container: c.name, Step: s.step, Text: w.String()})
	}
	return nil
}

// ldconfig has the container's own ldconfig run in it. That it ends well is expected.
func (s *session) ldconfig(ctx context.Context, c *container) error {
	if !c.running() {
		return s.notRunning(c)
	}
	s.unjudged(c)
	real, ok := c.real.(target.Runner)
	if !ok {
		return &skipError{fmt.Sprintf("no program can be run in a container of %s", s.target.Name())}
	}
	ran, err := real.Run(ctx, observe.Program{Command: []string{image.Ldconfig}})
	if err != nil {
		if cannot, ok := errors.AsType[*target.CannotError](err); ok {
			return &skipError{cannot.Why}
		}
		return err
	}
	if ran.Code != 0 {
		s.found = append(s.found, reports.Finding{Station: string(verdict.Inside), Step: s.step, Container: c.name, What: image.Ldconfig,
			Want: "it ends with 0", Got: fmt.Sprintf("%d: %s", ran.Code, strings.TrimSpace(ran.Output))})
	}
	return nil
}

func (s *session) stop(ctx context.Context, c *container) error {
	if !c.running() {
		return s.notRunning(c)
	}
	if err := c.real.Stop(ctx); err != nil {
		return err
	}
	return s.refreshHost(ctx)
}

// restart starts a container anew, also one whose last start was refused.
func (s *session) restart(ctx context.Context, c *container) error {
	if c.running() {
		if err := s.stop(ctx, c); err != nil {
			return err
		}
	}
	return s.start(ctx, c)
}

// reboot takes the host down and up again; down is what becomes of containers.
func (s *session) reboot(ctx context.Context, down func(target.Container, context.Context) error, crash bool) error {
	for _, name := range s.names() {
		if c := s.ctrs[name]; c.running() {
			if err := down(c.real, ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, c := range s.served() {
		if err := c.RebootHost(ctx, crash); err != nil {
			return err
		}
	}
	s.host.state, s.host.live = s.host.boots, nil
	return s.changeHost(func(m *hostState) (*hostState, error) { return s.hosts.reboot(ctx, m) })
}

// restartDaemon restarts what serves the containers while they run.
func (s *session) restartDaemon(ctx context.Context) error {
	served := s.served()
	if len(served) == 0 {
		s.notes = append(s.notes, fmt.Sprintf("step %s: not applicable: no container of %s has a daemon that it outlives", s.step, s.target.Name()))
	}
	for _, c := range served {
		err := c.RestartDaemon(ctx)
		if cannot, ok := errors.AsType[*target.CannotError](err); ok {
			return &skipError{cannot.Why}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// served returns one container of each daemon.
func (s *session) served() []target.Served {
	var out []target.Served
	for _, name := range s.names() {
		c, ok := s.ctrs[name].real.(target.Served)
		if ok && c.Daemon() != nil && !slices.ContainsFunc(out, func(x target.Served) bool { return x.Daemon() == c.Daemon() }) {
			out = append(out, c)
		}
	}
	return out
}

func (c *container) running() bool { return c.real != nil && c.real.Running() }
