// Package policy lists the device drivers, host paths, environment variables,
// mount options and hooks that a CDI Spec may use.
//
// The author of a Spec is trusted only to name devices that this table allows:
// the table stands between a file and a container manager
// that executes it as root. A Policy only adds to the table, by name; its zero value
// is the table itself. Looking at the host, and refusing, is the job of package
// translate.
package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Policy widens the table of defaults. It says nothing that narrows it. The
// keys are those of the file that an administrator writes; see package
// policyfile.
type Policy struct {
	// Drivers are more names of /proc/devices (or /proc/misc, for major 10)
	// whose character devices a container may get, exactly as printed there.
	Drivers []string `json:"drivers,omitempty" yaml:"drivers,omitempty"`
	// BlockDrivers are names of /proc/devices whose block devices a container
	// may get. The table has none.
	BlockDrivers []string `json:"block-drivers,omitempty" yaml:"block-drivers,omitempty"`
	// Sources are more host paths that may be mounted, each with all below it.
	Sources []string `json:"sources,omitempty" yaml:"sources,omitempty"`
	// Writable are more host paths that may be mounted for writing, each with
	// all below it. They need not be in Sources too.
	Writable []string `json:"writable,omitempty" yaml:"writable,omitempty"`
	// Tmpfs are container paths where a tmpfs may be mounted, each with all below
	// it. The table has none, and its targets stay forbidden.
	Tmpfs []string `json:"tmpfs,omitempty" yaml:"tmpfs,omitempty"`
	// Environment is more names of environment variables.
	Environment []string `json:"environment,omitempty" yaml:"environment,omitempty"`
	// LeaveOut are hook kinds, or names of hook programs, that may be left out
	// with a note, where the table does not know them.
	LeaveOut []string `json:"leave-out,omitempty" yaml:"leave-out,omitempty"`
}

// A FieldError says which entry of a Policy is wrong, and why.
type FieldError struct {
	Field string // "sources[1]"
	Why   string
}

func (e *FieldError) Error() string { return fmt.Sprintf("policy: %s: %s", e.Field, e.Why) }

// Validate reports every entry that could not mean what it says, joined.
func (p Policy) Validate() error {
	var errs []error
	each := func(field string, list []string, problem func(string) string) {
		for i, s := range list {
			if why := problem(s); why != "" {
				errs = append(errs, &FieldError{Field: fmt.Sprintf("%s[%d]", field, i), Why: why})
			}
		}
	}
	driver := func(s string) string {
		if why := nameProblem(s); why != "" {
			return why
		}
		return denied(driverDeny, s, func(r Rule) bool { return r.Match == s })
	}
	source := func(s string) string {
		if why := pathProblem(s); why != "" {
			return why
		}
		return denied(sourceDeny, s, func(r Rule) bool { return below(s, r.Match) || below(r.Match, s) })
	}
	each("drivers", p.Drivers, driver)
	each("block-drivers", p.BlockDrivers, driver)
	each("sources", p.Sources, source)
	each("writable", p.Writable, source)
	each("tmpfs", p.Tmpfs, func(s string) string {
		if why := pathProblem(s); why != "" {
			return why
		}
		if r, bad := p.Target(s); bad && !r.Only {
			return fmt.Sprintf("%q cannot be allowed: %s (rule %q)", s, r.Why, r.Name())
		}
		return ""
	})
	each("environment", p.Environment, func(s string) string {
		if why := nameProblem(s); why != "" {
			return why
		}
		return denied(envDeny, s, func(r Rule) bool { return r.matches(s) })
	})
	each("leave-out", p.LeaveOut, nameProblem)
	return errors.Join(errs...)
}

// denied says which rule keeps an entry from being allowed; empty: none.
func denied(rules []Rule, s string, hit func(Rule) bool) string {
	if i := slices.IndexFunc(rules, hit); i >= 0 {
		return fmt.Sprintf("%q cannot be allowed: %s (rule %q)", s, rules[i].Why, rules[i].Name())
	}
	return ""
}

func nameProblem(s string) string {
	if s == "" {
		return "is empty"
	}
	if strings.ContainsAny(s, "*?[]=") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Sprintf("%+q is not a plain name; patterns are not read here", s)
	}
	return ""
}

func pathProblem(s string) string {
	switch {
	case !path.IsAbs(s) || path.Clean(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Sprintf("%+q is not an absolute, clean path", s)
	case s == "/":
		return "the whole file system cannot be allowed"
	}
	return ""
}

// matches reports whether a name is the rule's. Most rules are plain names.
func (r Rule) matches(name string) bool {
	if !strings.ContainsAny(r.Match, "*[") {
		return r.Match == name
	}
	ok, err := path.Match(r.Match, name)
	return ok && err == nil
}

// below reports whether p is dir or lies below it, by whole components.
func below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// Driver returns the rule that allows character devices of a driver, by its
// name in /proc/devices. tegra says whether the host is a Tegra SoC, whose
// display and video drivers belong to the GPU.
func (p Policy) Driver(name string, tegra bool) (Rule, bool) {
	if slices.Contains(p.Drivers, name) {
		return Rule{Kind: KindDriver, Match: name, Why: widened}, true
	}
	for _, r := range drivers {
		if r.Tegra && !tegra {
			continue
		}
		if r.matches(name) {
			return r, true
		}
	}
	return Rule{}, false
}

// Misc is Driver for devices of major 10, by their name in /proc/misc.
func (p Policy) Misc(name string, tegra bool) (Rule, bool) {
	if slices.Contains(p.Drivers, name) {
		return Rule{Kind: KindMisc, Match: name, Why: widened}, true
	}
	for _, r := range misc {
		if r.Match == name && (tegra || !r.Tegra) {
			return r, true
		}
	}
	return Rule{}, false
}

// Block returns the rule that allows block devices of a driver, by its name in
// /proc/devices. Only a policy does.
func (p Policy) Block(name string) (Rule, bool) {
	if slices.Contains(p.BlockDrivers, name) {
		return Rule{Kind: KindBlock, Match: name, Why: widened}, true
	}
	return Rule{}, false
}

// Tmp returns the rule that allows a tmpfs at a container path. Only a policy
// does.
func (p Policy) Tmp(at string) (Rule, bool) {
	for _, dir := range p.Tmpfs {
		if below(at, dir) {
			return Rule{Kind: KindTmpfs, Match: dir, Why: widened}, true
		}
	}
	return Rule{}, false
}

// Source returns the rule that allows mounting a host path. p has no links in
// it; write says whether the container may write through the mount.
func (p Policy) Source(at string) (r Rule, write, ok bool) {
	for _, dir := range p.Writable {
		if below(at, dir) {
			return Rule{Kind: KindSource, Match: dir, Write: true, Why: widened}, true, true
		}
	}
	for _, dir := range p.Sources {
		if below(at, dir) {
			return Rule{Kind: KindSource, Match: dir, Why: widened}, false, true
		}
	}
	for _, r := range sources {
		if below(at, r.Match) && (r.Itself || at != r.Match) {
			return r, r.Write, true
		}
	}
	return Rule{}, false, false
}

// Target returns the rule that forbids something of a Spec at a container path.
func (p Policy) Target(at string) (Rule, bool) {
	for _, r := range targets {
		// Most rules are told apart by their second letter.
		if len(at) > 1 && at[1] != r.Match[1] {
			continue
		}
		if below(at, r.Match) && (at == r.Match || !r.Only) || below(r.Match, at) {
			return r, true
		}
	}
	return Rule{}, false
}

// DevName returns the rule that reserves a name directly below /dev.
func (p Policy) DevName(name string) (Rule, bool) {
	for _, r := range devNames {
		if r.matches(name) {
			return r, true
		}
	}
	return Rule{}, false
}

// Env returns the rule that allows or forbids an environment variable. Without
// a rule the name is not allowed, and r is the zero Rule.
func (p Policy) Env(name string) (r Rule, ok bool) {
	if r, denied := envDenied(name); denied {
		return r, false
	}
	if slices.Contains(p.Environment, name) {
		return Rule{Kind: KindEnv, Match: name, Why: widened}, true
	}
	for _, r := range envAllow {
		if r.matches(name) {
			return r, true
		}
	}
	return Rule{}, false
}

func envDenied(name string) (Rule, bool) {
	for _, r := range envDeny {
		if r.matches(name) {
			return r, true
		}
	}
	return Rule{}, false
}

// Option reports whether a mount option is one of the closed list.
func (p Policy) Option(name string) bool {
	for _, r := range options {
		if r.Match == name {
			return true
		}
	}
	return false
}

// Hook returns the rule of a hook kind; without one the kind is not known.
func (p Policy) Hook(kind string) (Rule, bool) {
	for _, r := range hooks {
		if r.Match == kind {
			return r, true
		}
	}
	if slices.Contains(p.LeaveOut, kind) {
		return Rule{Kind: KindHook, Match: kind, Hook: LeftOut, Reason: LeftOutByPolicy, Why: widened}, true
	}
	return Rule{}, false
}
