package translate

import (
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/policy"
)

// mountOpts are the options of a mount, read.
type mountOpts struct {
	ro, rw, noexec bool
	propagation    string
}

// list returns the options as the plan has them, in fixed order.
//
// nosuid and nodev are always there. A mount is never recursive: what may lie
// below a directory would stay writable and keep its own options, so a
// directory with mounts below it is refused instead. Without a propagation
// option the mount is private, else what the host mounts below it later would
// appear in the container.
func (o mountOpts) list(dir bool) []string {
	out := []string{"ro"}
	if !o.ro {
		out[0] = "rw"
	}
	out = append(out, "nosuid", "nodev")
	if o.noexec {
		out = append(out, "noexec")
	}
	propagation := o.propagation
	if propagation == "" || !dir {
		propagation = "rprivate"
	}
	return append(out, "bind", propagation)
}

// contradictions are options of which only one may be there.
var contradictions = [][]string{
	{"ro", "rw"},
	{"bind", "rbind"},
	{"private", "rprivate", "slave", "rslave"},
}

// mountOptions reads options and type (A25, B31, B32).
func (p *part) mountOptions(edit string, m *specs.Mount) (mountOpts, bool) {
	before := len(p.refusals)
	bind := slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
	if m.Type != "" && m.Type != "bind" && (m.Type != "none" || !bind) {
		p.refuse(edit, ReasonMountType, "", "type %s: only bind mounts and tmpfs are made", quote(m.Type))
	}
	if len(m.Options) > maxOptions {
		p.refuse(edit, ReasonMountOpt, "", "%d options, at most %d are read", len(m.Options), maxOptions)
		return mountOpts{}, false
	}
	for _, o := range m.Options {
		if !p.opts.Policy.Option(o) {
			p.refuse(edit, ReasonMountOpt, policy.NoLine, "option %s is not one of the list (rules \"option\")", quote(o))
		}
	}
	for _, group := range contradictions {
		var have []string
		for _, o := range group {
			if slices.Contains(m.Options, o) {
				have = append(have, o)
			}
		}
		if len(have) > 1 {
			p.refuse(edit, ReasonMountOpt, "", "options %s contradict each other", strings.Join(have, " and "))
		}
	}
	o := mountOpts{
		ro: slices.Contains(m.Options, "ro"), rw: slices.Contains(m.Options, "rw"),
		noexec: slices.Contains(m.Options, "noexec"),
	}
	for _, s := range contradictions[2] {
		if slices.Contains(m.Options, s) {
			// One mount is made, so the recursive word means the same.
			o.propagation = "r" + strings.TrimPrefix(s, "r")
		}
	}
	return o, len(p.refusals) == before
}
