package translate

import (
	"slices"

	"gpurig/core/plan"
)

// Without returns the plan that is left when one device leaves: what it shares
// with others stays, what was its own goes. p is not changed. A device that is
// not in the plan changes nothing.
func Without(p plan.Plan, device string) plan.Plan {
	out := plan.Plan{Strict: p.Strict}
	for _, d := range p.Devices {
		if d != device {
			out.Devices = append(out.Devices, d)
		}
	}
	out.Nodes = keep(p.Nodes, device, func(v *plan.Node) *plan.Owners { return &v.Owners })
	out.Mounts = keep(p.Mounts, device, func(v *plan.Mount) *plan.Owners { return &v.Owners })
	out.Links = keep(p.Links, device, func(v *plan.Link) *plan.Owners { return &v.Owners })
	out.Modes = keep(p.Modes, device, func(v *plan.Mode) *plan.Owners { return &v.Owners })
	out.Env = keep(p.Env, device, func(v *plan.Var) *plan.Owners { return &v.Owners })
	out.LibraryDirs, out.LibraryOwners = keepPairs(p.LibraryDirs, p.LibraryOwners, device)
	out.Groups, out.GroupOwners = keepPairs(p.Groups, p.GroupOwners, device)
	for _, n := range p.Notes {
		if n.Device != device && (n.Device != "" || len(out.Devices) > 0) {
			out.Notes = append(out.Notes, n)
		}
	}
	return out
}

func keep[T any](list []T, device string, owners func(*T) *plan.Owners) []T {
	var out []T
	for _, v := range list {
		o := owners(&v)
		left := minus(*o, device)
		if len(*o) > 0 && len(left) == 0 {
			continue
		}
		*o = left
		out = append(out, v)
	}
	return out
}

func keepPairs[T any](list []T, owners []plan.Owners, device string) ([]T, []plan.Owners) {
	var out []T
	var outOwners []plan.Owners
	for i, v := range list {
		var o plan.Owners
		if i < len(owners) {
			o = owners[i]
		}
		left := minus(o, device)
		if len(o) > 0 && len(left) == 0 {
			continue
		}
		out, outOwners = append(out, v), append(outOwners, left)
	}
	return out, outOwners
}

func minus(o plan.Owners, device string) plan.Owners {
	return slices.DeleteFunc(slices.Clone(o), func(d string) bool { return d == device })
}
