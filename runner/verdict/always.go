package verdict

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

// Always judges what must be true of every container, whatever a scenario
// expects: a plan that is sound in itself, and a container that has exactly the
// nodes, and at least the mounts and links, that were planned for it. Only a link
// that want names may be another one.
func Always(want scenarios.Expect, ev Evidence) []reports.Finding {
	j := &judge{ev: &ev, want: want}
	if ev.Plan != nil {
		j.soundNodes(ev.Plan.Nodes)
		j.soundMounts(ev.Plan)
		j.soundLinks(ev.Plan.Links)
	}
	if ev.Plan != nil && ev.Seen != nil {
		j.carriedNodes()
		j.carriedMounts()
		j.carriedLinks()
		j.shadowed()
	}
	if ev.VFIOPlan != nil {
		j.soundMachine()
	}
	if ev.VFIOPlan != nil && ev.Seen != nil {
		j.carriedMachine()
	}
	return j.found
}

func (j *judge) soundNodes(nodes []plan.Node) {
	seen := map[string]bool{}
	for _, n := range nodes {
		switch {
		case seen[n.Path]:
			j.add(Plan, n.Path, "planned once", "planned twice")
		case !n.Num.Known():
			j.add(Plan, n.Path, "a device number", "major 0")
		case n.Mode.Perm() == 0:
			j.add(Plan, n.Path, "a mode", "mode 0000")
		}
		seen[n.Path] = true
	}
}

func (j *judge) soundMounts(p *plan.Plan) {
	seen := map[string]bool{}
	for _, m := range p.Mounts {
		switch {
		case seen[m.Target]:
			j.add(Plan, m.Target, "mounted once", "planned twice")
		case path.Clean(m.Target) != m.Target || !path.IsAbs(m.Target):
			j.add(Plan, m.Target, "a clean absolute path", "not one")
		case len(m.Owners) == 0:
			j.add(Plan, m.Target, "a device that it belongs to", "no owner")
		}
		seen[m.Target] = true
	}
}

func (j *judge) soundLinks(links []plan.Link) {
	seen := map[string]bool{}
	for _, l := range links {
		switch {
		case seen[l.Path]:
			j.add(Plan, l.Path, "planned once", "planned twice")
		case path.IsAbs(l.Target):
			j.add(Plan, l.Path, "a relative target", "link to "+l.Target)
		case path.Join(path.Dir(l.Path), l.Target) == l.Path:
			j.add(Plan, l.Path, "a link to something else", "a link to itself")
		}
		seen[l.Path] = true
	}
}

// carriedNodes compares the nodes seen with those planned, both ways.
func (j *judge) carriedNodes() {
	planned := map[string]bool{}
	for _, n := range j.ev.Plan.Nodes {
		planned[n.Path] = true
		got := j.seenNode(n.Path)
		switch {
		case got == nil:
			j.add(j.ev.missing(n.Path, true, true), n.Path, "the device node that was planned", j.whatIsAt(n.Path))
		case got.Num != n.Num || got.Type != n.Type:
			j.add(Inside, n.Path, nodeWords(n.Type, n.Num), nodeWords(got.Type, got.Num))
		case got.Open == observe.Denied && strings.Contains(n.Permissions, "r") && strings.Contains(n.Permissions, "w"):
			j.add(j.openStation(string(observe.Allowed), got), n.Path, "open is allowed, as planned", "open is denied")
		case got.Open == observe.Allowed && !strings.Contains(n.Permissions, "r") && !strings.Contains(n.Permissions, "w"):
			j.add(Configuration, n.Path, "open is denied, as planned", "open is allowed")
		}
	}
	for _, n := range j.ev.Seen.Nodes {
		if !planned[n.Path] {
			j.add(Inside, n.Path, "no node that was not planned", nodeWords(n.Type, n.Num))
		}
	}
}

// shadowed finds fault with a library of the image that is loaded in place of one that
// the plan mounts, where nobody said so: a program meets another driver than the
// kernel's.
func (j *judge) shadowed() {
	for _, l := range j.ev.Seen.Libraries {
		stem, _, ok := strings.Cut(l.SONAME, ".so")
		if !ok || l.Origin != observe.Image || l.Problem != "" {
			continue
		}
		mounted := slices.ContainsFunc(j.ev.Plan.Mounts, func(m plan.Mount) bool { return strings.HasPrefix(path.Base(m.Target), stem+".so.") })
		said := slices.ContainsFunc(j.ev.Warnings, func(w Warning) bool {
			return w.Reason == hookspec.LibraryShadowed && strings.Contains(w.Text, l.SONAME)
		})
		if mounted && !said {
			j.add(Inside, l.SONAME, "the host's file, or a warning "+hookspec.LibraryShadowed, "the image's "+l.Path+", and no warning")
		}
	}
}

func nodeWords(t device.Type, n device.Num) string { return fmt.Sprintf("node %s %s", t, n) }

func (j *judge) carriedMounts() {
	seen := map[string]int{}
	for _, m := range j.ev.Seen.Mounts {
		seen[m.Target]++
		if seen[m.Target] == 2 {
			j.add(Mounts, m.Target, "mounted once", "mounted twice")
		}
	}
	for _, m := range j.ev.Plan.Mounts {
		if seen[m.Target] == 0 && seen[j.ev.real(m.Target)] == 0 {
			j.add(j.ev.missing(m.Target, true, true), m.Target, "the mount that was planned", j.whatIsAt(m.Target))
		}
	}
}

// carriedLinks looks at planned links only in folders that were looked at. Of a link
// that the scenario names its own word counts: the container may have changed it.
func (j *judge) carriedLinks() {
	for _, l := range j.ev.Plan.Links {
		if _, named := j.want.Links[l.Path]; named {
			continue
		}
		if got := j.seenLink(l.Path); got == nil || got.Target != l.Target {
			words := j.whatIsAt(l.Path)
			if got != nil {
				words = "link to " + got.Target
			}
			j.add(Inside, l.Path, "link to "+l.Target+", as planned", words)
		}
	}
}

// MergeRequests returns a request that asks for everything in all of rs, sorted.
func MergeRequests(rs ...observe.Request) observe.Request {
	var out observe.Request
	for _, r := range rs {
		out.Dirs = append(out.Dirs, r.Dirs...)
		out.Paths = append(out.Paths, r.Paths...)
		out.SONAMEs = append(out.SONAMEs, r.SONAMEs...)
		out.Contents = append(out.Contents, r.Contents...)
		out.Texts = append(out.Texts, r.Texts...)
		out.Smoke = cmp.Or(out.Smoke, r.Smoke)
		out.Level = max(out.Level, r.Level)
	}
	for _, l := range []*[]string{&out.Dirs, &out.Paths, &out.SONAMEs, &out.Contents, &out.Texts} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	return out
}
