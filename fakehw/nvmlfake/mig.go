package nvmlfake

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
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

// GetAttributes returns the instance's share; engines are those of its GPU
// instance, which it shares with its neighbours there.
func (m *migDevice) GetAttributes() (nvml.DeviceAttributes, nvml.Return) {
	s := shareOf(m.gpu.GPU, m.ci.parent.Profile)
	return answer(m.check("DeviceGetAttributes"), true, nvml.DeviceAttributes{
		MultiprocessorCount:       uint32(m.ci.parent.sms(m.ci.slices())),
		SharedCopyEngineCount:     uint32(s.engines.Copy),
		SharedDecoderCount:        uint32(s.engines.Decoders),
		SharedEncoderCount:        uint32(s.engines.Encoders),
		SharedJpegCount:           uint32(s.engines.JPEG),
		SharedOfaCount:            uint32(s.engines.OFA),
		GpuInstanceSliceCount:     uint32(gpuSlices(m.ci.parent.Profile)),
		ComputeInstanceSliceCount: uint32(m.ci.slices()),
		MemorySizeMB:              m.ci.parent.MemoryMiB,
	})
}

func (m *migDevice) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	total := m.ci.parent.MemoryMiB * mib
	return answer(m.check("DeviceGetMemoryInfo"), total > 0, nvml.Memory{Total: total, Free: total})
}

// GetBAR1MemoryInfo returns the part of the GPU's BAR that goes with the memory
// slices of the GPU instance, less one MiB, as public nvidia-smi output has it:
// 32767MiB of 65536MiB for four slices of eight.
func (m *migDevice) GetBAR1MemoryInfo() (nvml.BAR1Memory, nvml.Return) {
	var size uint64
	if p, ok := catalog.OfGPU(m.gpu.GPU); ok && p.Slices > 0 {
		size = m.gpu.bar1() / uint64(p.Slices) * uint64(m.ci.parent.Size)
	}
	if size > mib {
		size -= mib
	}
	return answer(m.check("DeviceGetBAR1MemoryInfo"), size > 0, nvml.BAR1Memory{Bar1Total: size, Bar1Free: size})
}

// GetComputeRunningProcesses lists none, as of a full GPU.
func (m *migDevice) GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return) {
	return answer(m.check("DeviceGetComputeRunningProcesses"), true, []nvml.ProcessInfo{})
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

// gpuInstanceProfiles are the profiles of the GPU by their number in NVML.
// A GPU that the catalogue does not have knows those that are in use.
func (g *gpu) gpuInstanceProfiles() map[int]nvml.GpuInstanceProfileInfo {
	out := map[int]nvml.GpuInstanceProfileInfo{}
	for _, p := range geometry(g.GPU) {
		e := shareOf(g.GPU, p.Name).engines
		out[giProfile(p.Name, p.ID)] = nvml.GpuInstanceProfileInfo{
			Id: uint32(p.ID), SliceCount: uint32(p.Compute), InstanceCount: uint32(p.Count),
			MultiprocessorCount: uint32(p.SMs), MemorySizeMB: p.MemoryMiB,
			CopyEngineCount: uint32(e.Copy), DecoderCount: uint32(e.Decoders), EncoderCount: uint32(e.Encoders),
			JpegCount: uint32(e.JPEG), OfaCount: uint32(e.OFA),
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

// GetGpuInstanceRemainingCapacity counts how many more instances of a profile
// there is room for; on a GPU that the catalogue does not have, none.
func (g *gpu) GetGpuInstanceRemainingCapacity(p *nvml.GpuInstanceProfileInfo) (int, nvml.Return) {
	r := g.check("DeviceGetGpuInstanceRemainingCapacity")
	switch {
	case r != nvml.SUCCESS:
		return 0, r
	case g.MIG == nil:
		return 0, nvml.ERROR_NOT_SUPPORTED
	case p == nil:
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	product, _ := catalog.OfGPU(g.GPU)
	for _, k := range product.MIG {
		if uint32(k.ID) == p.Id {
			return product.Remaining(k, placements(product, g.GPU)), nvml.SUCCESS
		}
	}
	return 0, nvml.SUCCESS
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
		if uint32(ciProfile(c.slices(), g.GPUInstance)) == p.Id {
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
		if ciProfile(n, g.GPUInstance) == profile {
			e := shareOf(g.parent.GPU, g.Profile).engines
			return nvml.ComputeInstanceProfileInfo{
				Id: uint32(profile), SliceCount: uint32(n), InstanceCount: uint32(total / n), MultiprocessorCount: uint32(g.sms(n)),
				SharedCopyEngineCount: uint32(e.Copy), SharedDecoderCount: uint32(e.Decoders), SharedEncoderCount: uint32(e.Encoders),
				SharedJpegCount: uint32(e.JPEG), SharedOfaCount: uint32(e.OFA),
			}, nvml.SUCCESS
		}
	}
	return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
}

// sms returns the multiprocessors of n of the instance's slices.
func (g *gpuInstance) sms(n int) int {
	total := gpuSlices(g.Profile)
	if total == 0 {
		return 0
	}
	return shareOf(g.parent.GPU, g.Profile).sms * n / total
}

// GetComputeInstanceRemainingCapacity counts how many more compute instances of
// a profile there are slices for.
func (g *gpuInstance) GetComputeInstanceRemainingCapacity(p *nvml.ComputeInstanceProfileInfo) (int, nvml.Return) {
	r := g.parent.check("GpuInstanceGetComputeInstanceRemainingCapacity")
	switch {
	case r != nvml.SUCCESS:
		return 0, r
	case p == nil:
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	total := gpuSlices(g.Profile)
	free := total
	for _, c := range g.compute {
		free -= c.slices()
	}
	for n := 1; n <= total; n++ {
		if uint32(ciProfile(n, g.GPUInstance)) == p.Id {
			return free / n, nvml.SUCCESS
		}
	}
	return 0, nvml.ERROR_INVALID_ARGUMENT
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
		Device: c.parent.parent, GpuInstance: c.parent, Id: uint32(c.ID), ProfileId: uint32(ciProfile(c.slices(), c.parent.GPUInstance)),
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

// SetMigMode is refused: a Library is of one host, which does not change.
func (g *gpu) SetMigMode(mode int) (nvml.Return, nvml.Return) {
	r := g.check("DeviceSetMigMode")
	switch {
	case r != nvml.SUCCESS:
	case maxMIGDevices(g.GPU) > 0 && mode != nvml.DEVICE_MIG_DISABLE && mode != nvml.DEVICE_MIG_ENABLE:
		r = nvml.ERROR_INVALID_ARGUMENT
	default:
		r = nvml.ERROR_NOT_SUPPORTED
	}
	return nvml.SUCCESS, r
}

// SetPersistenceMode is refused like SetMigMode.
func (g *gpu) SetPersistenceMode(mode nvml.EnableState) nvml.Return {
	r := g.check("DeviceSetPersistenceMode")
	switch {
	case r != nvml.SUCCESS:
	case g.PCI != nil && mode != nvml.FEATURE_DISABLED && mode != nvml.FEATURE_ENABLED:
		r = nvml.ERROR_INVALID_ARGUMENT
	default:
		r = nvml.ERROR_NOT_SUPPORTED
	}
	return r
}
