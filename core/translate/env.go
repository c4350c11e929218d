package translate

import (
	"fmt"
	"math"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
	"gpurig/core/policy"
)

// environment puts the variables into the plan (A8, B33).
func (p *part) environment(list []string) {
	for i, s := range list {
		edit := fmt.Sprintf("env[%d]", i)
		if !p.text(edit, "entry", s) {
			continue
		}
		name, value, ok := strings.Cut(s, "=")
		if !ok || !isName(name) {
			// A name alone would make LXC copy the host's value.
			p.refuse(edit, ReasonEnv, "", "%s: want NAME=value", quote(s))
			continue
		}
		if len(value) > maxValue {
			p.refuse(edit, ReasonEnv, "", "the value of %s is longer than %d bytes", name, maxValue)
			continue
		}
		if r, ok := p.opts.Policy.Env(name); !ok {
			p.refuseName(edit, name, r)
			continue
		}
		v := plan.Var{Name: name, Value: value, Owners: p.owners}
		e := p.env[name]
		switch {
		case e == nil:
			p.env[name] = &entry[plan.Var]{v, p.at(edit)}
		case e.v.Value != value:
			p.refuse(edit, ReasonConflict, "", "%s is %s here, %s elsewhere (%s)", name, quote(value), quote(e.v.Value), e.from)
		default:
			e.v.Owners = union(e.v.Owners, p.owners)
		}
	}
}

func (p *part) refuseName(edit, name string, r policy.Rule) {
	if r.Match != "" {
		p.refuse(edit, ReasonEnvBad, policy.NoLine, "variable %s must not be set by a device: %s (rule %q)", name, r.Why, r.Name())
		return
	}
	p.refuse(edit, ReasonEnvBad, policy.Hint("environment", name),
		"variable %s is not one that a device may set (rules \"env\")", name)
}

// isName reports whether s is a portable name of a variable.
func isName(s string) bool {
	if s == "" || len(s) > 255 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// additionalGroups puts the group ids into the plan. Root's group is refused:
// it would own what it must not (B37).
func (p *part) additionalGroups(list []uint32) {
	for i, g := range list {
		edit := fmt.Sprintf("additionalGids[%d]", i)
		if g == 0 || g == math.MaxUint32 {
			p.refuse(edit, ReasonGroup, "", "group %d cannot be an additional group", g)
			continue
		}
		if _, ok := plan.HostID(p.opts.IDMap, g); !ok {
			p.refuse(edit, ReasonUnmapped, "Map the group into the container.",
				"group %d has no counterpart on the host in this container's id map", g)
			continue
		}
		if want, ok := p.group(edit, fmt.Sprintf("group %d", g), g, g); !ok {
			continue
		} else if want != nil {
			g = *want
		}
		p.groups[g] = union(p.groups[g], p.owners)
	}
}

// cannotExpress refuses what a system container has no place for.
func (p *part) cannotExpress(e *specs.ContainerEdits) {
	if e.IntelRdt != nil {
		p.refuse("intelRdt", ReasonIntel, "", "Intel RDT cannot be given to a system container")
	}
	for i, n := range e.NetDevices {
		edit := fmt.Sprintf("netDevices[%d]", i)
		if n == nil {
			p.refuse(edit, ReasonNull, "", "there is no network device")
			continue
		}
		p.refuse(edit, ReasonNetwork, "Give the container the network device in its own configuration.",
			"network device %s cannot be given by a device Spec", quote(n.HostInterfaceName))
	}
}
