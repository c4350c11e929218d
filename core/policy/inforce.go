package policy

import (
	"regexp"
	"slices"
	"strconv"
)

// File is the policy of a host. It counts only if nobody but root can write it.
const File = "/etc/gpurig/policy.yaml"

// InForce returns every rule as p has it: what p allows first, in the order of
// its keys, then Table.
func (p Policy) InForce() []Rule {
	var own []Rule
	for _, k := range []struct {
		kind Kind
		list []string
	}{{KindDriver, p.Drivers}, {KindBlock, p.BlockDrivers}, {KindSource, p.Sources}, {KindSource, p.Writable}, {KindTmpfs, p.Tmpfs}, {KindEnv, p.Environment}, {KindHook, p.LeaveOut}} {
		for _, name := range k.list {
			r := Rule{Kind: k.kind, Match: name, Why: widened}
			switch k.kind {
			case KindSource:
				r.Itself, r.Write = true, slices.Contains(p.Writable, name)
			case KindHook:
				r.Hook, r.Reason = LeftOut, LeftOutByPolicy
			}
			if !slices.ContainsFunc(own, func(o Rule) bool { return o.Name() == r.Name() }) {
				own = append(own, r)
			}
		}
	}
	return append(own, Table()...)
}

// Line returns the line of a policy file that allows name under key:
// "sources: [/srv/vendor]". It is empty where no line does: where a Policy of
// it would not be valid.
func Line(key, name string) string {
	var p Policy
	for k, list := range map[string]*[]string{
		"drivers": &p.Drivers, "block-drivers": &p.BlockDrivers, "sources": &p.Sources, "writable": &p.Writable,
		"tmpfs": &p.Tmpfs, "environment": &p.Environment, "leave-out": &p.LeaveOut,
	} {
		if k == key {
			*list = []string{name}
		}
	}
	if p.Validate() != nil {
		return ""
	}
	if !plain.MatchString(name) {
		name = strconv.Quote(name)
	}
	return key + ": [" + name + "]"
}

// plain is what stands in YAML as it is, and is no number and no word of YAML.
var plain = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// NoLine is the hint of what no policy can permit.
const NoLine = "No line of " + File + " can permit it."

// Hint says which line of the policy file would allow name, or that none can.
func Hint(key, name string) string {
	if line := Line(key, name); line != "" {
		return "An administrator can permit it with the line \"" + line + "\" in " + File + "."
	}
	return NoLine
}
