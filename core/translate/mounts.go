package translate

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
	"gpurig/core/policy"
)

// bindMounts puts the mounts into the plan.
func (p *part) bindMounts(list []*specs.Mount) {
	for i, m := range list {
		edit := fmt.Sprintf("mounts[%d]", i)
		if m == nil {
			p.refuse(edit, ReasonNull, "", "there is no mount")
			continue
		}
		p.bindMount(edit, m)
	}
}

func (p *part) bindMount(edit string, m *specs.Mount) {
	if m.Type == "tmpfs" {
		p.tmpfs(edit, m)
		return
	}
	opts, ok := p.mountOptions(edit, m)
	if !p.mountPaths(edit, m) || !ok {
		return
	}
	f := p.look.at(m.HostPath)
	switch {
	case f.gone() && !p.named(edit, m):
		return
	case f.gone():
		p.missing = append(p.missing, missing{p.at(edit), m.HostPath})
		return
	case f.err != nil:
		p.refuse(edit, ReasonSource, "", "cannot look at %s: %v", quote(m.HostPath), f.err)
		return
	}
	mode := f.info.Mode
	if !mode.IsDir() && !mode.IsRegular() && mode&fs.ModeSocket == 0 {
		p.refuse(edit, ReasonSource, "Device nodes belong into deviceNodes.",
			"%s is %s; want a file, a directory or a socket", quote(m.HostPath), describe(f))
		return
	}
	if !p.sourceAllowed(edit, m, f, &opts) {
		return
	}
	p.place(edit, m, f, opts.list(mode.IsDir()))
}

// mountPaths checks the shape of both paths, and the target against the policy
// (B28, B29, A31).
func (p *part) mountPaths(edit string, m *specs.Mount) bool {
	ok := true
	check := func(field, s, what string, no func(why string)) {
		if !p.text(edit, field, s) {
			ok = false
		} else if why := pathProblem(s); why != "" {
			no(why)
			ok = false
		}
	}
	check("hostPath", m.HostPath, "host path", func(why string) {
		p.refuse(edit, ReasonSource, "", "host path %s %s", quote(m.HostPath), why)
	})
	check("containerPath", m.ContainerPath, "container path", func(why string) {
		p.refuse(edit, ReasonTarget, "", "container path %s %s", quote(m.ContainerPath), why)
	})
	return ok && p.targetAllowed(edit, m.ContainerPath)
}

func (p *part) targetAllowed(edit, at string) bool {
	if name, ok := strings.CutPrefix(at, "/dev/"); ok {
		first, _, _ := strings.Cut(name, "/")
		if r, reserved := p.opts.Policy.DevName(first); reserved {
			p.refuse(edit, ReasonTargetBad, policy.NoLine, "container path %s is reserved: %s (rule %q)", quote(at), r.Why, r.Name())
			return false
		}
	}
	for _, t := range slices.Compact([]string{at, p.look.container(at)}) {
		if r, denied := p.opts.Policy.Target(t); denied {
			p.refuse(edit, ReasonTargetBad, policy.NoLine, "container path %s must not be replaced: %s (rule %q)", quote(at), r.Why, r.Name())
			return false
		}
	}
	return true
}

// sourceAllowed checks the file that the host path leads to (A20, A26, A31).
func (p *part) sourceAllowed(edit string, m *specs.Mount, f found, o *mountOpts) bool {
	r, write, ok := p.opts.Policy.Source(f.inner)
	if !ok {
		p.refuse(edit, ReasonSourceBad, policy.Hint("sources", f.inner),
			"host path %s%s is not one that containers are given (rules \"source\")", quote(m.HostPath), leads(m, f))
		return false
	}
	if bad, err := p.look.untrusted(f.source); err != nil || bad != "" && !write {
		if err != nil {
			p.refuse(edit, ReasonSource, "", "cannot look at %s: %v", f.source, err)
		} else {
			p.refuse(edit, ReasonUntrusted, fmt.Sprintf("Take away the write permission of others: chmod o-w %s", bad),
				"host path %s%s: everybody can write to %s", quote(m.HostPath), leads(m, f), bad)
		}
		return false
	}
	if f.info.Mode.IsDir() {
		sub, err := p.look.submount(f.source)
		if err != nil || sub != "" {
			p.refuse(edit, ReasonSubmounts, "", "host directory %s has a mount below it, %s, which would not be read-only in the container%s",
				quote(m.HostPath), quote(sub), cause(err))
			return false
		}
	}
	return p.writable(edit, m, f, write, r.Name(), o)
}

// named checks a host path where nothing is: the policy is asked for its name.
func (p *part) named(edit string, m *specs.Mount) bool {
	at := p.look.container(p.look.strip(m.HostPath))
	_, _, ok := p.opts.Policy.Source(at)
	if !ok {
		p.refuse(edit, ReasonSourceBad, policy.Hint("sources", at), "host path %s, where nothing is, is not one that containers are given (rules \"source\")", quote(m.HostPath))
	}
	return ok
}

func cause(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func leads(m *specs.Mount, f found) string {
	if f.source == m.HostPath {
		return ""
	}
	return ", which is " + quote(f.source) + ","
}

// writable settles ro and rw. A socket needs no ro: its file cannot be written.
func (p *part) writable(edit string, m *specs.Mount, f found, write bool, rule string, o *mountOpts) bool {
	socket := f.info.Mode&fs.ModeSocket != 0
	switch {
	case o.ro || write || socket:
	case o.rw && f.inner != "/dev/dri/by-path":
		p.refuse(edit, ReasonSourceRW, "Write ro. "+policy.Hint("writable", f.inner),
			"host path %s%s is not one that containers may write to (rule %q)", quote(m.HostPath), leads(m, f), rule)
		return false
	default:
		// Without ro the container could change the host's own driver files.
		o.ro, o.rw = true, false
		p.note(edit, "mount of "+m.ContainerPath, ReasonReadOnly, true,
			"%s is mounted read-only: the container must not change the host's file", f.source)
	}
	return true
}

// place decides where in the container the source goes.
//
// A host path whose directory is a link means the file in the real directory,
// and no link is needed. Where the last component itself is a link and both
// sides have the same path, the container gets the same picture: the file at
// its own place, and the link.
func (p *part) place(edit string, m *specs.Mount, f found, options []string) {
	target := p.look.container(m.ContainerPath)
	mount := plan.Mount{Source: f.source, Target: target, Dir: f.info.Mode.IsDir(), Options: options, Owners: p.owners}
	if f.link && p.look.container(p.look.strip(m.HostPath)) == target {
		real := p.look.container(f.inner)
		if _, denied := p.opts.Policy.Target(real); real != target && !denied && pathProblem(real) == "" {
			mount.Target = real
			p.addLink(edit, target, real)
		}
	}
	p.addMount(edit, mount)
}

// addMount puts a mount into the plan, or merges it with an equal one (B27).
func (p *part) addMount(edit string, m plan.Mount) {
	e := p.mounts[m.Target]
	switch {
	case e == nil:
		p.mounts[m.Target] = &entry[plan.Mount]{m, p.at(edit)}
	case e.v.Source != m.Source || e.v.Type != m.Type:
		p.refuse(edit, ReasonConflict, "", "container path %s: %s here, %s elsewhere (%s)", quote(m.Target), quote(m.Source), quote(e.v.Source), e.from)
	case !slices.Equal(e.v.Options, m.Options):
		p.refuse(edit, ReasonConflict, "", "container path %s: options %v here, %v elsewhere (%s)", quote(m.Target), m.Options, e.v.Options, e.from)
	default:
		e.v.Owners = union(e.v.Owners, m.Owners)
	}
}
