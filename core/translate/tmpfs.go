package translate

import (
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
	"gpurig/core/policy"
)

// tmpfsWords are the options of a tmpfs that stand alone, as they are written.
var tmpfsWords = []string{"ro", "rw", "nosuid", "nodev", "noexec", "strictatime", "relatime", "noatime"}

// tmpfs puts a new tmpfs into the plan, where the policy names its place (B32).
func (p *part) tmpfs(edit string, m *specs.Mount) {
	before := len(p.refusals)
	if !p.text(edit, "hostPath", m.HostPath) || !p.text(edit, "containerPath", m.ContainerPath) {
		return
	}
	if m.HostPath != "tmpfs" && m.HostPath != "none" {
		p.refuse(edit, ReasonSource, "Write tmpfs.", "host path %s of a tmpfs, which has none", quote(m.HostPath))
	}
	if why := pathProblem(m.ContainerPath); why != "" {
		p.refuse(edit, ReasonTarget, "", "container path %s %s", quote(m.ContainerPath), why)
		return
	}
	if !p.targetAllowed(edit, m.ContainerPath) {
		return
	}
	if _, ok := p.opts.Policy.Tmp(m.ContainerPath); !ok {
		p.refuse(edit, ReasonMountType, policy.Hint("tmpfs", m.ContainerPath),
			"type \"tmpfs\" at %s: no tmpfs is mounted there (rules %q)", quote(m.ContainerPath), policy.KindTmpfs)
	}
	options := p.tmpfsOptions(edit, m.Options)
	if len(p.refusals) > before {
		return
	}
	p.addMount(edit, plan.Mount{Type: "tmpfs", Source: "tmpfs", Target: p.look.container(m.ContainerPath), Dir: true, Options: options, Owners: p.owners})
}

// tmpfsOptions reads the options of a tmpfs. nosuid and nodev are always there,
// and it must say its size: without one it may take half of the host's memory.
func (p *part) tmpfsOptions(edit string, list []string) []string {
	if len(list) > maxOptions {
		p.refuse(edit, ReasonMountOpt, "", "%d options, at most %d are read", len(list), maxOptions)
		return nil
	}
	values := map[string]string{}
	var words []string
	for _, o := range list {
		name, value, set := strings.Cut(o, "=")
		why := ""
		switch {
		case !set && slices.Contains(tmpfsWords, o):
			words = append(words, o)
			continue
		case set && name == "mode":
			bits, err := strconv.ParseUint(value, 8, 32)
			if err != nil || bits > 0o1777 || len(value) > 5 {
				why = "is not octal within 1777"
			}
		case set && name == "size":
			why = sizeProblem(value)
		default:
			why = "is not one of a tmpfs: " + strings.Join(tmpfsWords, ", ") + ", mode=, size="
		}
		if _, twice := values[name]; twice {
			why = "occurs twice"
		}
		if why != "" {
			p.refuse(edit, ReasonMountOpt, "", "option %s %s", quote(o), why)
		}
		values[name] = value
	}
	for _, group := range [][]string{{"ro", "rw"}, {"strictatime", "relatime", "noatime"}} {
		have := slices.DeleteFunc(slices.Clone(group), func(o string) bool { return !slices.Contains(words, o) })
		if len(have) > 1 {
			p.refuse(edit, ReasonMountOpt, "", "options %s contradict each other", strings.Join(have, " and "))
		}
	}
	if values["size"] == "" {
		p.refuse(edit, ReasonMountOpt, "Add size=, such as size=64m.", "a tmpfs that says no size may take half of the host's memory")
	}
	out := []string{"rw", "nosuid", "nodev"}
	if slices.Contains(words, "ro") {
		out[0] = "ro"
	}
	for _, o := range tmpfsWords[4:] {
		if slices.Contains(words, o) {
			out = append(out, o)
		}
	}
	if mode := values["mode"]; mode != "" {
		out = append(out, "mode="+mode)
	}
	return append(out, "size="+values["size"])
}

// sizeProblem says what is wrong with a size in bytes, or with k, m or g for
// 1024 of the smaller each (tmpfs(5)); empty: nothing.
func sizeProblem(s string) string {
	digits := strings.TrimRight(s, "kKmMgG")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || len(s)-len(digits) > 1 || n == 0 || n > 1<<40 {
		return "is not a number of bytes with k, m, g or nothing after it"
	}
	return ""
}
