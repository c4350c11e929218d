package passthrough

import (
	"slices"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/request"
	"gpurig/core/translate"
)

// owned puts the owners and modes that devices ask for where they belong. Where
// all devices ask for the same, every node has it; else each device's own nodes
// have what it asks for, and nodes that devices share stay as they are.
func (r *Result) owned(opts *translate.Options) []cdi.Edits {
	if len(r.Requests) == 0 {
		return nil
	}
	first := r.Requests[0].Request
	if !slices.ContainsFunc(r.Requests, func(x Request) bool { return !sameOwner(x.Request, first) }) {
		opts.UID, opts.GID, opts.Mode = first.UID, first.GID, first.Mode
		return r.Edits
	}
	out := slices.Clone(r.Edits)
	for i, e := range out {
		for _, x := range r.Requests {
			if slices.Contains(x.Owns, e.Device) {
				out[i].Edits = withOwner(e.Edits, x.Request, func(node string) bool { return r.shared(node, x) })
			}
		}
	}
	return out
}

// shared reports whether edits that are not those of x have a node too, as the
// driver's control nodes are with each GPU that is asked for by card.
func (r *Result) shared(node string, x Request) bool {
	return slices.ContainsFunc(r.Edits, func(e cdi.Edits) bool {
		return !slices.Contains(x.Owns, e.Device) &&
			slices.ContainsFunc(e.Edits.DeviceNodes, func(n *specs.DeviceNode) bool { return n != nil && n.Path == node })
	})
}

func sameOwner(a, b request.Request) bool {
	return same(a.UID, b.UID) && same(a.GID, b.GID) && same(a.Mode, b.Mode)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// withOwner returns a copy of edits whose nodes, but for shared ones, have the
// owner and mode of req.
func withOwner(edits *specs.ContainerEdits, req request.Request, shared func(node string) bool) *specs.ContainerEdits {
	c := *edits
	c.DeviceNodes = make([]*specs.DeviceNode, len(edits.DeviceNodes))
	for i, n := range edits.DeviceNodes {
		c.DeviceNodes[i] = n
		if n == nil || shared(n.Path) { // package translate refuses what is not there
			continue
		}
		d := *n
		if req.UID != nil {
			d.UID = req.UID
		}
		if req.GID != nil {
			d.GID = req.GID
		}
		if req.Mode != nil {
			d.FileMode = req.Mode
		}
		c.DeviceNodes[i] = &d
	}
	return &c
}

// Without returns what is left when one device of the instance leaves: the plan
// as it was made, without what that device alone owned, and not a new plan, since
// the host may have moved on. A device that is not there changes nothing. The
// plan of a virtual machine stays: it gives its devices back when it ends.
func (r Result) Without(device string) Result {
	at := slices.IndexFunc(r.Requests, func(x Request) bool { return x.Device == device })
	if at < 0 {
		return r
	}
	leaves := r.Requests[at]
	r.Requests = slices.Delete(slices.Clone(r.Requests), at, at+1)
	if r.Plan == nil {
		return r
	}
	p := *r.Plan
	for _, name := range leaves.Owns {
		if !slices.ContainsFunc(r.Requests, func(x Request) bool { return slices.Contains(x.Owns, name) }) {
			p = translate.Without(p, name)
		}
	}
	r.Plan = &p
	return r
}
