package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gpurig/core/host"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// A sessionHost is the host of one session, from change to change.
type sessionHost struct {
	state *hostState // as it is now
	boots *hostState // as it will be after a boot: without what was written to its sysfs
	// live takes what is written; nil: nobody has written since the machine was made.
	live   *live.Host
	before *observe.Host // the host before the first step; nil: nobody asks
}

// loadHost makes the host of the scenario that of the session.
func (s *session) loadHost(ctx context.Context) (err error) {
	if s.host.state, err = s.hosts.first(ctx, &s.v.Scenario); err != nil {
		return err
	}
	s.host.boots = s.host.state
	isWrite := func(c scenarios.Change) bool { return c.Write != nil }
	if slices.ContainsFunc(s.v.Changes, isWrite) && s.host.state.real == nil {
		lasting := s.v.Scenario
		lasting.Changes = slices.DeleteFunc(slices.Clone(lasting.Changes), isWrite)
		s.host.boots, err = s.hosts.first(ctx, &lasting)
	}
	return err
}

// changeHost has a change made to the host, which lasts.
func (s *session) changeHost(how func(*hostState) (*hostState, error)) error {
	next, err := how(s.host.state)
	if err != nil {
		return err
	}
	if s.host.boots != s.host.state {
		s.host.boots, err = how(s.host.boots)
	} else {
		s.host.boots = next
	}
	return s.setHost(next, err)
}

// setHost makes m the host, and has what is live follow.
func (s *session) setHost(m *hostState, err error) error {
	if err == nil && s.host.live != nil {
		err = s.updateLive(m)
	}
	if err != nil {
		return err
	}
	s.host.state = m
	if s.step != "" { // else it is traced as what there was at first
		s.traceHost(s.step)
	}
	return nil
}

func (s *session) updateLive(m *hostState) error {
	if !reflect.DeepEqual(m.files, s.host.state.files) { // its tree is made of them
		s.host.live = nil
		return nil
	}
	if err := s.host.live.Change(func(host.Model) (host.Model, error) { return m.sound, nil }); err != nil {
		return err
	}
	return s.host.live.SetFaults(m.faults)
}

// faultOf is what m calls a fault that was set when its GPU had the number in text.
func (s *session) faultOf(m *hostState, text string) string {
	f, err := fault.Parse(text)
	if err != nil || slices.Contains(m.faults, f) {
		return text
	}
	return f.Pinned(s.host.boots.sound).String()
}

// liveHost returns the host as one that can be written to.
func (s *session) liveHost() (*live.Host, error) {
	var err error
	if s.host.live == nil {
		s.host.live, err = s.host.state.request().Live()
	}
	return s.host.live, err
}

// writeSysfs has a program of the host write to its sysfs.
func (s *session) writeSysfs(ctx context.Context, what map[string]string) error {
	l, err := s.liveHost()
	if err != nil {
		return err
	}
	if err := writeTo(l, what); err != nil {
		return err
	}
	return s.refreshHost(ctx)
}

// writeTo writes as the shell's echo does. What would wait does so for good: nobody
// closes anything meanwhile.
func writeTo(l *live.Host, what map[string]string) error {
	for _, p := range slices.Sorted(maps.Keys(what)) {
		if err := l.Sys().WriteNow(p, []byte(what[p]+"\n")); err != nil {
			return fmt.Errorf("write %q: %w", what[p], err)
		}
	}
	return nil
}

// refreshHost makes the host what it became by what was written to it.
func (s *session) refreshHost(ctx context.Context) error {
	if s.onHardware() {
		if len(s.undo) == 0 { // the machines return what they have; who comes next looks anew
			s.undo = append(s.undo, func() error { return nil })
		}
		return s.setHost(s.host.state.real.again())
	}
	if s.host.live == nil {
		return nil
	}
	m, err := s.hosts.became(ctx, s.host.state, s.host.live)
	if err != nil || m == s.host.state {
		return err
	}
	s.host.state = m
	s.traceHost(s.step)
	return nil
}

// lookAtHost reads the files of the host, where somebody asks what became of it.
func (s *session) lookAtHost(ctx context.Context) (*observe.Host, error) {
	if !s.aboutHost() {
		return nil, nil
	}
	h, err := s.targetHost()
	if err != nil {
		return nil, err
	}
	look := func() (observe.Host, error) { return observe.LookHost(h.Root) }
	for _, name := range s.names() {
		if m, ok := s.ctrs[name].real.(target.VM); ok {
			look = func() (observe.Host, error) { return m.LookAtHost(ctx, h) }
		}
	}
	seen, err := look()
	if cannot, ok := errors.AsType[*target.CannotError](err); ok {
		return nil, &skipError{cannot.Why}
	}
	if err != nil {
		return nil, fmt.Errorf("look at the host: %w: %w", target.ErrBroken, err)
	}
	return &seen, nil
}

// aboutHost reports whether anything is expected of the host.
func (s *session) aboutHost() bool {
	for _, moment := range moments(s.v) {
		for _, want := range moment {
			if verdict.AsksHost(want) {
				return true
			}
		}
	}
	return hasMachine(s.v)
}
