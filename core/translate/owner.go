package translate

import (
	"fmt"
	"io/fs"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
)

// nobody is how the kernel shows an id that a user namespace does not have
// (/proc/sys/kernel/overflowuid).
const nobody = 65534

// toContainer returns how the container sees a host id.
func toContainer(maps []plan.IDMap, host uint32) (uint32, bool) {
	if len(maps) == 0 {
		return host, true
	}
	for _, m := range maps {
		if host >= m.Host && host-m.Host < m.Count {
			return m.Container + (host - m.Host), true
		}
	}
	return nobody, false
}

// owner sets the mode and the owner of a node: the user's wish, else the
// Spec's, else the host's. The node is one of the container's own when they are
// not what the container would see of the host's node.
func (p *part) owner(edit string, node *plan.Node, n *specs.DeviceNode, f found) bool {
	seenUID, mappedUID := toContainer(p.opts.IDMap, f.info.UID)
	seenGID, mappedGID := toContainer(p.opts.IDMap, f.info.GID)
	wantUID, okUID := p.wish(edit, "uid", p.opts.UID, n.UID)
	wantGID, okGID := p.wish(edit, "gid", p.opts.GID, n.GID)
	if !okUID || !okGID {
		return false
	}
	if p.opts.GID == nil && f.info.Mode&0o060&^(f.info.Mode<<3) != 0 { // the group may what not everybody may
		onHost, inside := f.info.GID, seenGID
		if n.GID != nil {
			onHost, inside = *n.GID, *n.GID
		}
		byName, ok := p.group(edit, "group of "+node.Path, onHost, inside)
		if !ok {
			return false
		}
		if byName != nil {
			wantGID = byName
		}
	}
	node.UID, node.GID, node.Mode = seenUID, seenGID, f.info.Mode.Perm()
	mode := node.Mode
	if n.FileMode != nil {
		mode = *n.FileMode
	}
	if p.opts.Mode != nil {
		mode = *p.opts.Mode
	}
	node.Own = wantUID != nil && *wantUID != seenUID || wantGID != nil && *wantGID != seenGID || mode != node.Mode
	if !node.Own {
		if !mappedUID || !mappedGID {
			return p.unmapped(edit, node, f)
		}
		return true
	}
	// What nobody asked for and the container does not have belongs to its root:
	// a node of its own need not belong to nobody.
	node.Mode = mode
	node.UID = pick(wantUID, seenUID, mappedUID)
	node.GID = pick(wantGID, seenGID, mappedGID)
	return true
}

func pick(want *uint32, seen uint32, mapped bool) uint32 {
	switch {
	case want != nil:
		return *want
	case mapped:
		return seen
	}
	return 0
}

// wish returns the user's id, else the Spec's; nil: neither has one.
func (p *part) wish(edit, name string, user, spec *uint32) (*uint32, bool) {
	if user != nil {
		return user, true // checked with the options
	}
	if spec == nil {
		return nil, true
	}
	if _, ok := plan.HostID(p.opts.IDMap, *spec); !ok {
		p.refuse(edit, ReasonUnmapped, fmt.Sprintf("Set %s to an id that the container has.", name),
			"%s %d has no counterpart on the host in this container's id map", name, *spec)
		return nil, false
	}
	return spec, true
}

// unmapped notes that a node's owner on the host is nobody in the container,
// and whether that keeps everybody out: not even the container's root may pass
// over the mode of a file whose owner it does not have (user_namespaces(7)).
func (p *part) unmapped(edit string, node *plan.Node, f found) bool {
	if usable(*node) {
		p.note(edit, "owner of "+node.Path, ReasonUnmappedOwner, true,
			"%s belongs to %d:%d on the host, which the container sees as %d:%d; its mode %#o lets everybody use it",
			node.Source, f.info.UID, f.info.GID, node.UID, node.GID, node.Mode)
		return true
	}
	detail := fmt.Sprintf("%s belongs to %d:%d on the host with mode %#o, and the container does not have that owner: nobody inside can open it",
		node.Source, f.info.UID, f.info.GID, node.Mode)
	const hint = "Set the device's uid, gid or mode, so that the container gets a node of its own."
	if p.opts.Strict {
		p.refuse(edit, ReasonNoAccess, hint, "%s", detail)
		return false
	}
	p.note(edit, "owner of "+node.Path, ReasonNobodyOpens, true, "%s; set the device's uid, gid or mode", detail)
	return true
}

// usable reports whether somebody in the container has the access that the
// device cgroup will permit, given that parts of the owner may be unmapped.
func usable(n plan.Node) bool {
	var need fs.FileMode
	for _, c := range n.Permissions {
		switch c {
		case 'r':
			need |= 4
		case 'w':
			need |= 2
		}
	}
	mode := n.Mode
	return mode&need == need ||
		n.UID != nobody && mode>>6&need == need ||
		n.GID != nobody && mode>>3&need == need
}
