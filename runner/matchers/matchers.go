// Package matchers has Gomega matchers for what a container sees, for
// specs written in Go. On failure they show what was there instead.
//
// A matcher takes an observe.Observation or a pointer to one. Targets make
// observations; scenario files are judged by package verdict.
package matchers

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"gpurig/core/device"
	"gpurig/runner/observe"
)

const template = `Expected the container {{.To}} {{.Data.Want}}
It has:
{{.Data.Have}}`

// message is what the template shows; it is filled while matching.
type message struct{ Want, Have string }

// make_ builds a matcher from a test on the observation and a listing of what
// was there.
func make_(want string, match func(o *observe.Observation) bool, have func(o *observe.Observation) []string) types.GomegaMatcher {
	m := &message{Want: want}
	return gcustom.MakeMatcher(func(actual any) (bool, error) {
		var o *observe.Observation
		switch a := actual.(type) {
		case observe.Observation:
			o = &a
		case *observe.Observation:
			o = a
		}
		if o == nil {
			return false, fmt.Errorf("want an observe.Observation, not %T", actual)
		}
		lines := have(o)
		if len(lines) == 0 {
			lines = []string{"nothing of the kind"}
		}
		m.Have = "    " + strings.Join(lines, "\n    ")
		return match(o), nil
	}).WithTemplate(template, m)
}

// HaveNode matches a container with a device node at this path; with numbers
// given, one of them must be the node's.
func HaveNode(at string, num ...device.Num) types.GomegaMatcher {
	want := "have the node " + at
	if len(num) > 0 {
		var words []string
		for _, n := range num {
			words = append(words, n.String())
		}
		want += " with number " + strings.Join(words, " or ")
	}
	return make_(want, func(o *observe.Observation) bool {
		return slices.ContainsFunc(o.Nodes, func(n observe.Node) bool {
			return n.Path == at && (len(num) == 0 || slices.Contains(num, n.Num))
		})
	}, nodes)
}

// HaveOpenNode matches a container that may open the node at this path.
func HaveOpenNode(at string) types.GomegaMatcher {
	return make_("have the node "+at+" and open it", func(o *observe.Observation) bool {
		return slices.ContainsFunc(o.Nodes, func(n observe.Node) bool { return n.Path == at && n.Open == observe.Allowed })
	}, nodes)
}

func nodes(o *observe.Observation) []string {
	var out []string
	for _, n := range o.Nodes {
		out = append(out, fmt.Sprintf("%s %s %s %04o %d:%d, open is %s", n.Path, n.Type, n.Num, uint32(n.Mode.Perm()), n.UID, n.GID, n.Open))
	}
	return out
}

// HaveMount matches a container in which something is mounted at target with
// all of these options.
func HaveMount(target string, options ...string) types.GomegaMatcher {
	want := "have a mount at " + target
	if len(options) > 0 {
		want += " with " + strings.Join(options, ",")
	}
	return make_(want, func(o *observe.Observation) bool {
		return slices.ContainsFunc(o.Mounts, func(m observe.Mount) bool {
			return m.Target == target && !slices.ContainsFunc(options, func(w string) bool { return !slices.Contains(m.Options, w) })
		})
	}, func(o *observe.Observation) []string {
		var out []string
		for _, m := range o.Mounts {
			out = append(out, fmt.Sprintf("%s %s %s", m.Target, m.Type, strings.Join(m.Options, ",")))
		}
		return out
	})
}

// HaveLink matches a container with a link at this path whose text is target.
// Links are seen in folders and paths that were asked for.
func HaveLink(at, target string) types.GomegaMatcher {
	return make_("have the link "+at+" to "+target, func(o *observe.Observation) bool {
		return slices.ContainsFunc(o.Links, func(l observe.Link) bool { return l.Path == at && l.Target == target })
	}, func(o *observe.Observation) []string {
		var out []string
		for _, l := range o.Links {
			end := l.Final
			if end == "" {
				end = "dangling"
			}
			out = append(out, fmt.Sprintf("%s -> %s (%s)", l.Path, l.Target, end))
		}
		return out
	})
}

// ResolveLibrary matches a container whose loader finds a library for this
// SONAME, in a file that ends in the version and is not the image's own; an empty
// version is any. SONAMEs are looked up when the observation asks for them.
func ResolveLibrary(soname, version string) types.GomegaMatcher {
	want := "find " + soname
	if version != "" {
		want += " of version " + version
	}
	return make_(want, func(o *observe.Observation) bool {
		return slices.ContainsFunc(o.Libraries, func(l observe.Library) bool {
			return l.SONAME == soname && l.Path != "" && l.Problem == "" && l.Origin != observe.Image &&
				(version == "" || strings.HasSuffix(path.Base(l.Final), ".so."+version))
		})
	}, func(o *observe.Observation) []string {
		var out []string
		for _, l := range o.Libraries {
			switch {
			case l.Path == "":
				out = append(out, strings.TrimSuffix(l.SONAME+": not found: "+l.Problem, ": "))
			default:
				out = append(out, strings.TrimSuffix(fmt.Sprintf("%s: %s (%s) by %s, from %s: %s", l.SONAME, l.Path, l.Final, l.Via, cmp.Or(l.Origin, "somewhere"), l.Problem), ": "))
			}
		}
		return out
	})
}
