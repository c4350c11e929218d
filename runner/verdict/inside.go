package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

// looksInside reports whether anything is expected of what the container sees,
// and finds fault with a container that cannot be looked into.
func (j *judge) looksInside() bool {
	w := j.want
	n := len(w.Nodes) + len(w.Absent) + len(w.Links) + len(w.Resolves) + len(w.Mounts) + len(w.Library) + len(w.Files) + len(w.Contents) + len(w.Env)
	if n == 0 && w.OnlyNodes == nil && w.Groups == nil && w.Smoke == nil {
		return false
	}
	if j.ev.Seen == nil {
		j.add(Inside, "container", "running, to be looked into", "not running")
		return false
	}
	return true
}

func (j *judge) inside() {
	for _, p := range slices.Sorted(maps.Keys(j.want.Nodes)) {
		j.node(p, j.want.Nodes[p])
	}
	j.onlyNodes()
	for _, pattern := range j.want.Absent {
		j.absent(pattern)
	}
	for _, p := range slices.Sorted(maps.Keys(j.want.Links)) {
		j.link(p, j.want.Links[p])
	}
	for _, p := range slices.Sorted(maps.Keys(j.want.Resolves)) {
		j.resolves(p, j.want.Resolves[p])
	}
	for _, p := range slices.Sorted(maps.Keys(j.want.Mounts)) {
		j.mount(p, j.want.Mounts[p])
	}
	for _, s := range slices.Sorted(maps.Keys(j.want.Library)) {
		j.library(s, j.want.Library[s])
	}
	for _, p := range slices.Sorted(maps.Keys(j.want.Files)) {
		j.file(p, j.want.Files[p])
	}
	for _, p := range slices.Sorted(maps.Keys(j.want.Contents)) {
		j.content(p, j.want.Contents[p])
	}
	j.process()
	j.smoke()
}

func (j *judge) seenNode(p string) *observe.Node {
	for i := range j.ev.Seen.Nodes {
		if j.ev.Seen.Nodes[i].Path == p {
			return &j.ev.Seen.Nodes[i]
		}
	}
	return nil
}

// node judges one node, property by property, and looks up in the plan where a
// wrong one came from.
func (j *judge) node(p string, want scenarios.NodeExpect) {
	got := j.seenNode(p)
	planned := j.ev.planNode(p)
	if got == nil {
		j.add(j.ev.missing(p, j.ev.specNode(p) != nil, planned != nil), p, "a device node", j.whatIsAt(p))
		return
	}
	// wrong is the plan when it already has the seen value, else the container.
	wrong := func(inPlan bool) Station {
		if planned != nil && !inPlan {
			return Plan
		}
		return Inside
	}
	if want.Number != "" && got.Num.String() != want.Number {
		at := wrong(planned != nil && planned.Num.String() == want.Number)
		if sn := j.ev.specNode(p); at == Plan && sn != nil && sn.Major != 0 && (device.Num{Major: uint32(sn.Major), Minor: uint32(sn.Minor)}).String() != want.Number {
			at = Spec
		}
		j.add(at, p, "number "+want.Number, "number "+got.Num.String())
	}
	if want.Type != "" && string(got.Type) != want.Type {
		j.add(wrong(planned != nil && string(planned.Type) == want.Type), p, "type "+want.Type, "type "+string(got.Type))
	}
	if want.Mode != "" {
		mode, err := strconv.ParseUint(want.Mode, 8, 32)
		if err != nil || uint64(got.Mode.Perm()) != mode {
			j.add(wrong(planned != nil && uint64(planned.Mode.Perm()) == mode), p, "mode "+want.Mode, fmt.Sprintf("mode %04o", uint32(got.Mode.Perm())))
		}
	}
	if want.UID != nil && got.UID != *want.UID {
		j.add(wrong(planned != nil && planned.UID == *want.UID), p, fmt.Sprintf("owner %d", *want.UID), fmt.Sprintf("owner %d", got.UID))
	}
	if want.GID != nil && got.GID != *want.GID {
		j.add(wrong(planned != nil && planned.GID == *want.GID), p, fmt.Sprintf("group %d", *want.GID), fmt.Sprintf("group %d", got.GID))
	}
	if want.Open != "" && string(got.Open) != want.Open {
		j.add(j.openStation(want.Open, got), p, "open is "+want.Open, "open is "+string(got.Open))
	}
}

// openStation finds where a permission went wrong: the plan's permissions, the
// device rule in the configuration, or the container.
func (j *judge) openStation(want string, got *observe.Node) Station {
	planned := j.ev.planNode(got.Path)
	permits := planned != nil && strings.Contains(planned.Permissions, "r") && strings.Contains(planned.Permissions, "w")
	switch {
	case want == string(observe.Allowed) && !permits, want == string(observe.Denied) && permits:
		return Plan
	case want == string(observe.Allowed) && got.Open == observe.Denied && !j.allowLine(got.Num):
		return Configuration
	}
	return Inside
}

func (j *judge) allowLine(n device.Num) bool {
	if j.ev.Configuration == "" {
		return true
	}
	for line := range strings.Lines(j.ev.Configuration) {
		if strings.Contains(line, "devices.allow") && strings.Contains(line, n.String()) {
			return true
		}
	}
	return false
}

func (j *judge) nodePaths() []string {
	var all []string
	for _, n := range j.ev.Seen.Nodes {
		all = append(all, n.Path)
	}
	return all
}

// onlyNodes judges that the nodes are exactly those of the patterns, each of
// which must match.
func (j *judge) onlyNodes() {
	if j.want.OnlyNodes == nil {
		return
	}
	for _, n := range j.ev.Seen.Nodes {
		if !slices.ContainsFunc(j.want.OnlyNodes, func(p string) bool { return Match(p, n.Path) }) {
			j.add(j.ev.unwanted(j.ev.specNode(n.Path) != nil, j.ev.planNode(n.Path) != nil), n.Path, "no node other than "+listed(j.want.OnlyNodes), "node "+n.Num.String())
		}
	}
	for _, pattern := range j.want.OnlyNodes {
		if !slices.ContainsFunc(j.nodePaths(), func(p string) bool { return Match(pattern, p) }) {
			p := j.ev.nodeLike(pattern)
			j.add(j.ev.missing(p, j.ev.specNode(p) != nil, j.ev.planNode(p) != nil), pattern, "a device node", "nodes: "+listed(j.nodePaths()))
		}
	}
}

// absent judges that nothing seen matches the pattern.
func (j *judge) absent(pattern string) {
	for _, e := range j.everything() {
		if Match(pattern, e.path) {
			inSpec := j.ev.specNode(e.path) != nil || j.ev.specMount(e.path) || j.ev.specLink(e.path)
			inPlan := j.ev.planNode(e.path) != nil || j.ev.planMount(e.path) != nil || j.ev.planLink(e.path) != nil
			j.add(j.ev.unwanted(inSpec, inPlan), e.path, "nothing", e.what)
		}
	}
}

type thing struct{ path, what string }

// everything lists all paths that were seen, each with what it is.
func (j *judge) everything() []thing {
	var out []thing
	o := j.ev.Seen
	for _, n := range o.Nodes {
		out = append(out, thing{n.Path, "device node " + n.Num.String()})
	}
	for _, m := range o.Mounts {
		out = append(out, thing{m.Target, "mounted " + m.Type})
	}
	for _, l := range o.Links {
		out = append(out, thing{l.Path, "link to " + l.Target})
	}
	for _, f := range o.Files {
		if f.Type != "absent" {
			out = append(out, thing{f.Path, fmt.Sprintf("%s of %d bytes", f.Type, f.Size)})
		}
	}
	slices.SortStableFunc(out, func(a, b thing) int { return cmp.Compare(a.path, b.path) })
	return slices.CompactFunc(out, func(a, b thing) bool { return a.path == b.path })
}

// whatIsAt says what was seen at p in place of what was expected, or what else
// is in its folder.
func (j *judge) whatIsAt(p string) string {
	var beside []string
	for _, e := range j.everything() {
		if e.path == p {
			return e.what
		}
		if path.Dir(e.path) == path.Dir(p) {
			beside = append(beside, path.Base(e.path))
		}
	}
	return "nothing; beside it: " + listed(beside)
}

func (j *judge) seenLink(p string) *observe.Link {
	for i := range j.ev.Seen.Links {
		if j.ev.Seen.Links[i].Path == p {
			return &j.ev.Seen.Links[i]
		}
	}
	return nil
}

func (j *judge) link(p, target string) {
	got, planned := j.seenLink(p), j.ev.planLink(p)
	if got != nil && got.Target == target {
		return
	}
	at := Inside
	switch {
	case planned == nil && !j.ev.specLink(p):
		at = Spec
	case planned == nil || planned.Target != target:
		at = Plan
	}
	if got == nil {
		j.add(at, p, "link to "+target, j.whatIsAt(p))
	} else {
		j.add(at, p, "link to "+target, "link to "+got.Target)
	}
}

// resolves judges where a path ends. What is no link ends where it is.
func (j *judge) resolves(p, final string) {
	got := ""
	if l := j.seenLink(p); l != nil {
		got = cmp.Or(l.Final, "dangling link to "+l.Target)
	} else {
		for _, e := range j.everything() {
			if e.path == p {
				got = p
			}
		}
	}
	if got == final {
		return
	}
	at := Inside
	if j.ev.planLink(p) == nil && j.ev.planMount(p) == nil {
		at = Plan
	}
	j.add(at, p, "leads to "+final, cmp.Or(got, j.whatIsAt(p)))
}

// mount judges that something is mounted at target with all these options.
func (j *judge) mount(target, options string) {
	var seen []observe.Mount
	for _, m := range j.ev.Seen.Mounts {
		if m.Target == target {
			seen = append(seen, m)
		}
	}
	planned := j.ev.planMount(target)
	inPlan := planned != nil || j.ev.planNode(target) != nil
	if len(seen) == 0 {
		j.add(j.ev.missing(target, j.ev.specMount(target) || j.ev.specNode(target) != nil, inPlan), target, "a mount", j.whatIsAt(target))
		return
	}
	last := seen[len(seen)-1]
	for _, o := range strings.Split(options, ",") {
		if o == "" || slices.Contains(last.Options, o) {
			continue
		}
		at := Mounts
		if planned != nil && !slices.Contains(planned.Options, o) && o != "rw" {
			at = Plan
		}
		j.add(at, target, "mounted with "+options, "mounted with "+strings.Join(last.Options, ","))
		return
	}
}

func (j *judge) file(p, want string) {
	for _, f := range j.ev.Seen.Files {
		if f.Path != p {
			continue
		}
		got := f.Type
		if got == "file" && f.Size == 0 {
			got = "empty"
		}
		if got != want {
			j.add(Inside, p, want, got)
		}
		return
	}
	j.add(Inside, p, want, j.whatIsAt(p))
}

// content judges the text of a file.
func (j *judge) content(p, want string) {
	for _, c := range j.ev.Seen.Contents {
		if c.Path != p {
			continue
		}
		if c.Problem != "" || c.Text != want {
			j.add(Inside, p, strconv.Quote(want), cmp.Or(c.Problem, strconv.Quote(c.Text)))
		}
		return
	}
	j.add(Inside, p, strconv.Quote(want), "was not asked for: the request lacks it")
}

// nowhere judges that texts are in nothing that the container can read, and in nothing
// that was said. A container that does not run has read nothing.
func (j *judge) nowhere() {
	for _, text := range j.want.Nowhere {
		if slices.ContainsFunc(j.heard(), func(h string) bool { return strings.Contains(h, text) }) {
			j.add(cmp.Or(j.ev.At, Plan), "message", "none with "+strconv.Quote(text), "one that has it")
		}
		if j.ev.Seen == nil {
			continue
		}
		for _, f := range j.ev.Seen.Found {
			if f.Text == text {
				j.add(Inside, f.Path, "no "+strconv.Quote(text), "it is there")
			}
		}
	}
}

// process judges environment and groups.
func (j *judge) process() {
	for _, name := range slices.Sorted(maps.Keys(j.want.Env)) {
		want := name + "=" + j.want.Env[name]
		if slices.Contains(j.ev.Seen.Env, want) {
			continue
		}
		got := "not set"
		for _, v := range j.ev.Seen.Env {
			if strings.HasPrefix(v, name+"=") {
				got = v
			}
		}
		j.add(j.envStation(name), name, want, got)
	}
	if j.want.Groups != nil && !slices.Equal(slices.Sorted(slices.Values(j.want.Groups)), slices.Sorted(slices.Values(j.ev.Seen.Groups))) {
		at := Inside
		if j.ev.Plan != nil && !slices.Equal(j.ev.Plan.Groups, j.want.Groups) {
			at = Plan
		}
		j.add(at, "additional groups", fmt.Sprint(j.want.Groups), fmt.Sprint(j.ev.Seen.Groups))
	}
}

func (j *judge) envStation(name string) Station {
	for _, e := range j.ev.Edits {
		if e.Edits != nil && slices.ContainsFunc(e.Edits.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			if j.ev.Plan == nil || !slices.ContainsFunc(j.ev.Plan.Env, func(v plan.Var) bool { return v.Name == name }) {
				return Plan
			}
			return Inside
		}
	}
	return Spec
}
