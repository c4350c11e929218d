package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// judge judges what a step, or the end, expects.
func (s *session) judge(ctx context.Context, want map[string]scenarios.Expect) error {
	if len(want) == 0 {
		return nil
	}
	all, err := s.evidence(ctx, want)
	if err != nil {
		return err
	}
	for i, name := range slices.Sorted(maps.Keys(want)) {
		ev := all[name]
		ev.Others = all
		if !s.ctrs[name].pending && want[name].Refused == "" {
			ev.Err = nil // a refusal that was judged when it came
		}
		s.found = append(s.found, verdict.Judge(want[name], ev)...)
		s.ctrs[name].pending = false
		l := look{step: s.step, container: name, seen: ev.Seen}
		if i == 0 { // there is one host
			l.host = ev.Host
		}
		if ev.Err != nil {
			l.err = verdict.Text(ev.Err)
		}
		s.looks = append(s.looks, l)
	}
	return nil
}

// judgeEnd judges the end: what the scenario expects of it, refusals that
// nobody asked about, and of every other running container what must always
// be true.
func (s *session) judgeEnd(ctx context.Context) error {
	want := maps.Clone(s.v.Expect)
	if want == nil {
		want = map[string]scenarios.Expect{}
	}
	for _, name := range s.names() {
		if _, ok := want[name]; !ok && s.ctrs[name].running() {
			want[name] = scenarios.Expect{}
		}
	}
	if err := s.judge(ctx, want); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	for _, name := range s.names() {
		s.unjudged(s.ctrs[name])
	}
	return nil
}

// unjudged finds fault with a refusal that no expectation was about.
func (s *session) unjudged(c *container) {
	if c.pending {
		s.found = append(s.found, verdict.Judge(scenarios.Expect{}, s.evidenceOf(c))...)
		c.pending = false
	}
}

func (s *session) evidenceOf(c *container) verdict.Evidence {
	ev := verdict.Evidence{
		Container: c.name, VM: c.spec.VM, Step: s.step, Err: c.err, At: c.at, Running: c.running(),
		NoLines:  !s.target.Capabilities().LXCLines,
		Warnings: c.got.said(), Devices: c.got.offered(), Edits: c.got.Edits, Plan: c.got.Plan, VFIOPlan: c.got.VM,
	}
	if _, ok := c.real.(target.Native); ok {
		ev.Native = s.target.Name()
	}
	if c.real != nil {
		ev.Configuration = c.real.Configuration()
		ev.Real = s.hosts.real(c.spec)
	}
	if !ev.Running {
		ev.Plan, ev.VFIOPlan, ev.Configuration = nil, nil, ""
		if c.err == nil {
			ev.Plan, ev.VFIOPlan = c.got.Plan, c.got.VM
		}
	}
	if ev.Native != "" {
		ev.Plan = nil
	}
	return ev
}

// evidence looks at the containers that are judged or compared with.
func (s *session) evidence(ctx context.Context, want map[string]scenarios.Expect) (map[string]verdict.Evidence, error) {
	request := s.request()
	var err error
	if request.Smoke, err = s.work(); err != nil {
		return nil, err
	}
	all := map[string]verdict.Evidence{}
	need := slices.Collect(maps.Keys(want))
	for _, e := range want {
		if e.SameAs != "" {
			need = append(need, e.SameAs)
		}
	}
	slices.Sort(need)
	hosted, err := s.lookAtHost(ctx)
	if err != nil {
		return nil, err
	}
	s.traceLook(hosted)
	for _, name := range slices.Compact(need) {
		c := s.ctrs[name]
		ev := s.evidenceOf(c)
		ev.Host, ev.Before = hosted, s.host.before
		if ev.Running {
			o, err := c.real.Observe(ctx, request)
			if err != nil {
				return nil, fmt.Errorf("look into %s: %w", name, err)
			}
			if len(o.Problems) > 0 {
				return nil, fmt.Errorf("look into %s: %s: %w", name, o.Problems[0], target.ErrBroken)
			}
			ev.Seen = &o
			s.digests.seen(name, &o)
		}
		s.traceContainer(c, ev.Seen)
		all[name] = ev
	}
	return all, nil
}

// request asks for all that any expectation of the scenario is about, and for
// the folders of every planned link, so that containers, steps and targets can
// be compared.
func (s *session) request() observe.Request {
	rs := []observe.Request{s.asks, {Level: processorLevel()}}
	for _, name := range s.names() {
		var p *plan.Plan
		if c := s.ctrs[name]; c.running() {
			p = c.got.Plan
		}
		rs = append(rs, verdict.Request(scenarios.Expect{}, p))
	}
	return verdict.MergeRequests(rs...)
}

// asksOf is the part of a request that the scenario itself makes.
func asksOf(v *scenarios.Variant) observe.Request {
	var rs []observe.Request
	for _, moment := range moments(v) {
		for _, e := range moment {
			rs = append(rs, verdict.Request(e, nil))
		}
	}
	return verdict.MergeRequests(rs...)
}

// traceHost adds the host after a step, as planning discovers it. What keeps it from
// being discovered is the error of each container that is planned.
func (s *session) traceHost(step string) {
	if s.trace == nil {
		return
	}
	t := StepTrace{Step: step}
	if h, err := s.host.state.opened(); err == nil {
		if m, err := h.Model(); err == nil {
			t.Host = &m
		}
	}
	s.trace.Steps = append(s.trace.Steps, t)
}

// traced is the trace of the step at hand.
func (s *session) traced() *StepTrace {
	n := len(s.trace.Steps)
	if n == 0 || s.trace.Steps[n-1].Step != s.step {
		s.trace.Steps = append(s.trace.Steps, StepTrace{Step: s.step})
		n++
	}
	return &s.trace.Steps[n-1]
}

// traceLook adds what was judged of the host.
func (s *session) traceLook(h *observe.Host) {
	if s.trace != nil && h != nil {
		s.traced().Looked = h
	}
}

// traceContainer adds what became of c, or what was seen in it, to the step.
func (s *session) traceContainer(c *container, seen *observe.Observation) {
	if s.trace == nil {
		return
	}
	step := s.traced()
	t := ContainerTrace{Container: c.name, Seen: seen}
	if seen == nil {
		t.Specs, t.Warnings, t.Edits, t.Plan, t.VFIOPlan = c.got.Sources, c.got.said(), c.got.Edits, c.got.Plan, c.got.VM
		if c.real != nil && c.running() {
			t.Configuration = c.real.Configuration()
		}
		if c.err != nil {
			t.Error, t.At = verdict.Text(c.err), c.at
		}
	}
	step.Containers = append(step.Containers, t)
}
