package verdict

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/refuse"
	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

// Judge compares what is expected with what came of it. Findings are ordered by
// station, so that the first names the first station that differs; none means
// that all is as expected.
//
// Beside what want says, a refusal that nobody expects is a finding, and so is
// whatever must be true of every container (see Always).
func Judge(want scenarios.Expect, ev Evidence) []reports.Finding {
	j := &judge{ev: &ev, want: want}
	if !j.refusal() {
		return j.found
	}
	if ev.Native == "" {
		j.said()
		j.offered()
		j.planned()
	}
	j.state()
	if j.looksInside() {
		j.inside()
	}
	j.nowhere()
	j.hosted()
	j.found = append(j.found, Always(want, ev)...)
	return sorted(j.found)
}

func sorted(found []reports.Finding) []reports.Finding {
	slices.SortStableFunc(found, func(a, b reports.Finding) int {
		return cmp.Compare(order[Station(a.Station)], order[Station(b.Station)])
	})
	return slices.Compact(found)
}

// A judge collects the findings of one piece of evidence.
type judge struct {
	ev    *Evidence
	want  scenarios.Expect
	found []reports.Finding
}

func (j *judge) add(at Station, what, want, got string) {
	j.found = append(j.found, j.ev.finding(at, what, want, got))
}

// refusal judges whether the start was refused as expected, and reports whether
// there is anything else to judge.
func (j *judge) refusal() bool {
	err, want := j.ev.Err, j.want.Refused
	at := cmp.Or(j.ev.At, Plan)
	switch {
	case err == nil && want == "":
		return true
	case err == nil:
		j.add(at, "refusal", want, "it was carried out")
		return true
	case want == "":
		j.add(at, "refusal", "none", Text(err))
		return false
	}
	for _, e := range refuse.As(err) {
		if string(e.Reason) == want {
			return true
		}
	}
	got := Text(err)
	if words := reasonsOf(err); words != "" {
		got = words + ": " + got
	}
	j.add(at, "reason of the refusal", want, got)
	return true
}

func reasonsOf(err error) string {
	var words []string
	for _, r := range refuse.Reasons(err) {
		words = append(words, string(r))
	}
	return strings.Join(words, ", ")
}

// Text returns an error on one line, with the hints of its refusals.
func Text(err error) string {
	lines := strings.Split(err.Error(), "\n")
	text := strings.Join(lines, "; ")
	for _, e := range refuse.As(err) {
		if e.Hint != "" {
			text += " (hint: " + e.Hint + ")"
		}
	}
	return text
}

// said judges the words of refusals, warnings and notes.
func (j *judge) said() {
	heard := j.heard()
	var warned, noted []string
	for _, w := range j.ev.Warnings {
		warned = append(warned, w.Reason)
	}
	if j.ev.VFIOPlan != nil {
		for _, n := range j.ev.VFIOPlan.Notes {
			noted = append(noted, n.Reason)
		}
	}
	for _, text := range j.want.Says {
		if !slices.ContainsFunc(heard, func(h string) bool { return strings.Contains(h, text) }) {
			j.add(cmp.Or(j.ev.At, Plan), "message", fmt.Sprintf("one with %q", text), listed(cut(heard)))
		}
	}
	for _, r := range j.want.Warns {
		if !slices.Contains(warned, r) {
			j.add(Spec, "warning", r, listed(warned))
		}
	}
	if j.ev.Plan != nil {
		for _, n := range j.ev.Plan.Notes {
			noted = append(noted, n.Reason)
		}
	}
	for _, r := range j.want.Noted {
		if !slices.Contains(noted, r) {
			j.add(Plan, "note", r, listed(noted))
		}
	}
}

// heard are the words of the refusal, the warnings, and the notes of a virtual machine.
func (j *judge) heard() []string {
	var out []string
	if j.ev.Err != nil {
		out = append(out, Text(j.ev.Err))
	}
	for _, w := range j.ev.Warnings {
		out = append(out, w.Text)
	}
	if j.ev.VFIOPlan != nil {
		for _, n := range j.ev.VFIOPlan.Notes {
			out = append(out, n.Detail)
		}
	}
	return out
}

// listed joins what was there for a finding, sorted, and says so when there is
// nothing. Long lists are cut: the whole of it is in gpurig explain.
func listed(all []string) string {
	const most = 20
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	if len(all) == 0 {
		return "none"
	}
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

// cut shortens long messages to what a line of a finding can hold.
func cut(texts []string) []string {
	const most = 200
	out := slices.Clone(texts)
	for i, t := range out {
		if r := []rune(t); len(r) > most {
			out[i] = string(r[:most]) + "…"
		}
	}
	return out
}

// offered judges the device names of the Specs.
func (j *judge) offered() {
	for _, name := range j.want.Spec.Devices {
		if !slices.Contains(j.ev.Devices, name) {
			j.add(Spec, name, "offered by a CDI Spec", listed(j.ev.Devices))
		}
	}
	for _, pattern := range j.want.Spec.NoDevices {
		for _, name := range j.ev.Devices {
			if MatchLine(pattern, name) {
				j.add(Spec, name, "not offered by any CDI Spec", "offered")
			}
		}
	}
}

// state judges whether the container runs, and whether it is like another.
func (j *judge) state() {
	if j.want.Running != nil && *j.want.Running != j.ev.Running {
		j.add(Inside, "container", runs(*j.want.Running), runs(j.ev.Running))
	}
	if j.want.SameAs == "" {
		return
	}
	other, ok := j.ev.Others[j.want.SameAs]
	switch {
	case !ok || other.Seen == nil:
		j.add(Inside, "container "+j.want.SameAs, "running, to compare with", "not running")
	case j.ev.Seen == nil:
		j.add(Inside, "container", "running, to compare with "+j.want.SameAs, "not running")
	default:
		for _, d := range observe.Diff(*other.Seen, *j.ev.Seen) {
			j.add(Inside, d.Part+" "+d.What, cmp.Or(d.A, "nothing")+", as in "+j.want.SameAs, cmp.Or(d.B, "nothing"))
		}
	}
}

func runs(b bool) string {
	if b {
		return "running"
	}
	return "not running"
}

// Match reports whether a pattern for paths matches: "*" stops at "/". Names and
// lines are matched by MatchLine.
func Match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// MatchLine reports whether a pattern matches a line; "*" stands for any text.
func MatchLine(pattern, line string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == line
	}
	rest, ok := strings.CutPrefix(line, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, last)
}
