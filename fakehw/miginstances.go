package fakehw

import (
	"cmp"
	"fmt"
	"slices"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// NewGPUInstance makes the GPU instance of a placement, without compute instances.
func NewGPUInstance(p catalog.Placement) host.GPUInstance {
	return host.GPUInstance{ID: p.ID, Profile: p.Profile.Name, ProfileID: p.Profile.ID, Start: p.Start, Size: p.Profile.Size, MemoryMiB: p.Profile.MemoryMiB}
}

// WithInstances returns m with these GPU instances, and no others, on the GPU of
// this NVML index, whose MIG mode is then on. MIG devices are indexed by GPU
// instance and compute instance id; those without a UUID get one that follows
// from the GPU, the placement and the profile. Capability nodes follow.
func WithInstances(m host.Model, gpuIndex int, instances []host.GPUInstance) (host.Model, error) {
	out := m.Clone()
	i := gpuAt(&out, gpuIndex)
	if i < 0 {
		return host.Model{}, noGPU(&out, "MIG instances of GPU", gpuIndex)
	}
	g := &out.GPUs[i]
	if g.PCI == nil || g.Minor < 0 || g.Minor >= capGPUs {
		return host.Model{}, impossible(fmt.Sprintf("MIG instances of GPU %d", gpuIndex), "it has no capability nodes")
	}
	dropInstanceNodes(&out, *g)
	g.MIG = &host.MIG{}
	for _, gi := range instances {
		gi.Compute = slices.Clone(gi.Compute)
		slices.SortFunc(gi.Compute, func(a, b host.ComputeInstance) int { return cmp.Compare(a.ID, b.ID) })
		g.MIG.Instances = append(g.MIG.Instances, gi)
	}
	slices.SortFunc(g.MIG.Instances, func(a, b host.GPUInstance) int { return cmp.Compare(a.ID, b.ID) })
	next := 0
	for _, gi := range g.MIG.Instances {
		for c := range gi.Compute {
			ci := &gi.Compute[c]
			ci.Index = next
			next++
			if ci.UUID == "" {
				ci.UUID = migUUID(g.UUID, gi.Start, gi.Size, gi.Profile, ci.ID, ci.Profile)
			}
		}
	}
	addInstanceNodes(&out, *g)
	normalize(&out)
	return out, nil
}

// migUUID names a MIG device by its place: destroyed and made again, it has the
// same name.
func migUUID(gpu string, start, size int, profile string, ci int, ciProfile string) string {
	return "MIG-" + uuid(5, gpu, " ", start, ":", size, " ", profile, " ", ci, " ", ciProfile)
}
