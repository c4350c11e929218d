package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpurig/core/show"
)

// Summary returns the report as a person at a terminal wants it: what failed
// and why, what is broken, skips by reason, the totals last.
func Summary(r Report, took time.Duration) string {
	var b strings.Builder
	for _, kind := range []Verdict{Differ, Fail, Broken} {
		for _, group := range groups(pick(r, kind)) {
			tell(&b, group)
		}
	}
	byReason := map[string]int{}
	for _, res := range pick(r, Skip) {
		byReason[res.Target+": "+res.Reason]++
	}
	if len(byReason) > 0 {
		show.Fprintln(&b)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		show.Fprintf(&b, "skipped %d on %s\n", byReason[reason], oneLine(reason))
	}
	for _, w := range warned(r) {
		show.Fprintf(&b, "warned %s: %s\n", times(w.Count), w.Text)
	}
	for _, n := range noted(r) {
		show.Fprintf(&b, "noted %s: %s\n", times(n.Count), n.Text)
	}
	for _, kind := range []Verdict{Fail, Broken} {
		bad := pick(r, kind)
		first, more := mainCauses(bad, len(groups(bad)))
		for i, c := range first {
			if i == 0 {
				show.Fprintf(&b, "\n%s %d, by what was found first:\n", strings.ToUpper(string(kind)), len(bad))
			}
			show.Fprintf(&b, "%6d x %s\n", c.Count, c.Text)
		}
		if more > 0 {
			show.Fprintf(&b, "         and %d more\n", more)
		}
	}
	if b.Len() > 0 {
		show.Fprintln(&b)
	}
	byTarget := map[string][]Result{}
	for _, res := range r.Results {
		byTarget[res.Target] = append(byTarget[res.Target], res)
	}
	wide := 0
	for name := range byTarget {
		wide = max(wide, len(name))
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		show.Fprintf(&b, "%-*s %s\n", wide, name, Count(byTarget[name]).words())
	}
	for _, p := range Across(r.Results) {
		show.Fprintln(&b, oneLine(p.String()))
	}
	for _, d := range r.Degraded {
		show.Fprintf(&b, "DEGRADED %s\n", oneLine(d))
	}
	show.Fprintf(&b, "%s in %s\n", headline(r), took.Round(time.Millisecond))
	return b.String()
}

// tell writes what a group of results says: the first in full, the others by name.
func tell(b *strings.Builder, group []Result) {
	res := group[0]
	show.Fprintf(b, "\n%s %s, host %s\n", strings.ToUpper(string(res.Verdict)), res.Key(), res.Host)
	if len(res.Findings) == 0 {
		show.Fprintf(b, "  %s\n", oneLine(prefixed(res.Place(), res.Reason)))
		for _, l := range res.Evidence {
			show.Fprintf(b, "    %s\n", oneLine(l))
		}
	} else {
		show.Fprintf(b, "  %s\n", oneLine(res.Title))
	}
	for i, f := range res.Findings {
		show.Fprintf(b, "  %s\n", oneLine(res.at(f)))
		if again := i+1 < len(res.Findings) && res.Findings[i+1].Next == f.Next; f.Next != "" && !again {
			show.Fprintf(b, "    next: %s\n", oneLine(f.Next))
		}
	}
	if res.Run != "" {
		show.Fprintf(b, "  again: %s\n", oneLine(res.Run))
	}
	if len(group) > 1 {
		show.Fprintf(b, "  and the same of %s\n", strings.Join(alike(group), ", "))
	}
}

// at is a finding on one line, with the line of the scenario that expects it.
func (r Result) at(f Finding) string { return prefixed(r.place(f.Line), f.Text()) }

func prefixed(place, text string) string {
	if place == "" {
		return text
	}
	return place + ": " + text
}

// alike names what else is in a group, by what the first line has not told.
func alike(group []Result) []string {
	var out []string
	for _, r := range group[1:] {
		name := strings.TrimPrefix(r.Key(), r.Scenario)
		if r.Host != group[0].Host {
			name += ", host " + r.Host
		}
		out = append(out, strings.TrimSpace(oneLine(name)))
	}
	return out
}

// noted are the notes of all results, each once, in order.
func noted(r Report) []cause { return counted(r, func(res Result) []string { return res.Notes }) }

// warned are the warnings of all results, each once, in order.
func warned(r Report) []cause { return counted(r, Result.warnings) }

// warnings are those of a result, a line each.
func (r Result) warnings() []string {
	var out []string
	for _, w := range r.Warnings {
		out = append(out, w.Line())
	}
	return out
}

func counted(r Report, texts func(Result) []string) []cause {
	count := map[string]int{}
	for _, res := range r.Results {
		for _, n := range texts(res) {
			count[oneLine(n)]++
		}
	}
	var out []cause
	for _, text := range slices.Sorted(maps.Keys(count)) {
		out = append(out, cause{count[text], text})
	}
	return out
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func oneLine(s string) string { return strings.ReplaceAll(clean(s), "\n", " ") }
