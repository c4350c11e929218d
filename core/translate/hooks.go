package translate

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
	"gpurig/core/policy"
	"gpurig/core/refuse"
)

// hintHook says how a Spec gets along without a hook. name is its kind or program.
func hintHook(name string) string {
	return "Generate the Spec without this hook (nvidia-ctk cdi generate --disable-hook). " + policy.Hint("leave-out", name)
}

// hooks reads the hooks, and puts their work into the plan.
func (p *part) hooks(list []*specs.Hook) {
	for i, h := range list {
		edit := fmt.Sprintf("hooks[%d]", i)
		if h == nil {
			p.refuse(edit, ReasonNull, "", "there is no hook")
			continue
		}
		p.hook(edit, h)
	}
	if len(list) > 0 {
		p.note("hooks", fmt.Sprintf("program, environment and timeout of %d hooks", len(list)), ReasonNeverRun, true,
			"the hooks' work is done without running their programs")
	}
}

func (p *part) hook(edit string, h *specs.Hook) {
	if !p.hookText(edit, h) {
		return
	}
	if name := path.Base(h.Path); slices.Contains(p.opts.Policy.LeaveOut, name) {
		p.note(edit, "hook of program "+quote(name), ReasonByPolicy, false, "the policy of this host leaves it out")
		return
	}
	kind, rest, why := hookKind(h.Path, h.Args)
	if why != "" {
		p.refuse(edit, ReasonHook, hintHook(path.Base(h.Path)), "%s (rules %q)", why, policy.KindHook)
		return
	}
	rule, ok := p.opts.Policy.Hook(kind)
	if !ok {
		p.refuse(edit, ReasonHook, hintHook(kind), "hook %s is not known (rules %q)", quote(kind), policy.KindHook)
		return
	}
	if stage := stageOf(kind); h.HookName != stage {
		p.refuse(edit, ReasonHookStage, "", "hook %s: stage %s, want %s", quote(kind), quote(h.HookName), stage)
		return
	}
	var values map[string][]string
	if rule.Reason != ReasonByPolicy { // of a hook that is not known, nor are the flags
		if values, why = readFlags(kind, rest); why != "" {
			p.refuse(edit, ReasonHookFlag, "", "hook %s: %s", quote(kind), why)
			return
		}
	}
	if rule.Hook == policy.CarriedOut {
		p.carryOut(edit, kind, values)
		return
	}
	p.note(edit, "hook "+quote(kind), rule.Reason, false, "%s", rule.Why)
}

// stageOf returns the stage at which the toolkit runs a hook.
func stageOf(kind string) string {
	if kind == "apply-cuda-memory-limits" {
		return "createRuntime"
	}
	return "createContainer"
}

// hookText checks every text of a hook, and its environment: the toolkit's own
// variables mean nothing here, all others are refused by name.
func (p *part) hookText(edit string, h *specs.Hook) bool {
	ok := p.text(edit, "path", h.Path) && p.text(edit, "hookName", h.HookName)
	if ok && pathProblem(h.Path) != "" {
		p.refuse(edit, ReasonHook, "", "path %s %s", quote(h.Path), pathProblem(h.Path))
		ok = false
	}
	for i, a := range h.Args {
		ok = p.text(edit, fmt.Sprintf("args[%d]", i), a) && ok
	}
	for i, v := range h.Env {
		if !p.text(edit, fmt.Sprintf("env[%d]", i), v) {
			ok = false
			continue
		}
		if name, _, eq := strings.Cut(v, "="); !eq || !strings.HasPrefix(name, "NVIDIA_CTK_") {
			p.refuse(edit, ReasonHookEnv, "", "env[%d]: %s is not a setting of NVIDIA's toolkit (NVIDIA_CTK_…)", i, quote(v))
			ok = false
		}
	}
	if h.Timeout != nil && *h.Timeout < 0 {
		p.refuse(edit, ReasonHookFlag, "", "timeout %d is negative", *h.Timeout)
		ok = false
	}
	return ok
}

func (p *part) carryOut(edit, kind string, values map[string][]string) {
	need := func(flag string) bool {
		if len(values[flag]) == 0 {
			p.refuse(edit, ReasonHookFlag, "", "hook %q needs --%s", kind, flag)
			return false
		}
		return true
	}
	switch kind {
	case "create-symlinks":
		if need("link") {
			for _, l := range values["link"] {
				p.link(edit, l)
			}
		}
	case "update-ldcache", "create-soname-symlinks":
		for _, f := range values["folder"] {
			p.folder(edit, f)
		}
		if len(values["folder"]) == 0 {
			p.note(edit, "hook "+quote(kind), ReasonNoFolder, false, "it names no folder, so there is nothing to search")
		}
	case "chmod":
		if need("mode") && need("path") {
			p.chmod(edit, values["mode"][0], values["path"])
		}
	}
}

// link reads "target::link" (B34).
func (p *part) link(edit, arg string) {
	target, at, ok := strings.Cut(arg, "::")
	if !ok || target == "" || at == "" || strings.Contains(at, "::") {
		p.refuse(edit, ReasonLink, "", "link %s: want target::link", quote(arg))
		return
	}
	if why := pathProblem(at); why != "" {
		p.refuse(edit, ReasonLink, "", "link %s: its place %s %s", quote(arg), quote(at), why)
		return
	}
	if len(target) > maxPath || strings.HasSuffix(target, "/") {
		p.refuse(edit, ReasonLink, "", "link %s: its target ends in a slash or is longer than %d bytes", quote(arg), maxPath)
		return
	}
	place := p.look.container(at)
	to := p.absolute(place, target)
	if why := pathProblem(to); why != "" && to != "/" {
		p.refuse(edit, ReasonLink, "", "link %s: where it leads, %s, %s", quote(arg), quote(to), why)
		return
	}
	if !p.targetAllowed(edit, place) {
		return
	}
	p.addLink(edit, place, to)
}

// absolute returns where a link at place with this text leads, as seen from the
// container's root. ".." stops there, so no link leaves it (A2).
func (p *part) absolute(place, target string) string {
	if strings.HasPrefix(target, "/") {
		return p.look.container(p.look.strip(cleanAbs(target)))
	}
	return p.look.container(cleanAbs(place + "/../" + target))
}

// addLink puts a link into the plan. to is absolute until settle.
func (p *part) addLink(edit, at, to string) {
	e := p.links[at]
	switch {
	case e == nil:
		p.links[at] = &entry[plan.Link]{plan.Link{Path: at, Target: to, Owners: p.owners}, p.at(edit)}
	case e.v.Target != to:
		e.v.Owners = union(e.v.Owners, p.owners)
		p.others = append(p.others, otherLink{at: at, to: to, from: p.at(edit)})
	default:
		e.v.Owners = union(e.v.Owners, p.owners)
	}
}

// folder reads a library folder. It becomes a line of the loader's
// configuration, so its text is checked as such (B36).
func (p *part) folder(edit, dir string) {
	why := pathProblem(dir)
	if i := strings.IndexAny(dir, ":=# \t,"); why == "" && i >= 0 {
		why = fmt.Sprintf("has %q, which means something in ld.so.conf", dir[i])
	}
	if why != "" {
		p.refuse(edit, ReasonFolder, "", "library folder %s %s", quote(dir), why)
		return
	}
	dir = p.look.container(dir)
	p.folders[dir] = union(p.folders[dir], p.owners)
}

// chmod reads a mode in octal and its paths (A22).
func (p *part) chmod(edit, mode string, paths []string) {
	bits, err := strconv.ParseUint(mode, 8, 32)
	if err != nil || bits > 0o777 || len(mode) > 4 {
		p.refuse(edit, ReasonHookFlag, "", "hook %q: mode %s is not octal within 0777", "chmod", quote(mode))
		return
	}
	for _, at := range paths {
		why := pathProblem(at)
		if why == "" && !strings.HasPrefix(at, "/dev/") {
			why = "is not below /dev"
		}
		if why != "" {
			p.refuse(edit, ReasonChmod, "", "hook %q: path %s %s", "chmod", quote(at), why)
			continue
		}
		if !p.targetAllowed(edit, at) {
			continue
		}
		m := plan.Mode{Path: at, Mode: fs.FileMode(bits), Owners: p.owners}
		e := p.modes[at]
		switch {
		case e == nil:
			p.modes[at] = &entry[plan.Mode]{m, p.at(edit)}
		case e.v.Mode != m.Mode:
			p.refuse(edit, ReasonConflict, "", "%s: mode %#o here, %#o elsewhere (%s)", at, m.Mode, e.v.Mode, e.from)
		default:
			e.v.Owners = union(e.v.Owners, p.owners)
		}
	}
}

// refuseAt refuses something whose first edit is known by name only.
func (w *work) refuseAt(from string, r refuse.Reason, format string, args ...any) {
	w.refusals = append(w.refusals, refuse.New(r, from, format, args...))
}
