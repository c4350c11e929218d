// Package amd generates the CDI Spec of a host's AMD GPUs. It contains only device
// nodes, since ROCm's libraries belong in the image.
//
// Names are "0", "1" and so on in the order of PCI addresses, and "all". Numbers,
// modes and groups are those of the host's nodes. Reading Specs and applying
// them is left to package cdi and its users.
//
// Reference: https://instinct.docs.amd.com/projects/container-toolkit
package amd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// Kind is the kind of the Spec.
const Kind = "amd.com/gpu"

// kfd is the compute node that all GPUs share.
const kfd = "/dev/kfd"

// ReasonNodeMissing says that a GPU or /dev/kfd has no device node (bug
// kfd-missing): the container would have a GPU that cannot compute.
const ReasonNodeMissing refuse.Reason = "device-node-missing"

// ReasonUnreadable says that what the host tells of a GPU could not be understood.
const ReasonUnreadable refuse.Reason = "gpu-unreadable"

// Reasons explains every reason in one sentence.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{{Reason: ReasonUnreadable, Meaning: "What the host says about the GPU cannot be read or parsed, or contradicts itself."}, {Reason: ReasonNodeMissing, Meaning: "An AMD GPU or the compute node that all of them share has no device node."}}
}

// A Result is a Spec and what is not in it.
type Result struct {
	Spec *specs.Spec
	// Withheld are devices that are not in Spec because a node of theirs is not
	// there, by name, and with them "all". Nil on a healthy host.
	Withheld map[string]*refuse.Error
}

// Generate returns the Spec of the GPUs in m that amdgpu drives; nil if there
// are none. root shows the same host's files. A GPU without one of its nodes is
// withheld; without /dev/kfd, or with no GPU left, there is no Spec, and the
// error joins a *refuse.Error for each cause.
func Generate(root host.Root, m host.Model) (*Result, error) {
	gpus := driven(m)
	if len(gpus) == 0 {
		return nil, nil
	}
	shared, err := node(root, kfd)
	if err != nil {
		return nil, refuseNode(kfd, err)
	}
	out := &Result{Spec: &specs.Spec{Kind: Kind}}
	all := []*specs.DeviceNode{shared}
	var refusals []*refuse.Error
	for i, g := range gpus {
		name := strconv.Itoa(i)
		nodes, e := own(root, g)
		if e != nil {
			out.withhold(name, e)
			refusals = append(refusals, e)
			continue
		}
		all = append(all, nodes...)
		out.Spec.Devices = append(out.Spec.Devices, device(name, append([]*specs.DeviceNode{shared}, nodes...)))
	}
	if len(out.Spec.Devices) == 0 {
		return nil, refuse.Join(refusals...)
	}
	if len(refusals) > 0 {
		out.withhold("all", refusals[0])
	} else {
		out.Spec.Devices = append(out.Spec.Devices, device("all", all))
	}
	if out.Spec.Version, err = specs.MinimumRequiredVersion(out.Spec); err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	return out, nil
}

func (r *Result) withhold(name string, e *refuse.Error) {
	if r.Withheld == nil {
		r.Withheld = map[string]*refuse.Error{}
	}
	r.Withheld[name] = e
}

// own reads the GPU's own nodes.
func own(root host.Root, g host.GPU) ([]*specs.DeviceNode, *refuse.Error) {
	if g.Problem != "" {
		return nil, refuse.New(ReasonUnreadable, "", "%s cannot be used: %s", cdi.GPUName(g), g.Problem)
	}
	var nodes []*specs.DeviceNode
	for _, p := range paths(g) {
		n, err := node(root, p)
		if err != nil {
			return nil, refuseNode(p, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// driven returns the GPUs that amdgpu is bound to: vfio-pci's have no nodes.
func driven(m host.Model) []host.GPU {
	var out []host.GPU
	for _, g := range m.GPUs {
		if g.PCI != nil && g.PCI.ID.Vendor == pci.AMD && g.PCI.Driver == "amdgpu" {
			out = append(out, g)
		}
	}
	return out
}

// paths returns the GPU's own nodes.
func paths(g host.GPU) []string {
	var out []string
	if g.Card >= 0 {
		out = append(out, path.Join("/dev/dri", fmt.Sprintf("card%d", g.Card)))
	}
	if g.Render >= 0 {
		out = append(out, path.Join("/dev/dri", fmt.Sprintf("renderD%d", g.Render)))
	}
	return out
}

// node reads one device node. Its group goes into the Spec as a number, since a
// container's group file may give the name to another (bug kfd-gid).
func node(root host.Root, p string) (*specs.DeviceNode, error) {
	info, err := root.Lstat(p)
	if err != nil {
		return nil, err
	}
	if !info.IsDevice() {
		return nil, fmt.Errorf("%s is no device node", p)
	}
	mode, gid := info.Mode.Perm(), info.GID
	n := &specs.DeviceNode{
		Path: p, Type: string(info.DeviceType()), Major: int64(info.Num.Major), Minor: int64(info.Num.Minor),
		FileMode: &mode, Permissions: "rwm",
	}
	if gid != 0 {
		n.GID = &gid
	}
	return n, nil
}

// device gives the container's processes the groups that may open the nodes.
func device(name string, nodes []*specs.DeviceNode) specs.Device {
	var gids []uint32
	for _, n := range nodes {
		if n.GID != nil && n.FileMode.Perm()&0o006 != 0o006 {
			gids = append(gids, *n.GID)
		}
	}
	slices.Sort(gids)
	return specs.Device{Name: name, ContainerEdits: specs.ContainerEdits{DeviceNodes: nodes, AdditionalGIDs: slices.Compact(gids)}}
}

func refuseNode(p string, err error) *refuse.Error {
	e := refuse.New(ReasonNodeMissing, p, "no such device node").WithErr(err).WithHint("Load the driver with: modprobe amdgpu.")
	if !errors.Is(err, fs.ErrNotExist) {
		e.Msg = "cannot be used"
	}
	return e
}
