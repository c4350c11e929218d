package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"gpurig/reports"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// variant runs one variant on every target and compares them. What was cut
// short by the end of ctx has no result. What was red and passes when it is run again is
// flaky; what cannot be judged again stays red.
func (r *Runner) variant(ctx context.Context, v *scenarios.Variant, say *sync.Mutex) []reports.Result {
	var out []reports.Result
	var ran []outcome
	for _, t := range r.opts.Targets {
		p := r.attempt(ctx, v, t, ran, say)
		for range r.opts.Retries {
			if ctx.Err() != nil || !bad(p.result) {
				break
			}
			again := r.attempt(ctx, v, t, ran, say)
			took := p.result.DurationMS + again.result.DurationMS
			if v := again.result.Verdict; v == reports.Pass || v == reports.Differ || v == reports.Fail && p.result.Verdict == reports.Broken {
				again.result.AddFlaky(p.result)
				p = again
			}
			p.result.DurationMS = took
		}
		if ctx.Err() != nil {
			return out
		}
		if q := r.opts.Quarantine; q != nil {
			q.Apply(&p.result)
		}
		ran = append(ran, p)
		out = append(out, p.result)
		p.trace.Result = p.result
		say.Lock()
		if r.opts.Result != nil {
			r.opts.Result(p.result)
		}
		if r.opts.Trace != nil {
			r.opts.Trace(*p.trace)
		}
		say.Unlock()
	}
	return out
}

func bad(r reports.Result) bool { return r.Verdict == reports.Fail || r.Verdict == reports.Broken }

// attempt runs a variant on a target once and compares it with those before.
func (r *Runner) attempt(ctx context.Context, v *scenarios.Variant, t target.Target, ran []outcome, say *sync.Mutex) outcome {
	p := r.runOn(ctx, v, t)
	if ctx.Err() != nil {
		return p
	}
	for _, earlier := range partners(ran, &p) {
		compare(earlier, &p)
	}
	r.opts.locate(&p.result, v)
	if r.opts.Failed != nil && bad(p.result) {
		p.trace.Result = p.result
		say.Lock()
		defer say.Unlock()
		r.opts.Failed(*p.trace)
	}
	return p
}

// A outcome is one variant that ran on one target.
type outcome struct {
	can    target.Capabilities
	agrees bool // a manager that passes the devices itself is to do as the plan has it
	result reports.Result
	looks  []look
	trace  *Trace
}

// errTimeout ends a scenario that takes too long.
var errTimeout = errors.New("took too long")

func (r *Runner) runOn(ctx context.Context, v *scenarios.Variant, t target.Target) outcome {
	began := time.Now()
	can := t.Capabilities()
	p := outcome{can: can, agrees: v.Native == scenarios.NativeAgrees, trace: &Trace{Variant: *v, Target: t.Name()}}
	p.result = reports.Result{
		Scenario: v.Name, Title: v.Title, Variant: WithFaults(v.Map(), r.opts.Faults.Texts()), Host: v.Host, Target: t.Name(), Labels: v.AllLabels(),
	}
	err := error(nil)
	if len(v.Targets) > 0 && !slices.Contains(v.Targets, t.Name()) {
		err = &skipError{"the scenario is for " + strings.Join(v.Targets, ", ")}
	} else if why := r.unfit(v); why != "" {
		err = &skipError{why}
	} else if can.OnlyVMs && !hasMachine(v) {
		err = &skipError{"the scenario has no virtual machine"}
	} else if why := beyond(can, v); why != "" {
		err = &skipError{why}
	} else if why := beyondNative(can, v); why != "" {
		err = &skipError{why}
	} else {
		limit := cmp.Or(v.Limit(), r.opts.timeout())
		sctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %v", errTimeout, limit))
		s := &session{opts: r.opts, hosts: r.hosts, v: v, asks: asksOf(v), target: t, ctrs: map[string]*container{}}
		if r.opts.Trace != nil || r.opts.Failed != nil {
			s.trace = p.trace
		}
		err = s.run(sctx)
		if err != nil && sctx.Err() != nil {
			err = context.Cause(sctx)
		}
		cancel()
		p.looks = s.looks
		p.result.Findings, p.result.Notes, p.result.Warnings = s.found, s.notes, s.warnings
		if s.host.state != nil {
			p.result.Stations = s.digests.stations(s.host.state.sum())
		}
	}
	decideVerdict(&p.result, err, p.differing())
	p.result.DurationMS = float64(time.Since(began).Microseconds()) / 1000
	return p
}

// unfit says why a variant is not for the machine at hand; empty: it is, or hosts are
// fake.
func (r *Runner) unfit(v *scenarios.Variant) string {
	if r.opts.Hardware == nil {
		return ""
	}
	return r.opts.Hardware.unfit(v)
}

// WithFaults adds the faults of a run to what makes a result another one: on a
// broken host a scenario is not the one that passed on the sound host.
func WithFaults(choices map[string]string, faults []string) map[string]string {
	if len(faults) == 0 {
		return choices
	}
	out := maps.Clone(choices)
	if out == nil {
		out = map[string]string{}
	}
	out["faults"] = strings.Join(faults, " ")
	return out
}

// decideVerdict gives a result its verdict. Findings of a scenario that could not be
// judged to its end do not make it fail: broken is never folded into fail.
func decideVerdict(r *reports.Result, err error, differing reports.Verdict) {
	skip, isSkip := errors.AsType[*skipError](err)
	needs, isNeeds := errors.AsType[*specgen.NeedsSpecError](err)
	switch {
	case isSkip && !errors.Is(err, target.ErrBroken): // what could not be removed or put back is no skip
		r.Verdict, r.Reason, r.Findings, r.Notes, r.Warnings = reports.Skip, skip.why, nil, nil, nil
	case isNeeds:
		r.Verdict, r.Reason, r.Findings = reports.Skip, needs.Error(), nil
	case err != nil:
		r.Verdict, r.Reason = reports.Broken, strings.ReplaceAll(err.Error(), "\n", "; ")
		if ended, ok := errors.AsType[*target.EndedError](err); ok {
			r.Evidence = ended.Log
		}
	case len(r.Findings) > 0:
		r.Verdict = differing
	default:
		r.Verdict = reports.Pass
	}
}

// panicked turns a panic into an error that names the place.
func panicked(p any) error {
	place := "unknown place"
	lines := strings.Split(string(debug.Stack()), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") && i+3 < len(lines) {
			place = strings.TrimSpace(lines[i+3])
			if at := strings.LastIndex(place, " +0x"); at > 0 {
				place = place[:at]
			}
			if dir := strings.LastIndex(place, "/"); dir >= 0 {
				place = place[dir+1:]
			}
			break
		}
	}
	return fmt.Errorf("%w: panic at %s: %v", target.ErrBroken, place, p)
}
