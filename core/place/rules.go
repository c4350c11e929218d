package place

import (
	"cmp"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/plan"
)

// A Rule is what the device cgroup allows of one device.
type Rule struct {
	Type   device.Type
	Num    device.Num
	Access string // "r", "w" or "rw"; empty: nothing
}

// Access returns one rule for each device, in the order of its first node: two
// nodes may be one device.
func Access(nodes []plan.Node) []Rule {
	var rules []Rule
	for _, n := range nodes {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.Type == n.Type && r.Num == n.Num })
		if i < 0 {
			i, rules = len(rules), append(rules, Rule{Type: n.Type, Num: n.Num})
		}
		granted := rules[i].Access + n.Permissions
		rules[i].Access = ""
		for _, c := range []string{"r", "w"} { // no node is to be made inside: no "m"
			if strings.Contains(granted, c) {
				rules[i].Access += c
			}
		}
	}
	return rules
}

// Rules returns the exact rule of each device that the container may open (A30),
// by type and number.
func Rules(nodes []plan.Node) []Rule {
	rules := slices.DeleteFunc(Access(nodes), func(r Rule) bool { return r.Access == "" })
	slices.SortFunc(rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Num.Major, b.Num.Major), cmp.Compare(a.Num.Minor, b.Num.Minor))
	})
	return rules
}
