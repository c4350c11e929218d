package nvmlfake

import (
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
)

// A migDevice is the handle of a MIG device: one compute instance.
type migDevice struct {
	stubDevice
	ci  *computeInstance
	gpu *gpu
}

var _ nvml.Device = (*migDevice)(nil)

// check has the faults of the parent GPU.
func (m *migDevice) check(call string) nvml.Return { return m.gpu.check(call) }

func (m *migDevice) uuid() string {
	if m.lib.opts.OldMIGNames {
		return fmt.Sprintf("MIG-%s/%d/%d", m.gpu.UUID, m.ci.parent.ID, m.ci.ID)
	}
	return m.ci.UUID
}

func (m *migDevice) GetUUID() (string, nvml.Return) {
	return answer(m.check("DeviceGetUUID"), m.uuid() != "", m.uuid())
}

// GetIndex returns the MIG device index within the parent GPU.
func (m *migDevice) GetIndex() (int, nvml.Return) {
	return answer(m.check("DeviceGetIndex"), true, m.ci.Index)
}

func (m *migDevice) GetName() (string, nvml.Return) {
	return answer(m.check("DeviceGetName"), m.gpu.Name != "", m.gpu.Name+" MIG "+m.ci.Profile)
}

func (m *migDevice) IsMigDeviceHandle() (bool, nvml.Return) {
	return answer(m.check("DeviceIsMigDeviceHandle"), true, true)
}

func (m *migDevice) GetGpuInstanceId() (int, nvml.Return) {
	return answer(m.check("DeviceGetGpuInstanceId"), true, m.ci.parent.ID)
}

func (m *migDevice) GetComputeInstanceId() (int, nvml.Return) {
	return answer(m.check("DeviceGetComputeInstanceId"), true, m.ci.ID)
}

func (m *migDevice) GetDeviceHandleFromMigDeviceHandle() (nvml.Device, nvml.Return) {
	if r := m.check("DeviceGetDeviceHandleFromMigDeviceHandle"); r != nvml.SUCCESS {
		return nil, r
	}
	return m.gpu, nvml.SUCCESS
}

// GetAttributes returns the instance's share; engines are not modelled and 0.
func (m *migDevice) GetAttributes() (nvml.DeviceAttributes, nvml.Return) {
	return answer(m.check("DeviceGetAttributes"), true, nvml.DeviceAttributes{
		GpuInstanceSliceCount:     uint32(gpuSlices(m.ci.parent.Profile)),
		ComputeInstanceSliceCount: uint32(m.ci.slices()),
		MemorySizeMB:              m.ci.parent.MemoryMiB,
	})
}

func (m *migDevice) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	total := m.ci.parent.MemoryMiB * mib
	return answer(m.check("DeviceGetMemoryInfo"), total > 0, nvml.Memory{Total: total, Free: total})
}

// GetMigMode is for full GPUs only, as is GetMaxMigDeviceCount.
func (m *migDevice) GetMigMode() (int, int, nvml.Return) {
	if r := m.check("DeviceGetMigMode"); r != nvml.SUCCESS {
		return 0, 0, r
	}
	return 0, 0, nvml.ERROR_INVALID_ARGUMENT
}

func (m *migDevice) GetMaxMigDeviceCount() (int, nvml.Return) {
	if r := m.check("DeviceGetMaxMigDeviceCount"); r != nvml.SUCCESS {
		return 0, r
	}
	return 0, nvml.ERROR_INVALID_ARGUMENT
}

// GetGpuInstanceById finds a GPU instance of a MIG-enabled GPU.
func (g *gpu) GetGpuInstanceById(id int) (nvml.GpuInstance, nvml.Return) {
	r := g.check("DeviceGetGpuInstanceById")
	switch {
	case r != nvml.SUCCESS:
		return nil, r
	case g.MIG == nil:
		return nil, nvml.ERROR_NOT_SUPPORTED
	}
	for _, gi := range g.instances {
		if gi.ID == id {
			return gi, nvml.SUCCESS
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

// GetGpuInstances lists the GPU instances of a profile.
func (g *gpu) GetGpuInstances(p *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstance, nvml.Return) {
	r := g.check("DeviceGetGpuInstances")
	switch {
	case r != nvml.SUCCESS:
		return nil, r
	case g.MIG == nil:
		return nil, nvml.ERROR_NOT_SUPPORTED
	case p == nil:
		return nil, nvml.ERROR_INVALID_ARGUMENT
	}
	var out []nvml.GpuInstance
	for _, gi := range g.instances {
		if uint32(gi.ProfileID) == p.Id {
			out = append(out, gi)
		}
	}
	return out, nvml.SUCCESS
}

// profiles returns the GPU instance profiles of the GPU by their number in NVML.
// A GPU that the catalogue does not have knows those that are in use.
func (g *gpu) profiles() map[int]nvml.GpuInstanceProfileInfo {
	out := map[int]nvml.GpuInstanceProfileInfo{}
	for _, p := range geometry(g.GPU) {
		out[giProfile(p.Name, p.ID)] = nvml.GpuInstanceProfileInfo{
			Id: uint32(p.ID), SliceCount: uint32(p.Compute), InstanceCount: uint32(p.Count),
			MultiprocessorCount: uint32(p.SMs), MemorySizeMB: p.MemoryMiB,
		}
	}
	for _, gi := range g.instances {
		at := giProfile(gi.Profile, gi.ProfileID)
		info := out[at]
		info.Id, info.SliceCount, info.MemorySizeMB = uint32(gi.ProfileID), uint32(gpuSlices(gi.Profile)), gi.MemoryMiB
		info.InstanceCount = max(info.InstanceCount, 1)
		out[at] = info
	}
	return out
}

// GetGpuInstanceProfileInfo takes an nvml.GPU_INSTANCE_PROFILE_ number.
func (g *gpu) GetGpuInstanceProfileInfo(profile int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
	r := g.check("DeviceGetGpuInstanceProfileInfo")
	switch {
	case r != nvml.SUCCESS:
		return nvml.GpuInstanceProfileInfo{}, r
	case profile < 0 || profile >= nvml.GPU_INSTANCE_PROFILE_COUNT:
		return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
	}
	info, ok := g.profiles()[profile]
	return answer(nvml.SUCCESS, ok, info)
}

// GetGpuInstancePossiblePlacements lists where instances of a profile may be,
// taken or free; where they are, on a GPU that the catalogue does not have.
func (g *gpu) GetGpuInstancePossiblePlacements(p *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstancePlacement, nvml.Return) {
	r := g.check("DeviceGetGpuInstancePossiblePlacements")
	switch {
	case r != nvml.SUCCESS:
		return nil, r
	case g.MIG == nil:
		return nil, nvml.ERROR_NOT_SUPPORTED
	case p == nil:
		return nil, nvml.ERROR_INVALID_ARGUMENT
	}
	var out []nvml.GpuInstancePlacement
	for _, k := range geometry(g.GPU) {
		if uint32(k.ID) == p.Id {
			for _, start := range k.Starts {
				out = append(out, nvml.GpuInstancePlacement{Start: uint32(start), Size: uint32(k.Size)})
			}
			return out, nvml.SUCCESS
		}
	}
	for _, gi := range g.instances {
		if uint32(gi.ProfileID) == p.Id {
			out = append(out, gi.placement())
		}
	}
	return out, nvml.SUCCESS
}

// GetGpuInstanceRemainingCapacity counts the placements of a profile that no
// instance overlaps.
func (g *gpu) GetGpuInstanceRemainingCapacity(p *nvml.GpuInstanceProfileInfo) (int, nvml.Return) {
	if r := g.check("DeviceGetGpuInstanceRemainingCapacity"); r != nvml.SUCCESS {
		return 0, r
	}
	places, r := g.GetGpuInstancePossiblePlacements(p)
	if r != nvml.SUCCESS {
		return 0, r
	}
	var taken []nvml.GpuInstancePlacement
	for _, gi := range g.instances {
		taken = append(taken, gi.placement())
	}
	n := 0
	for _, at := range places {
		if slices.ContainsFunc(taken, func(o nvml.GpuInstancePlacement) bool { return at.Start < o.Start+o.Size && o.Start < at.Start+at.Size }) {
			continue
		}
		taken = append(taken, at)
		n++
	}
	return n, nvml.SUCCESS
}

// A gpuInstance is the handle of a GPU instance (GI).
type gpuInstance struct {
	stubGpuInstance
	host.GPUInstance
	parent  *gpu
	compute []*computeInstance
}

var _ nvml.GpuInstance = (*gpuInstance)(nil)

func (g *gpuInstance) placement() nvml.GpuInstancePlacement {
	return nvml.GpuInstancePlacement{Start: uint32(g.Start), Size: uint32(g.Size)}
}

func (g *gpuInstance) GetInfo() (nvml.GpuInstanceInfo, nvml.Return) {
	return answer(g.parent.check("GpuInstanceGetInfo"), true, nvml.GpuInstanceInfo{
		Device: g.parent, Id: uint32(g.ID), ProfileId: uint32(g.ProfileID), Placement: g.placement(),
	})
}

func (g *gpuInstance) GetComputeInstanceById(id int) (nvml.ComputeInstance, nvml.Return) {
	if r := g.parent.check("GpuInstanceGetComputeInstanceById"); r != nvml.SUCCESS {
		return nil, r
	}
	for _, c := range g.compute {
		if c.ID == id {
			return c, nvml.SUCCESS
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

func (g *gpuInstance) GetComputeInstances(p *nvml.ComputeInstanceProfileInfo) ([]nvml.ComputeInstance, nvml.Return) {
	if r := g.parent.check("GpuInstanceGetComputeInstances"); r != nvml.SUCCESS {
		return nil, r
	}
	if p == nil {
		return nil, nvml.ERROR_INVALID_ARGUMENT
	}
	var out []nvml.ComputeInstance
	for _, c := range g.compute {
		if uint32(ciProfile(c.slices())) == p.Id {
			out = append(out, c)
		}
	}
	return out, nvml.SUCCESS
}

// GetComputeInstanceProfileInfo takes nvml.COMPUTE_INSTANCE_PROFILE_ and
// nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_ numbers. A GPU instance has the profiles
// of up to its own number of slices.
func (g *gpuInstance) GetComputeInstanceProfileInfo(profile, engine int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
	r := g.parent.check("GpuInstanceGetComputeInstanceProfileInfo")
	switch {
	case r != nvml.SUCCESS:
		return nvml.ComputeInstanceProfileInfo{}, r
	case engine != nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED || profile < 0 || profile >= nvml.COMPUTE_INSTANCE_PROFILE_COUNT:
		return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
	}
	total := gpuSlices(g.Profile)
	for n := 1; n <= total; n++ {
		if ciProfile(n) == profile {
			return nvml.ComputeInstanceProfileInfo{Id: uint32(profile), SliceCount: uint32(n), InstanceCount: uint32(total / n)}, nvml.SUCCESS
		}
	}
	return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
}

// A computeInstance is the handle of a compute instance (CI).
type computeInstance struct {
	stubComputeInstance
	host.ComputeInstance
	parent *gpuInstance
}

var _ nvml.ComputeInstance = (*computeInstance)(nil)

func (c *computeInstance) GetInfo() (nvml.ComputeInstanceInfo, nvml.Return) {
	return answer(c.parent.parent.check("ComputeInstanceGetInfo"), true, nvml.ComputeInstanceInfo{
		Device: c.parent.parent, GpuInstance: c.parent, Id: uint32(c.ID), ProfileId: uint32(ciProfile(c.slices())),
		Placement: nvml.ComputeInstancePlacement{Start: uint32(c.start()), Size: uint32(c.slices())},
	})
}

// start places compute instances one after the other.
func (c *computeInstance) start() int {
	at := 0
	for _, o := range c.parent.compute {
		if o == c {
			break
		}
		at += o.slices()
	}
	return at
}
