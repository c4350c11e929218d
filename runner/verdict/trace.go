package verdict

import (
	"path"
	"slices"
	"strings"

	"gpurig/core/plan"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// specNode returns the node of this path in the container edits, nil without.
func (ev *Evidence) specNode(p string) *specs.DeviceNode {
	for _, e := range ev.Edits {
		if e.Edits == nil {
			continue
		}
		for _, n := range e.Edits.DeviceNodes {
			if n != nil && n.Path == p {
				return n
			}
		}
	}
	return nil
}

// nodeLike returns the path of a node that matches: one of the plan, else one
// of the container edits, else the pattern itself.
func (ev *Evidence) nodeLike(pattern string) string {
	if ev.Plan != nil {
		for _, n := range ev.Plan.Nodes {
			if Match(pattern, n.Path) {
				return n.Path
			}
		}
	}
	for _, e := range ev.Edits {
		if e.Edits == nil {
			continue
		}
		for _, n := range e.Edits.DeviceNodes {
			if n != nil && Match(pattern, n.Path) {
				return n.Path
			}
		}
	}
	return pattern
}

// specMount reports whether the container edits mount something there.
func (ev *Evidence) specMount(target string) bool {
	for _, e := range ev.Edits {
		if e.Edits == nil {
			continue
		}
		for _, m := range e.Edits.Mounts {
			if m != nil && path.Clean(m.ContainerPath) == target {
				return true
			}
		}
	}
	return false
}

// specLink reports whether a hook of the container edits names the link: its
// argument is TARGET::PATH.
func (ev *Evidence) specLink(p string) bool {
	for _, e := range ev.Edits {
		if e.Edits == nil {
			continue
		}
		for _, h := range e.Edits.Hooks {
			if h != nil && slices.ContainsFunc(h.Args, func(a string) bool { return strings.HasSuffix(a, "::"+p) }) {
				return true
			}
		}
	}
	return false
}

func (ev *Evidence) planNode(p string) *plan.Node {
	if ev.Plan != nil {
		for i := range ev.Plan.Nodes {
			if ev.Plan.Nodes[i].Path == p {
				return &ev.Plan.Nodes[i]
			}
		}
	}
	return nil
}

func (ev *Evidence) planMount(target string) *plan.Mount {
	if ev.Plan != nil {
		for i := range ev.Plan.Mounts {
			if ev.Plan.Mounts[i].Target == target {
				return &ev.Plan.Mounts[i]
			}
		}
	}
	return nil
}

func (ev *Evidence) planLink(p string) *plan.Link {
	if ev.Plan != nil {
		for i := range ev.Plan.Links {
			if ev.Plan.Links[i].Path == p {
				return &ev.Plan.Links[i]
			}
		}
	}
	return nil
}

// configured reports whether the configuration names a path of the container.
// LXC writes targets without the leading slash.
func (ev *Evidence) configured(p string) bool {
	return ev.Configuration == "" || strings.Contains(ev.Configuration, strings.TrimPrefix(p, "/"))
}

// mounted reports whether something was seen to be mounted there.
func (ev *Evidence) mounted(p string) bool {
	if ev.Seen != nil {
		for _, m := range ev.Seen.Mounts {
			if m.Target == p {
				return true
			}
		}
	}
	return false
}

// missing returns the first station at which a path that should have come all
// the way is not there.
func (ev *Evidence) missing(p string, inSpec, inPlan bool) Station {
	switch {
	case ev.Native != "", ev.VM: // there is no Spec, and no node in a plan
		return Inside
	case !inSpec && !inPlan:
		return Spec
	case !inPlan:
		return Plan
	case !ev.configured(p):
		return Configuration
	case !ev.mounted(p):
		return Mounts
	}
	return Inside
}

// unwanted returns the first station at which a path that should not be there
// appears.
func (ev *Evidence) unwanted(inSpec, inPlan bool) Station {
	switch {
	case ev.Native != "":
		return Inside
	case inSpec:
		return Spec
	case inPlan:
		return Plan
	}
	return Inside
}
