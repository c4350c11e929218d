package nvmlfake

import (
	"fmt"

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

// GetGpuInstanceProfileInfo takes an nvml.GPU_INSTANCE_PROFILE_ number. It knows
// the profiles of the instances that the GPU has.
func (g *gpu) GetGpuInstanceProfileInfo(profile int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
	r := g.check("DeviceGetGpuInstanceProfileInfo")
	switch {
	case r != nvml.SUCCESS:
		return nvml.GpuInstanceProfileInfo{}, r
	case profile < 0 || profile >= nvml.GPU_INSTANCE_PROFILE_COUNT:
		return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
	}
	for _, gi := range g.instances {
		if giProfile(gi.GPUInstance) == profile {
			return gi.profileInfo(), nvml.SUCCESS
		}
	}
	return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
}

// GetGpuInstancePossiblePlacements lists where instances of a profile are: the
// placements that are taken, and no free ones.
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
	for _, gi := range g.instances {
		if uint32(gi.ProfileID) == p.Id {
			out = append(out, gi.placement())
		}
	}
	return out, nvml.SUCCESS
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

func (g *gpuInstance) profileInfo() nvml.GpuInstanceProfileInfo {
	same := 0
	for _, o := range g.parent.instances {
		if o.ProfileID == g.ProfileID {
			same++
		}
	}
	return nvml.GpuInstanceProfileInfo{
		Id: uint32(g.ProfileID), SliceCount: uint32(gpuSlices(g.Profile)), InstanceCount: uint32(same), MemorySizeMB: g.MemoryMiB,
	}
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
