package runner

import (
	"cmp"
	"fmt"

	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/runner/verdict"
)

// compare compares what was seen of one variant on two targets, moment by
// moment. Each difference is a finding on b, whose verdict follows. What did
// not run to its end is not compared.
func compare(a, b *outcome) {
	for _, r := range []*reports.Result{&a.result, &b.result} {
		if r.Verdict == reports.Skip || r.Verdict == reports.Broken {
			return
		}
	}
	before := len(b.result.Findings)
	entered := 0
	add := func(l look, what, want, got string) {
		b.result.Findings = append(b.result.Findings, reports.Finding{
			Station: string(verdict.Across), Container: l.container, Step: l.step, What: what,
			Want: want + " on " + a.result.Target, Got: got + " on " + b.result.Target,
		})
	}
	for i := range min(len(a.looks), len(b.looks)) {
		x, y := a.looks[i], b.looks[i]
		entered++ // whether it is refused, or runs
		if x.host != nil && y.host != nil {
			diffs, n := observe.CompareHosts(*x.host, *y.host)
			entered += n
			for _, d := range diffs {
				add(y, d.Part+" "+d.What, cmp.Or(d.A, "nothing"), cmp.Or(d.B, "nothing"))
			}
		}
		switch {
		case (x.err == "") != (y.err == ""):
			add(y, "refusal", cmp.Or(x.err, "none"), cmp.Or(y.err, "none"))
		case (x.seen == nil) != (y.seen == nil):
			add(y, "container", running(x.seen), running(y.seen))
		case x.seen != nil:
			diffs, n := observe.Compare(*x.seen, *y.seen)
			entered += n
			for _, d := range diffs {
				add(y, d.Part+" "+d.What, cmp.Or(d.A, "nothing"), cmp.Or(d.B, "nothing"))
			}
		}
	}
	if len(a.looks) != len(b.looks) {
		entered++
		add(look{}, "moments that were judged", fmt.Sprint(len(a.looks)), fmt.Sprint(len(b.looks)))
	}
	differ := len(b.result.Findings) - before
	b.result.Across = append(b.result.Across, reports.Agreement{With: a.result.Target, Entries: entered, Agree: entered - differ})
	if differ > 0 {
		b.result.Verdict = b.differing()
	}
}

func running(o *observe.Observation) string {
	if o == nil {
		return "not running"
	}
	return "running"
}

// differing is the verdict on a result with findings: a manager that does it its own
// way is not wrong for that, unless the scenario says so.
func (p *outcome) differing() reports.Verdict {
	if p.can.PlanTarget != "" && !p.agrees {
		return reports.Differ
	}
	return reports.Fail
}

// partner returns what a result is compared with: every earlier one of its family;
// what a manager did itself, with the plan as the same manager carried it out, else
// with the last that did.
func partners(ran []outcome, p *outcome) []*outcome {
	var out []*outcome
	for i := range ran {
		if ran[i].can.Family == p.can.Family && ran[i].can.PlanTarget == "" {
			out = append(out, &ran[i])
		}
	}
	if p.can.PlanTarget == "" || len(out) == 0 {
		return out
	}
	for _, x := range out {
		if x.result.Target == p.can.PlanTarget {
			return []*outcome{x}
		}
	}
	return out[len(out)-1:]
}
