package fault

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw"
)

// The groups of nodes that nvidia-modprobe makes, each when something asks for it,
// in the order in which a fault names them.
//
// Source: nvidia-modprobe(1), of which NVML's and CUDA's libraries do the same.
var nodeGroups = []struct {
	name string
	has  func(node string) bool
}{
	{"gpus", func(p string) bool {
		rest, ok := strings.CutPrefix(p, "/dev/nvidia")
		return ok && (rest == "ctl" || rest != "" && strings.Trim(rest, "0123456789") == "")
	}},
	{"modeset", func(p string) bool { return p == "/dev/nvidia-modeset" }},
	{"uvm", func(p string) bool { return strings.HasPrefix(p, "/dev/nvidia-uvm") }},
	{"caps", func(p string) bool { return strings.HasPrefix(p, "/dev/nvidia-caps/") }},
}

// InGroup reports whether a node is of that group: "gpus", "modeset", "uvm" or
// "caps".
func InGroup(group, node string) bool {
	for _, g := range nodeGroups {
		if g.name == group {
			return g.has(node)
		}
	}
	return false
}

// groups reads GROUP,... in any order; nothing is all of them.
func groups(f *Fault, s string) error {
	if s == "" {
		return nil
	}
	var known, named []string
	words := strings.Split(s, ",")
	for _, g := range nodeGroups {
		known = append(known, g.name)
		if slices.Contains(words, g.name) {
			named = append(named, g.name)
		}
	}
	for i, w := range words {
		if !slices.Contains(known, w) {
			return fmt.Errorf("%q is none of %s", w, strings.Join(known, ", "))
		}
		if slices.Contains(words[:i], w) {
			return fmt.Errorf("%q is named twice", w)
		}
	}
	f.name = strings.Join(named, ",")
	return nil
}

// groupNames returns the groups that a fault of the kind unmade is about.
func (f Fault) groupNames() []string {
	if f.name != "" {
		return strings.Split(f.name, ",")
	}
	var out []string
	for _, g := range nodeGroups {
		out = append(out, g.name)
	}
	return out
}

func breakUnmade(b *Broken, f Fault) error {
	found := false
	for _, group := range f.groupNames() {
		if group == "uvm" && hasUVM(b.Model) {
			b.Model = withoutUVM(b.Model)
			found = true
			continue
		}
		for _, n := range b.Model.Nodes {
			if !InGroup(group, n.Path) {
				continue
			}
			m, err := fakehw.WithoutNode(b.Model, n.Path)
			if err != nil {
				return err
			}
			b.Model = m
			found = true
		}
	}
	if !found {
		return impossible("this host has no nodes of the groups %s", strings.Join(f.groupNames(), ", "))
	}
	return nil
}

// Made returns l, faults of the host m, after NVIDIA's tools have made the nodes of
// a group: what was said of it by the kind unmade is so no longer. All other faults
// stay, and what they take away is not there in spite of the tools.
func (l List) Made(group string, m host.Model) List {
	i := slices.IndexFunc(l, func(f Fault) bool {
		return f.kind == "unmade" && slices.Contains(f.groupNames(), group)
	})
	if i < 0 {
		return l
	}
	f := l[i]
	f.name = strings.Join(slices.DeleteFunc(f.groupNames(), func(g string) bool { return g == group }), ",")
	out := slices.Clone(l)
	if out[i] = f; f.name != "" {
		if _, err := Break(m, out); err == nil {
			return out
		}
	}
	if out = slices.Delete(out, i, i+1); len(out) == 0 { // the host has no others
		return nil
	}
	return out
}
