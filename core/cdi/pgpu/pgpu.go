// Package pgpu generates the CDI Spec of the GPUs that a host has reserved for
// virtual machines. A runtime that starts each container in a virtual machine, as
// Kata Containers does, gives the VFIO nodes of the Spec to the machine.
//
// Names are those of NVIDIA's Kata manager: the GPU's index among all GPUs of its
// vendor by PCI address, including those with other drivers; the number of its
// IOMMU group; and the name of its own node if the host has iommufd. Each name
// leads to one node, that of the group or, with iommufd, that of the device. Never
// to both, which would give two interfaces to one device. A vGPU has its mediated
// device's UUID for a name, or its virtual function's PCI address. What the guest calls its
// GPUs is up to a Spec that is generated inside it.
//
// Binding GPUs to the VFIO driver is the job of package vfio.
//
// Reference: https://github.com/NVIDIA/k8s-kata-manager
package pgpu

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/vfio"
)

// Class is the class of the Spec's kind unless the options say another.
const Class = "pgpu"

// AMD is the vendor of AMD's kind, as cdi.NVIDIA is NVIDIA's.
const AMD = "amd.com"

// Reasons why a device, or all, are not in the Spec. Those of package vfio are given
// as well.
const (
	ReasonNotHeld   refuse.Reason = "not-held-for-machines"
	ReasonSameName  refuse.Reason = "ambiguous-device-name"
	ReasonBadVendor refuse.Reason = "unknown-vendor"
)

// Reasons explains every reason in one sentence.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonNotHeld, Meaning: "No GPU of the vendor is bound to a VFIO driver."},
		{Reason: ReasonSameName, Meaning: "The number of an IOMMU group equals a GPU's index, and the name means the index."},
		{Reason: ReasonBadVendor, Meaning: "No GPUs of that vendor are known."},
	}
}

// Options adjust a Spec. The zero value is NVIDIA's.
type Options struct {
	Vendor string // cdi.NVIDIA or AMD; empty: NVIDIA's, or AMD's where the host has no GPU of NVIDIA's
	Class  string // empty: Class
}

// A Result is a Spec and what is not in it.
type Result struct {
	Spec *specs.Spec
	// Withheld are names that are not in Spec: of GPUs that no machine could open,
	// and numbers of groups that are names already. Where is the name.
	Withheld []*refuse.Error
}

// Generate returns the Spec of the GPUs of m, whose files are root, that a VFIO driver
// holds, and of the vGPUs that were made. Without any it is refused.
func Generate(root host.Root, m host.Model, opts Options) (*Result, error) {
	vendor, gpus, err := ofVendor(m, opts.Vendor)
	if err != nil {
		return nil, err
	}
	class := opts.Class
	if class == "" {
		class = Class
	}
	out := &Result{Spec: &specs.Spec{Kind: vendor + "/" + class}}
	held := false
	for i, f := range gpus {
		if !vfio.IsDriver(f.Driver) {
			continue
		}
		held = true
		node, err := nodeOf(root, f)
		if e := refuse.As(err); len(e) > 0 {
			out.withhold(strconv.Itoa(i), e[0])
		} else if err != nil {
			return nil, err
		} else {
			out.add(i, len(gpus), f, node)
		}
	}
	for name, d := range vgpus(m, vendor) {
		held = true
		n, err := d.Nodes(root)
		if e := refuse.As(err); len(e) > 0 {
			out.withhold(name, e[0])
		} else if err != nil {
			return nil, err
		} else {
			out.Spec.Devices = append(out.Spec.Devices, device(name, n.Device))
		}
	}
	if !held {
		return nil, refuse.New(ReasonNotHeld, "", "no GPU of %s is held by a VFIO driver", vendor).
			WithHint("Give it one first: gpurig translate --to qemu writes the commands.")
	}
	if len(out.Spec.Devices) == 0 {
		return nil, refuse.Join(out.Withheld...)
	}
	slices.SortStableFunc(out.Spec.Devices, func(a, b specs.Device) int { return byName(a.Name, b.Name) })
	if out.Spec.Version, err = specs.MinimumRequiredVersion(out.Spec); err != nil {
		return nil, fmt.Errorf("%s: %w", out.Spec.Kind, err)
	}
	return out, nil
}

// ofVendor returns the GPUs of a vendor, by address.
func ofVendor(m host.Model, vendor string) (string, []host.PCIFunction, error) {
	ids := map[string]uint16{cdi.NVIDIA: pci.NVIDIA, AMD: pci.AMD}
	of := func(id uint16) (out []host.PCIFunction) {
		for _, g := range m.GPUs {
			if g.PCI != nil && g.PCI.ID.Vendor == id {
				out = append(out, *g.PCI)
			}
		}
		return out
	}
	if vendor == "" {
		if vendor = cdi.NVIDIA; len(of(pci.NVIDIA)) == 0 && len(of(pci.AMD)) > 0 {
			vendor = AMD
		}
	}
	id, ok := ids[vendor]
	if !ok {
		return "", nil, refuse.New(ReasonBadVendor, "vendor", "%q is no vendor of GPUs that are known", vendor).WithHint("Write %s or %s.", cdi.NVIDIA, AMD)
	}
	return vendor, of(id), nil
}

// nodeOf returns the node by which a machine gets a GPU, if it would get it.
func nodeOf(root host.Root, f host.PCIFunction) (string, error) {
	n, err := vfio.Device{BDF: f.BDF}.Nodes(root)
	if err != nil {
		return "", err
	}
	return n.Device, vfio.Viable(root, f.IOMMUGroup)
}

// add puts a GPU into the Spec, under each of its names.
func (r *Result) add(index, count int, f host.PCIFunction, node string) {
	names := []string{strconv.Itoa(index)}
	if group := strconv.Itoa(f.IOMMUGroup); f.IOMMUGroup >= count {
		names = append(names, group)
	} else if f.IOMMUGroup != index {
		r.withhold(group, refuse.New(ReasonSameName, "", "it could be IOMMU group %d, which %s is in, and is a GPU's index", f.IOMMUGroup, f.BDF).
			WithHint("Write %s=%d.", r.Spec.Kind, index))
	}
	if vfio.KindOf(node) == vfio.DeviceNode {
		names = append(names, path.Base(node))
	}
	for _, name := range names {
		if slices.ContainsFunc(r.Spec.Devices, func(d specs.Device) bool { return d.Name == name }) {
			continue // another GPU of the group, whose node is the same
		}
		r.Spec.Devices = append(r.Spec.Devices, device(name, node))
	}
}

func device(name, node string) specs.Device {
	return specs.Device{Name: name, ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: node}}}}
}

// vgpus returns the vGPUs that were made, by name: only NVIDIA's driver makes them.
func vgpus(m host.Model, vendor string) map[string]vfio.Device {
	out := map[string]vfio.Device{}
	if vendor != cdi.NVIDIA {
		return out
	}
	for _, d := range m.MDevs {
		out[d.UUID] = vfio.Device{BDF: d.Parent, MDev: d.UUID}
	}
	for _, f := range m.VFs {
		if f.VGPU != 0 {
			out[f.BDF.String()] = vfio.Device{BDF: f.BDF}
		}
	}
	return out
}

func (r *Result) withhold(name string, e *refuse.Error) {
	c := *e
	c.Where = r.Spec.Kind + "=" + name
	r.Withheld = append(r.Withheld, &c)
}

// byName orders numbers by size, before other names.
func byName(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil:
		return x - y
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return strings.Compare(a, b)
}
