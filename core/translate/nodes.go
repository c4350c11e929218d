package translate

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/policy"
)

const hintRegenerate = "Generate the Spec again on the host as it is now."

// deviceNodes puts the device nodes into the plan.
func (p *part) deviceNodes(list []*specs.DeviceNode) {
	mknod := 0
	for i, n := range list {
		edit := fmt.Sprintf("deviceNodes[%d]", i)
		if n == nil {
			p.refuse(edit, ReasonNull, "", "there is no device node")
			continue
		}
		node, m, ok := p.node(edit, n)
		if !ok {
			continue
		}
		if m {
			mknod++
		}
		p.addNode(edit, node)
	}
	if mknod > 0 {
		p.note("deviceNodes", fmt.Sprintf(`permission "m" of %d device nodes`, mknod), ReasonMknod, false,
			"the container may use these nodes, and make none: the device cgroup gets rw")
	}
}

// node looks a device node up on the host and checks it against the Spec. m
// says that the Spec's permissions had m, ok that nothing was refused.
func (p *part) node(edit string, n *specs.DeviceNode) (node plan.Node, m, ok bool) {
	before := len(p.refusals)
	source := cmp.Or(n.HostPath, n.Path)
	if !p.nodePath(edit, n.Path) || !p.nodeSource(edit, source) {
		return plan.Node{}, false, false
	}
	permissions, m := p.permissions(edit, n.Permissions)
	if n.Type != "" && n.Type != "c" && n.Type != "u" && n.Type != "b" {
		p.refuse(edit, ReasonNodeType, "", "type %s: only devices (c, u, b) are given to containers", quote(n.Type))
	}
	if n.FileMode != nil && *n.FileMode&^0o777 != 0 {
		p.refuse(edit, ReasonNodeMode, "Write the mode's permission bits only; in JSON that is a decimal number, 438 for 0666.",
			"file mode %#o has more than permission bits, which are at most 0777", uint32(*n.FileMode))
	}
	f := p.look.at(source)
	if !p.hostNode(edit, source, n.Type, f) || !p.number(edit, source, n, f.info.Num) || !p.driver(edit, source, f.info) {
		return plan.Node{}, false, false
	}
	node = plan.Node{
		Path: n.Path, Source: f.source, Type: f.info.DeviceType(), Num: f.info.Num,
		Permissions: permissions, Owners: p.owners,
	}
	if len(p.refusals) > before || !p.owner(edit, &node, n, f) {
		return plan.Node{}, false, false
	}
	return node, m, true
}

// nodePath checks a node's path in the container (B25).
func (p *part) nodePath(edit, at string) bool {
	if !p.text(edit, "path", at) {
		return false
	}
	if why := pathProblem(at); why != "" {
		p.refuse(edit, ReasonNodePath, "", "path %s %s", quote(at), why)
		return false
	}
	name, ok := strings.CutPrefix(at, "/dev/")
	if !ok {
		p.refuse(edit, ReasonNodePath, "", "path %s is not below /dev", quote(at))
		return false
	}
	first, _, _ := strings.Cut(name, "/")
	if r, reserved := p.opts.Policy.DevName(first); reserved {
		p.refuse(edit, ReasonNodePath, policy.NoLine, "path %s is reserved: %s (rule %q)", quote(at), r.Why, r.Name())
		return false
	}
	return true
}

func (p *part) nodeSource(edit, source string) bool {
	if !p.text(edit, "hostPath", source) {
		return false
	}
	if why := pathProblem(source); why != "" {
		p.refuse(edit, ReasonNodePath, "", "host path %s %s", quote(source), why)
		return false
	}
	return true
}

// hostNode checks what the host has at source, and that it is what the Spec says
// (B26). want is the Spec's type; empty: as on the host.
func (p *part) hostNode(edit, source, want string, f found) bool {
	switch {
	case f.gone():
		p.refuse(edit, ReasonNodeGone,
			"Load the driver's module (nvidia-modprobe -u -c 0 makes NVIDIA's nodes), or generate the Spec again.",
			"the host has no %s", source)
	case f.err != nil:
		p.refuse(edit, ReasonNodeGone, "", "cannot look at %s: %v", source, f.err)
	case f.link && f.info.Num != nullCopy:
		p.refuse(edit, ReasonNodeType, "Name the device node itself.",
			"%s is a link to %s (%s), not a device node", source, f.source, describe(f))
	case !f.info.IsDevice():
		p.refuse(edit, ReasonNodeType, "", "%s is %s, not a device", source, describe(f))
	case want != "" && (want == "b") != (f.info.DeviceType() == device.Block):
		p.refuse(edit, ReasonNodeType, hintRegenerate, "%s is %s, and of type %s in the Spec", source, describe(f), quote(want))
	default:
		return true
	}
	return false
}

// describe says what a path is, in words.
func describe(f found) string {
	switch m := f.info.Mode; {
	case m&fs.ModeCharDevice != 0:
		return "character device " + f.info.Num.String()
	case m&fs.ModeDevice != 0:
		return "block device " + f.info.Num.String()
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m.IsRegular():
		return "a regular file"
	default:
		return "of type " + m.Type().String()
	}
}

// number compares the Spec's number with the host's (A28, B22, B23). A major of
// zero means that the Spec leaves it to the host; a minor of zero is a minor.
func (p *part) number(edit, source string, n *specs.DeviceNode, is device.Num) bool {
	switch {
	case n.Major < 0 || n.Major > device.MaxMajor || n.Minor < 0 || n.Minor > device.MaxMinor:
		p.refuse(edit, ReasonNodeNum, "", "%s: number %d:%d is impossible: the major is at most %d, the minor at most %d",
			n.Path, n.Major, n.Minor, device.MaxMajor, device.MaxMinor)
	case n.Major == 0 && n.Minor != 0:
		p.refuse(edit, ReasonNodeNum, "Give both numbers or none.", "%s has a minor, %d, and no major", n.Path, n.Minor)
	case n.Major != 0 && (uint32(n.Major) != is.Major || uint32(n.Minor) != is.Minor):
		p.refuse(edit, ReasonNodeNum, hintRegenerate, "%s is %d:%d in the Spec, and %s is %s on the host",
			n.Path, n.Major, n.Minor, source, is)
	default:
		return true
	}
	return false
}

// driver checks that the device belongs to a driver that containers get (A29).
func (p *part) driver(edit, source string, i host.Info) bool {
	n, block := i.Num, i.DeviceType() == device.Block
	names, ok, err := p.look.allowed(p.opts.Policy, i.DeviceType(), n)
	key, rules, reason, what := "drivers", policy.KindDriver, ReasonDriver, ""
	if block {
		key, rules, reason, what = "block-drivers", policy.KindBlock, ReasonNodeType, "block device "
	}
	switch {
	case err != nil:
		p.refuse(edit, ReasonDriverTab, "", "cannot tell which driver %s (%s) belongs to: %v", source, n, err)
	case !ok && len(names) == 0:
		p.refuse(edit, reason, "Load the driver and generate the Spec again.",
			"%s is %s%s, and no driver of the host has registered that number", source, what, n)
	case !ok:
		p.refuse(edit, reason, policy.Hint(key, names[0]),
			"%s is %s%s of driver %s, which containers do not get (rules %q)", source, what, n, quote(strings.Join(names, ", ")), rules)
	default:
		return true
	}
	return false
}

// permissions reads the Spec's permissions: a set of r, w and m, or "none". Empty
// means rwm. m is never given (A30, B24).
func (p *part) permissions(edit, s string) (cgroup string, m bool) {
	switch s {
	case "":
		return "rw", true
	case "none":
		return "", false
	}
	if strings.Trim(s, "rwm") != "" || strings.Count(s, "r") > 1 || strings.Count(s, "w") > 1 || strings.Count(s, "m") > 1 {
		p.refuse(edit, ReasonNodePerm, "", "permissions %s: want a set of r, w and m, or none", quote(s))
		return "", false
	}
	for _, c := range []string{"r", "w"} {
		if strings.Contains(s, c) {
			cgroup += c
		}
	}
	return cgroup, strings.Contains(s, "m")
}

// addNode puts a node into the plan, or merges it with an equal one (B27).
func (p *part) addNode(edit string, n plan.Node) {
	e := p.nodes[n.Path]
	if e == nil {
		p.nodes[n.Path] = &entry[plan.Node]{n, p.at(edit)}
		return
	}
	if why := nodeDiffers(e.v, n); why != "" {
		p.refuse(edit, ReasonConflict, "", "%s: %s (%s)", n.Path, why, e.from)
		return
	}
	e.v.Owners = union(e.v.Owners, n.Owners)
}

// nodeDiffers says how two nodes of one path differ; empty: not at all.
func nodeDiffers(a, b plan.Node) string {
	switch {
	case a.Source != b.Source || a.Num != b.Num || a.Type != b.Type:
		return fmt.Sprintf("%s (%s) here, %s (%s) elsewhere", b.Source, b.Num, a.Source, a.Num)
	case a.Mode != b.Mode:
		return fmt.Sprintf("mode %#o here, %#o elsewhere", b.Mode, a.Mode)
	case a.UID != b.UID || a.GID != b.GID:
		return fmt.Sprintf("owner %d:%d here, %d:%d elsewhere", b.UID, b.GID, a.UID, a.GID)
	case a.Permissions != b.Permissions:
		return fmt.Sprintf("permissions %q here, %q elsewhere", b.Permissions, a.Permissions)
	}
	return ""
}

// parents calls f for every directory above p, the nearest first, without "/".
func parents(p string, f func(dir string) bool) {
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		if !f(d) {
			return
		}
	}
}
