// Package drm generates the CDI Specs of GPUs that have only DRM nodes, and perhaps a
// node that all of a vendor share: AMD's and Intel's. They contain device nodes alone,
// since the libraries of these vendors belong in the image.
//
// Names are "0", "1" and so on in the order of PCI addresses, and "all". A GPU that
// is partitioned has a name for each of its partitions, in the order of render nodes,
// as AMD's container toolkit counts. Numbers, modes and groups are those of the host's
// nodes. Reading Specs and applying them is left to package cdi and its users.
//
// Reference: https://instinct.docs.amd.com/projects/container-toolkit
package drm

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// A Vendor is whose GPUs one Spec is about.
type Vendor struct {
	Name    string   // as a word for people: "AMD"
	Kind    string   // of the Spec
	ID      uint16   // PCI vendor
	Drivers []string // that make the nodes
	Shared  string   // node that all GPUs need, "/dev/kfd"; empty: none
}

// Vendors are all of them.
func Vendors() []Vendor {
	return []Vendor{
		{Name: "AMD", Kind: "amd.com/gpu", ID: pci.AMD, Drivers: []string{"amdgpu"}, Shared: "/dev/kfd"},
		{Name: "Intel", Kind: "intel.com/gpu", ID: pci.Intel, Drivers: []string{"i915", "xe"}},
	}
}

// ReasonNodeMissing says that a GPU or the vendor's shared node is not there (bug
// kfd-missing): the container would have a GPU that cannot compute.
const ReasonNodeMissing refuse.Reason = "device-node-missing"

// ReasonUnreadable says that what the host tells of a GPU could not be understood.
const ReasonUnreadable refuse.Reason = "gpu-unreadable"

// Reasons explains every reason in one sentence.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{{Reason: ReasonUnreadable, Meaning: "What the host says about the GPU cannot be read or parsed, or contradicts itself."}, {Reason: ReasonNodeMissing, Meaning: "A GPU of AMD or Intel, or the compute node that all of AMD's share, has no device node."}}
}

// A Result is a Spec and what is not in it.
type Result struct {
	Spec *specs.Spec
	// Withheld are devices that are not in Spec because a node of theirs is not
	// there, by name, and with them "all". Nil on a healthy host.
	Withheld map[string]*refuse.Error
}

// Generate returns the Spec of the vendor's GPUs in m that its drivers run; nil if
// there are none. root shows the same host's files. A GPU without one of its nodes is
// withheld; without the shared node, or with no GPU left, there is no Spec, and the
// error joins a *refuse.Error for each cause.
func Generate(root host.Root, m host.Model, v Vendor) (*Result, error) {
	gpus := driven(m, v)
	if len(gpus) == 0 {
		return nil, nil
	}
	var shared []*specs.DeviceNode
	if v.Shared != "" {
		n, err := node(root, v.Shared)
		if err != nil {
			return nil, refuseNode(v, v.Shared, err)
		}
		shared = append(shared, n)
	}
	out := &Result{Spec: &specs.Spec{Kind: v.Kind}}
	all := slices.Clone(shared)
	var refusals []*refuse.Error
	count := 0
	for _, g := range gpus {
		for _, part := range append([]host.Partition{{Card: g.Card, Render: g.Render}}, g.Partitions...) {
			name := strconv.Itoa(count)
			count++
			nodes, e := own(root, v, g, part)
			if e != nil {
				out.withhold(name, e)
				refusals = append(refusals, e)
				continue
			}
			all = append(all, nodes...)
			out.Spec.Devices = append(out.Spec.Devices, device(name, append(slices.Clone(shared), nodes...)))
		}
	}
	if len(out.Spec.Devices) == 0 {
		return nil, refuse.Join(refusals...)
	}
	if len(refusals) > 0 {
		out.withhold("all", refusals[0])
	} else {
		out.Spec.Devices = append(out.Spec.Devices, device("all", all))
	}
	var err error
	if out.Spec.Version, err = specs.MinimumRequiredVersion(out.Spec); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Kind, err)
	}
	return out, nil
}

func (r *Result) withhold(name string, e *refuse.Error) {
	if r.Withheld == nil {
		r.Withheld = map[string]*refuse.Error{}
	}
	r.Withheld[name] = e
}

// own reads the nodes of one partition of a GPU; of most GPUs there is one.
func own(root host.Root, v Vendor, g host.GPU, part host.Partition) ([]*specs.DeviceNode, *refuse.Error) {
	if g.Problem != "" {
		return nil, refuse.New(ReasonUnreadable, "", "%s cannot be used: %s", cdi.GPUName(g), g.Problem)
	}
	var nodes []*specs.DeviceNode
	for _, p := range part.Paths() {
		n, err := node(root, p)
		if err != nil {
			return nil, refuseNode(v, p, err)
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, refuseNode(v, cdi.GPUName(g), fs.ErrNotExist)
	}
	return nodes, nil
}

// driven returns the GPUs that a driver of the vendor is bound to: vfio-pci's have no nodes.
func driven(m host.Model, v Vendor) []host.GPU {
	return slices.DeleteFunc(slices.Clone(m.GPUs), func(g host.GPU) bool {
		return g.PCI == nil || g.PCI.ID.Vendor != v.ID || !slices.Contains(v.Drivers, g.PCI.Driver)
	})
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

func refuseNode(v Vendor, p string, err error) *refuse.Error {
	e := refuse.New(ReasonNodeMissing, p, "no such device node").WithErr(err).WithHint("Load the driver with: modprobe %s.", v.Drivers[0])
	if !errors.Is(err, fs.ErrNotExist) {
		e.Msg = "cannot be used"
	}
	return e
}
