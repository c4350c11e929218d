package nvmlfake

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

const mib = 1 << 20

// A gpu is the handle of a full GPU.
type gpu struct {
	stubDevice
	host.GPU
	instances []*gpuInstance
	migs      []*migDevice                               // by MIG device index
	profiles  func() map[int]nvml.GpuInstanceProfileInfo // see gpuInstanceProfiles
	readings  func() []Reading
}

var _ nvml.Device = (*gpu)(nil)

func newGPU(l *Library, h host.GPU) *gpu {
	g := &gpu{stubDevice: stubDevice{l}, GPU: h}
	g.profiles = sync.OnceValue(g.gpuInstanceProfiles)
	g.readings = sync.OnceValue(func() []Reading { return Readings(l.model, h) })
	if h.MIG == nil {
		return g
	}
	for _, gi := range h.MIG.Instances {
		i := &gpuInstance{stubGpuInstance: stubGpuInstance{l}, GPUInstance: gi, parent: g}
		g.instances = append(g.instances, i)
		for _, ci := range gi.Compute {
			c := &computeInstance{stubComputeInstance: stubComputeInstance{l}, ComputeInstance: ci, parent: i}
			i.compute = append(i.compute, c)
			g.migs = append(g.migs, &migDevice{stubDevice: stubDevice{l}, ci: c, gpu: g})
		}
	}
	slices.SortFunc(g.migs, func(a, b *migDevice) int { return a.ci.Index - b.ci.Index })
	return g
}

// check is Library.check with the faults of this GPU alone.
func (g *gpu) check(call string) nvml.Return {
	if r := g.lib.check(call); r != nvml.SUCCESS {
		return r
	}
	if len(g.lib.opts.Fail) == 0 {
		return nvml.SUCCESS
	}
	for _, name := range []string{call, "*"} {
		if r, ok := g.lib.opts.Fail[fmt.Sprintf("%s:%d", name, g.Index)]; ok {
			return r
		}
	}
	return nvml.SUCCESS
}

// answer returns v, unless the call fails or the GPU has no such thing.
func answer[T any](r nvml.Return, has bool, v T) (T, nvml.Return) {
	var none T
	switch {
	case r != nvml.SUCCESS:
		return none, r
	case !has:
		return none, nvml.ERROR_NOT_SUPPORTED
	}
	return v, nvml.SUCCESS
}

func (g *gpu) GetIndex() (int, nvml.Return) {
	return answer(g.check("DeviceGetIndex"), true, g.Index)
}

func (g *gpu) GetName() (string, nvml.Return) {
	return answer(g.check("DeviceGetName"), g.Name != "", g.Name)
}

func (g *gpu) GetUUID() (string, nvml.Return) {
	return answer(g.check("DeviceGetUUID"), g.UUID != "", g.UUID)
}

func (g *gpu) GetMinorNumber() (int, nvml.Return) {
	return answer(g.check("DeviceGetMinorNumber"), g.Minor >= 0, g.Minor)
}

func (g *gpu) GetSerial() (string, nvml.Return) {
	return answer(g.check("DeviceGetSerial"), g.serial() != "", g.serial())
}

func (g *gpu) GetVbiosVersion() (string, nvml.Return) {
	return answer(g.check("DeviceGetVbiosVersion"), g.VBIOS != "", g.VBIOS)
}

func (g *gpu) GetBrand() (nvml.BrandType, nvml.Return) {
	return answer(g.check("DeviceGetBrand"), true, brand(g.Name))
}

func (g *gpu) GetArchitecture() (nvml.DeviceArchitecture, nvml.Return) {
	return answer(g.check("DeviceGetArchitecture"), true, architecture(g.ComputeCap))
}

func (g *gpu) GetCudaComputeCapability() (int, int, nvml.Return) {
	major, minor, ok := parseDotted(g.ComputeCap)
	_, r := answer(g.check("DeviceGetCudaComputeCapability"), ok, 0)
	if r != nvml.SUCCESS {
		return 0, 0, r
	}
	return major, minor, r
}

func (g *gpu) GetPersistenceMode() (nvml.EnableState, nvml.Return) {
	mode := nvml.FEATURE_DISABLED
	on, set := g.lib.opts.Persistence[g.Index]
	if on || !set && g.lib.model.Userspace.Persist {
		mode = nvml.FEATURE_ENABLED
	}
	return answer(g.check("DeviceGetPersistenceMode"), g.PCI != nil, nvml.EnableState(mode))
}

// GetMemoryInfo is not supported on an integrated GPU, whose memory is the system's.
// What the driver keeps counts as used.
func (g *gpu) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	total, kept := g.MemoryMiB*mib, g.first("DeviceGetMemoryInfo_v2")
	return answer(g.check("DeviceGetMemoryInfo"), total > 0, nvml.Memory{Total: total, Used: kept, Free: total - kept})
}

func (g *gpu) GetMemoryInfo_v2() (nvml.Memory_v2, nvml.Return) {
	total, kept := g.MemoryMiB*mib, g.first("DeviceGetMemoryInfo_v2")
	return answer(g.check("DeviceGetMemoryInfo_v2"), total > 0, nvml.Memory_v2{Total: total, Reserved: kept, Free: total - kept})
}

func (g *gpu) GetBAR1MemoryInfo() (nvml.BAR1Memory, nvml.Return) {
	size, used := g.bar1(), g.first("DeviceGetBAR1MemoryInfo")
	return answer(g.check("DeviceGetBAR1MemoryInfo"), size > 0, nvml.BAR1Memory{Bar1Total: size, Bar1Used: used, Bar1Free: size - used})
}

// first is the first reading of a call, whether or not it may be asked; 0 if there is
// none.
func (g *gpu) first(call string) uint64 {
	for _, x := range g.readings() {
		if x.Call == call {
			return x.Value
		}
	}
	return 0
}

// bar1 returns the size in bytes of the window on memory, which is BAR 1 up to Ada
// and BAR 2 after it; 0 if there is none.
func (g *gpu) bar1() uint64 {
	if g.PCI != nil {
		for _, b := range g.PCI.BARs {
			if (b.Index == 1 || b.Index == 2) && b.Size > 0 {
				return b.Size
			}
		}
	}
	return 0
}

// GetPciInfo is not supported on a platform device such as Orin's GPU.
func (g *gpu) GetPciInfo() (nvml.PciInfo, nvml.Return) {
	var info nvml.PciInfo
	if g.PCI != nil {
		info = pciInfo(g.PCI)
	}
	return answer(g.check("DeviceGetPciInfo"), g.PCI != nil, info)
}

func pciInfo(p *host.PCIFunction) nvml.PciInfo {
	info := nvml.PciInfo{
		Domain: p.BDF.Domain, Bus: uint32(p.BDF.Bus), Device: uint32(p.BDF.Device),
		PciDeviceId: uint32(p.ID.Device)<<16 | uint32(p.ID.Vendor), PciSubSystemId: uint32(p.ID.SubDevice)<<16 | uint32(p.ID.SubVendor),
	}
	fill(info.BusId[:], p.BDF.NVML())
	fill(info.BusIdLegacy[:], strings.ToUpper(p.BDF.String()))
	return info
}

func (g *gpu) GetPciInfoExt() (nvml.PciInfoExt, nvml.Return) {
	var info nvml.PciInfoExt
	if p := g.PCI; p != nil {
		info = nvml.PciInfoExt{
			Domain: p.BDF.Domain, Bus: uint32(p.BDF.Bus), Device: uint32(p.BDF.Device),
			PciDeviceId: uint32(p.ID.Device)<<16 | uint32(p.ID.Vendor), PciSubSystemId: uint32(p.ID.SubDevice)<<16 | uint32(p.ID.SubVendor),
			BaseClass: uint32(p.Class) >> 16, SubClass: uint32(p.Class) >> 8 & 0xff,
		}
		fill(info.BusId[:], p.BDF.NVML())
	}
	return answer(g.check("DeviceGetPciInfoExt"), g.PCI != nil, info)
}

func (g *gpu) IsMigDeviceHandle() (bool, nvml.Return) {
	return answer(g.check("DeviceIsMigDeviceHandle"), true, false)
}

// GetMigMode returns the current and the pending mode. GPUs that know no MIG do
// not support the question, but for Thor's.
func (g *gpu) GetMigMode() (int, int, nvml.Return) {
	p, _ := catalog.OfGPU(g.GPU)
	mode, r := answer(g.check("DeviceGetMigMode"), maxMIGDevices(g.GPU) > 0 || p.Key == thor, nvml.DEVICE_MIG_DISABLE)
	if r != nvml.SUCCESS {
		return 0, 0, r
	}
	if g.MIG != nil {
		mode = nvml.DEVICE_MIG_ENABLE
	}
	pending := mode
	if slices.Contains(g.lib.opts.PendingMIG, g.Index) {
		pending = nvml.DEVICE_MIG_ENABLE - mode
	}
	return mode, pending, r
}

// GetMaxMigDeviceCount returns 0 for a GPU that knows no MIG.
func (g *gpu) GetMaxMigDeviceCount() (int, nvml.Return) {
	return answer(g.check("DeviceGetMaxMigDeviceCount"), true, maxMIGDevices(g.GPU))
}

// GetMigDeviceHandleByIndex answers "not found" where there is no such MIG
// device, also while MIG mode is off: go-nvlib asks every capable GPU.
func (g *gpu) GetMigDeviceHandleByIndex(index int) (nvml.Device, nvml.Return) {
	r := g.check("DeviceGetMigDeviceHandleByIndex")
	switch {
	case r != nvml.SUCCESS:
		return nil, r
	case maxMIGDevices(g.GPU) == 0:
		return nil, nvml.ERROR_NOT_SUPPORTED
	case index < 0 || index >= maxMIGDevices(g.GPU):
		return nil, nvml.ERROR_INVALID_ARGUMENT
	}
	for _, m := range g.migs {
		if m.ci.Index == index {
			return m, nvml.SUCCESS
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

// GetDeviceHandleFromMigDeviceHandle is for MIG devices only.
func (g *gpu) GetDeviceHandleFromMigDeviceHandle() (nvml.Device, nvml.Return) {
	if r := g.check("DeviceGetDeviceHandleFromMigDeviceHandle"); r != nvml.SUCCESS {
		return nil, r
	}
	return nil, nvml.ERROR_INVALID_ARGUMENT
}

// serial returns the board's serial number: thirteen digits that start with
// 0000, which no board has, made from the UUID. The GPUs of a superchip have one,
// made from its place. Consumer and integrated GPUs have none.
func (g *gpu) serial() string {
	if g.PCI == nil || g.UUID == "" || strings.Contains(g.Name, "GeForce") {
		return ""
	}
	h := fnv.New32a()
	if p, _ := catalog.OfGPU(g.GPU); p.Coherent() {
		fmt.Fprint(h, p.Key, " ", g.PCI.NUMANode)
	} else {
		h.Write([]byte(g.UUID))
	}
	return fmt.Sprintf("0000%09d", h.Sum32()%1e9)
}

// fill writes s and a NUL into a C character array.
func fill(dst []int8, s string) {
	n := min(len(s), len(dst)-1)
	for i := range n {
		dst[i] = int8(s[i])
	}
	dst[n] = 0
}
