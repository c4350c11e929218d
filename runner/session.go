package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/fakehw/fault"
	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// A session is one variant on one target.
type session struct {
	opts  Options
	hosts *hostCache

	v        *scenarios.Variant
	asks     observe.Request // all that the variant's expectations look at
	target   target.Target
	host     sessionHost
	ctrs     map[string]*container
	step     string // the one at hand: "2: stop c1"
	found    []reports.Finding
	notes    []string // steps that did not apply
	warnings []reports.Warning
	looks    []look // every observation, in order, to compare targets by
	digests  digests
	undo     []func() error // changes to the machine at hand
	trace    *Trace         // nil: not kept
}

// A look is one judged moment of one container.
type look struct {
	step, container string
	err             string
	seen            *observe.Observation
	host            *observe.Host
}

// A container is one container of a session.
type container struct {
	name    string
	spec    scenarios.Container
	devices map[string]scenarios.Device // as they are now, after plugs
	real    target.Container
	got     product // by the last start or plug that reached the product
	err     error   // of the last start or plug
	at      verdict.Station
	pending bool // err has not been judged yet
}

// A skipError says that this machine cannot do what a scenario asks for.
type skipError struct{ why string }

func (e *skipError) Error() string { return e.why }

// run plays the scenario and removes what it made, also when ctx ends.
func (s *session) run(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		err = errors.Join(err, s.remove(ctx), s.restoreMachine())
	}()
	if err = s.loadHost(ctx); err != nil {
		return err
	}
	if s.host.state.real != nil {
		needs := *s.v.Needs
		needs.MIG = false // which a change may make
		if why := needs.Missing(scenarios.SupplyOf(s.host.state.model)); why != "" && len(s.v.Changes) > 0 {
			return &skipError{why}
		}
		for _, c := range s.v.Changes {
			if c.MIG != nil && !slices.ContainsFunc(s.host.state.model.GPUs, func(g host.GPU) bool { return g.Index == c.MIG.GPU }) {
				return &skipError{fmt.Sprintf("re-partitions GPU %d, and NVML names none of that index", c.MIG.GPU)}
			}
			if err := s.changeMachine(c); err != nil {
				return err
			}
		}
	}
	if err := s.bind(); err != nil {
		return err
	}
	for _, f := range s.opts.Faults {
		broken := func(m *hostState) (*hostState, error) { return s.hosts.fault(ctx, m, f.String(), false) }
		if err = s.changeHost(broken); err != nil {
			if cannot, ok := errors.AsType[*fault.Error](err); ok {
				return &skipError{"its host cannot have the fault: " + cannot.Error()}
			}
			return err
		}
	}
	s.traceHost("0: the host")
	if err := s.create(ctx); err != nil {
		return err
	}
	if s.host.before, err = s.lookAtHost(ctx); err != nil {
		return err
	}
	for i, st := range s.steps() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.step = fmt.Sprintf("%d: %s", i+1, stepName(&st))
		if err := s.do(ctx, &st); errors.Is(err, errRefused) || errors.Is(err, errRunsAlready) {
			s.notes = append(s.notes, fmt.Sprintf("the scenario ended at step %s: %v", s.step, err))
			return nil
		} else if err != nil {
			return fmt.Errorf("step %s: %w", s.step, err)
		}
		if err := s.judge(ctx, st.Expect); err != nil {
			return fmt.Errorf("step %s: %w", s.step, err)
		}
	}
	s.step = "end"
	if err := s.judgeEnd(ctx); err != nil {
		return err
	}
	if s.opts.Hardware != nil && s.asks.Smoke != nil && len(s.found) > 0 {
		return s.opts.Hardware.stillWorks(ctx)
	}
	return nil
}

// bind fills in the scenario's placeholders by what its host has, and skips what
// needs more than that.
func (s *session) bind() error {
	bound, why := scenarios.Bind(s.v.Scenario, s.host.state.model)
	if why != "" {
		return &skipError{why}
	}
	s.v = &scenarios.Variant{Scenario: bound, Keys: s.v.Keys}
	s.asks = asksOf(s.v)
	if s.trace != nil {
		s.trace.Variant = *s.v
	}
	return nil
}

// steps are those of the scenario, or a start of each container.
func (s *session) steps() []scenarios.Step {
	if len(s.v.Steps) > 0 {
		return s.v.Steps
	}
	var out []scenarios.Step
	for _, name := range s.names() {
		out = append(out, scenarios.Step{Start: name})
	}
	return out
}

func (s *session) names() []string { return slices.Sorted(maps.Keys(s.v.Containers)) }

func stepName(st *scenarios.Step) string {
	switch {
	case st.Start != "":
		return "start " + st.Start
	case st.Stop != "":
		return "stop " + st.Stop
	case st.Restart != "":
		return "restart " + st.Restart
	case st.Plug != nil:
		return "plug " + st.Plug.Name + " into " + st.Plug.Container
	case st.Unplug != nil:
		return "unplug " + st.Unplug.Name + " from " + st.Unplug.Container
	case st.Reboot:
		return "reboot"
	case st.Crash:
		return "crash"
	case st.RestartDaemon:
		return "restart the daemon"
	case st.Ldconfig != "":
		return "ldconfig in " + st.Ldconfig
	case st.Run != nil:
		return "run " + st.Run.Program[0]
	case st.Fault != "":
		return "fault " + st.Fault
	case st.Heal != "":
		return "heal " + st.Heal
	}
	return "change the host"
}

// create makes all containers. A scenario that this machine cannot run is
// skipped before anything is made.
func (s *session) create(ctx context.Context) error {
	configs, machines := map[string]target.Config{}, map[string]target.Container{}
	can := s.target.Capabilities()
	if !can.Nesting && slices.ContainsFunc(s.names(), func(n string) bool { return s.v.Containers[n].Nesting }) {
		s.notes = append(s.notes, fmt.Sprintf("nesting: not applicable: on %s it is a container like any other", s.target.Name()))
	}
	if can.OnlyVMs && slices.ContainsFunc(s.names(), func(n string) bool { return !s.v.Containers[n].VM }) {
		s.notes = append(s.notes, "containers beside virtual machines are simulated on target "+s.target.Name())
	}
	for _, name := range s.names() {
		c := s.v.Containers[name]
		configs[name] = s.config(name, c)
		if c.VM {
			real, err := s.createMachine(ctx, name, configs[name])
			if err != nil {
				return err
			}
			machines[name] = real
			continue
		}
		if err := s.canWork(ctx); err != nil {
			return err
		}
		if err := s.target.Can(ctx, configs[name]); err != nil {
			if errors.Is(err, target.ErrBroken) {
				return err
			}
			if cannot, ok := errors.AsType[*target.CannotError](err); ok {
				return &skipError{cannot.Why}
			}
			return err
		}
	}
	for _, name := range s.names() {
		c := s.v.Containers[name]
		ctr := &container{name: name, spec: c, devices: maps.Clone(c.Devices)}
		s.ctrs[name] = ctr
		if ctr.real = machines[name]; c.VM {
			continue
		}
		var err error
		if ctr.real, err = s.target.Create(ctx, configs[name]); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	return nil
}

// config gives each container of a run a name of its own, always the same one.
func (s *session) config(name string, c scenarios.Container) target.Config {
	sum := sha256.Sum256([]byte(s.v.ID()))
	cfg := target.Config{Name: name + "-" + hex.EncodeToString(sum[:4]), Image: c.Image, Content: c.Content, Cgroup: c.Cgroup, IDMap: idmap(c.IDMap), Nesting: c.Nesting, Options: c.Expanded()}
	if c.VM || slices.ContainsFunc(s.v.Steps, func(st scenarios.Step) bool { return st.Reboot || st.Crash || st.RestartDaemon }) {
		cfg.Alone = s.v.ID()
	}
	if cfg.Image == "" {
		cfg.Image = scenarios.DefaultImage
	}
	if cfg.Cgroup == "" {
		cfg.Cgroup = "v2"
	}
	return cfg
}

// idmap returns the ranges that a word of a scenario stands for.
func idmap(word string) []plan.IDMap {
	if word == "default" {
		return []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}}
	}
	return nil
}

// remove removes every container, whatever became of ctx.
func (s *session) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	for _, name := range s.names() {
		if c := s.ctrs[name]; c != nil && c.real != nil {
			if err := c.real.Remove(ctx); err != nil {
				errs = append(errs, fmt.Errorf("remove %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}
