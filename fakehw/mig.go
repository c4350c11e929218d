package fakehw

import (
	"fmt"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// instance makes the model's form of a placement. Next is the index of its
// first MIG device.
func instance(uuidOfGPU string, p catalog.Placement, next int) host.GPUInstance {
	gi := host.GPUInstance{
		ID: p.ID, Profile: p.Profile.Name, ProfileID: p.Profile.ID,
		Start: p.Start, Size: p.Profile.Size, MemoryMiB: p.Profile.MemoryMiB,
	}
	names := []string{p.Profile.Name}
	if len(p.Parts) > 0 {
		names = nil
		for _, part := range p.Parts {
			names = append(names, part+"."+p.Profile.Name)
		}
	}
	for c, name := range names {
		gi.Compute = append(gi.Compute, host.ComputeInstance{
			ID: c, Profile: name, Index: next + c,
			UUID: migUUID(uuidOfGPU, p.Start, p.Profile.Size, p.Profile.Name, c, name),
		})
	}
	return gi
}

// WithMIG returns m with another MIG geometry on the GPU of this NVML index:
// nvidia-smi -mig 1, then -cgi PROFILES -C. No profiles: enabled and empty. Off
// turns the mode off. Capability nodes, MIG device indexes and UUIDs follow.
//
// MIG devices are indexed in the order of the list. On the captures we know
// that order is also by GPU instance id, which a list with the widest profile
// first has; a list in another order is for hosts built in another order.
func WithMIG(m host.Model, gpuIndex int, profiles []string, off bool) (host.Model, error) {
	return WithMIGs(m, []int{gpuIndex}, profiles, off)
}

// WithMIGs is WithMIG for several GPUs that get the same geometry.
func WithMIGs(m host.Model, gpuIndexes []int, profiles []string, off bool) (host.Model, error) {
	out := m.Clone()
	var changed []host.GPU
	for _, index := range gpuIndexes {
		i := gpuAt(&out, index)
		if i < 0 {
			return host.Model{}, noGPU(&out, "MIG geometry of GPU", index)
		}
		if err := setMIG(&out.GPUs[i], profiles, off); err != nil {
			return host.Model{}, err
		}
		changed = append(changed, out.GPUs[i])
	}
	dropInstanceNodes(&out, changed...)
	addInstanceNodes(&out, changed...)
	normalize(&out)
	return out, nil
}

// setMIG gives g another geometry, and leaves the nodes to the caller.
func setMIG(g *host.GPU, profiles []string, off bool) error {
	change := fmt.Sprintf("MIG geometry of GPU %d", g.Index)
	if g.PCI == nil {
		return impossible(change, "it is part of the SoC")
	}
	product, ok := catalog.OfGPU(*g)
	if !ok {
		return impossible(change, "the catalogue has no product %s", g.PCI.ID)
	}
	if off && len(profiles) > 0 {
		return impossible(change, "profiles are given and MIG is to be off")
	}
	placed, err := product.Place(profiles)
	if err != nil {
		return &ChangeError{Change: change, Err: err}
	}
	if g.Minor >= capGPUs {
		return impossible(change, "capability nodes are numbered for minors below %d, this GPU has %d", capGPUs, g.Minor)
	}
	if g.MIG = nil; off {
		return nil
	}
	g.MIG = &host.MIG{}
	next := 0
	for _, p := range placed {
		gi := instance(g.UUID, p, next)
		next += len(gi.Compute)
		g.MIG.Instances = append(g.MIG.Instances, gi)
	}
	return nil
}

// Rebooted returns m after a reboot: the nodes that only a first user of the
// driver makes (uvm, uvm-tools, modeset, one per MIG instance) and those made by
// hand (IMEX channels) are gone.
//
// So are all GPU and compute instances, which never outlive a reboot. MIG mode
// itself does on Ampere, where it is kept on the board; from Hopper on it
// starts off (MIG user guide). Majors stay: give others with WithMajors.
//
// A driver whose libraries were upgraded before is loaded in their version now:
// packages build or bring the kernel modules along, and only the reboot was
// missing (bug driver-upgrade-trap).
func Rebooted(m host.Model) host.Model {
	out := m.Clone()
	if out.Driver != nil && out.Userspace != nil && out.Driver.Version != out.Userspace.Version {
		if upgraded, err := WithDriver(out, out.Userspace.Version); err == nil {
			out = upgraded
		}
	}
	for i := range out.GPUs {
		g := &out.GPUs[i]
		dropInstanceNodes(&out, *g)
		if g.MIG == nil {
			continue
		}
		g.MIG = nil
		if p, ok := catalog.OfGPU(*g); ok && p.Persistent {
			g.MIG = &host.MIG{}
		}
	}
	dropNodes(&out, func(p string) bool {
		switch p {
		case "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset":
			return true
		}
		return strings.HasPrefix(p, "/dev/nvidia-caps-imex-channels/")
	})
	return trimmed(out)
}
