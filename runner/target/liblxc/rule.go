package liblxc

import (
	"fmt"
	"strconv"
	"strings"

	"gpurig/core/device"
)

// A Rule is one line of a device cgroup.
type Rule struct {
	Allow bool
	Type  device.Type // "": all devices ("a")
	Major int64       // -1: any
	Minor int64       // -1: any
	Perms string      // of "rwm"
}

// ParseRule reads "c 195:0 rw", "b *:* m" or "a".
func ParseRule(s string) (Rule, error) {
	if s == "a" || strings.HasPrefix(s, "a ") {
		return Rule{Major: -1, Minor: -1, Perms: "rwm"}, nil
	}
	f := strings.Fields(s)
	if len(f) != 3 || f[0] != "c" && f[0] != "b" {
		return Rule{}, fmt.Errorf("device rule %q: want a type, numbers and permissions", s)
	}
	major, minor, ok := strings.Cut(f[1], ":")
	r := Rule{Type: device.Type(f[0]), Perms: f[2]}
	var err1, err2 error
	r.Major, err1 = number(major)
	r.Minor, err2 = number(minor)
	if !ok || err1 != nil || err2 != nil {
		return Rule{}, fmt.Errorf("device rule %q: %q is not major:minor", s, f[1])
	}
	if strings.Trim(r.Perms, "rwm") != "" {
		return Rule{}, fmt.Errorf("device rule %q: permissions are of r, w and m", s)
	}
	return r, nil
}

func number(s string) (int64, error) {
	if s == "*" {
		return -1, nil
	}
	return strconv.ParseInt(s, 10, 32)
}

// A Cgroup says which devices may be opened.
type Cgroup struct {
	open  bool // what no exception covers is allowed
	rules []Rule
}

// NewCgroup applies rules in order, as the kernel's device controller does:
// "a" sets the default and forgets all exceptions before it, anything else is
// an exception to the default. Without any rule everything is allowed.
func NewCgroup(rules []Rule) Cgroup {
	g := Cgroup{open: true}
	for _, r := range rules {
		if r.Type == "" {
			g = Cgroup{open: r.Allow}
			continue
		}
		g.rules = append(g.rules, r)
	}
	return g
}

// Permits reports whether a device may be opened with all of perms ("rw").
// Exceptions add up: "r" and "w" for one device together allow "rw".
func (g Cgroup) Permits(t device.Type, n device.Num, perms string) bool {
	for _, p := range perms {
		ok := g.open
		for _, r := range g.rules {
			if r.Type == t && strings.ContainsRune(r.Perms, p) &&
				(r.Major < 0 || uint32(r.Major) == n.Major) && (r.Minor < 0 || uint32(r.Minor) == n.Minor) {
				ok = r.Allow
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// String writes a rule as ParseRule reads it.
func (r Rule) String() string {
	if r.Type == "" {
		return "a"
	}
	number := func(n int64) string {
		if n < 0 {
			return "*"
		}
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s %s:%s %s", r.Type, number(r.Major), number(r.Minor), r.Perms)
}
