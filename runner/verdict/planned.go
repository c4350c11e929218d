package verdict

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gpurig/core/plan"
)

// planned judges the plan and the configuration made of it.
func (j *judge) planned() {
	want := j.want.Plan
	j.plannedMachine()
	if j.ev.VFIOPlan == nil && j.ev.Plan == nil {
		if want.Devices != nil || want.Folders != nil || len(want.Links)+len(want.Mounts) > 0 {
			j.add(Plan, "plan", "one", "none was made")
		}
	} else if j.ev.Plan != nil {
		j.plannedParts(j.ev.Plan)
	}
	if j.ev.NoLines {
		return
	}
	lines := strings.Split(j.ev.Configuration, "\n")
	for _, l := range want.Lines {
		if !slices.ContainsFunc(lines, func(line string) bool { return MatchLine(l, line) }) {
			j.add(Configuration, l, "a line of it", nearby(l, lines))
		}
	}
	for _, pattern := range want.NoLines {
		for _, l := range lines {
			if MatchLine(pattern, l) {
				j.add(Configuration, pattern, "no such line", l)
			}
		}
	}
}

// nearby returns the lines with the same key, so that a finding shows what was
// there in place of what should be.
func nearby(line string, lines []string) string {
	key, _, _ := strings.Cut(line, "=")
	var same []string
	for _, l := range lines {
		if k, _, _ := strings.Cut(l, "="); MatchLine(key, k) {
			same = append(same, l)
		}
	}
	if len(same) == 0 {
		return "no line with " + strings.TrimSpace(key)
	}
	return listed(same)
}

func (j *judge) plannedParts(p *plan.Plan) {
	want := j.want.Plan
	if want.Devices != nil && !sameSet(want.Devices, p.Devices) {
		j.add(Plan, "devices", listed(want.Devices), listed(p.Devices))
	}
	if want.Folders != nil && !sameSet(want.Folders, p.LibraryDirs) {
		j.add(Plan, "library folders", listed(want.Folders), listed(p.LibraryDirs))
	}
	links := map[string]string{}
	for _, l := range p.Links {
		links[l.Path] = l.Target
	}
	for _, at := range slices.Sorted(maps.Keys(want.Links)) {
		if links[at] != want.Links[at] {
			j.add(Plan, at, "link to "+want.Links[at], linkTo(links[at]))
		}
	}
	mounts := map[string]string{}
	for _, m := range p.Mounts {
		mounts[m.Target] = m.Source
		for _, pattern := range want.NoMounts {
			if Match(pattern, m.Target) {
				j.add(Plan, m.Target, "no mount", "mount of "+m.Source)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(want.Mounts)) {
		src, ok := mounts[at]
		if !ok || want.Mounts[at] != "" && want.Mounts[at] != src {
			j.add(Plan, at, "mount of "+cmp.Or(want.Mounts[at], "anything"), mountOf(src))
		}
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func linkTo(target string) string {
	if target == "" {
		return "no link"
	}
	return "link to " + target
}

func mountOf(src string) string {
	if src == "" {
		return "no mount"
	}
	return "mount of " + src
}
