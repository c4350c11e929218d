package nvmlfake

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// A Reading is the answer of a call about a full GPU that returns numbers: of a
// sensor, or of a setting that no fake host changes. Arg is the call's argument,
// or which of its results.
type Reading struct {
	Call  string // as in Options.Fail: "DeviceGetTemperature"
	Arg   int
	Value uint64
}

// Readings returns what an idle GPU answers, in a fixed order; what is not there
// is not supported. A GPU of the SoC, and one that the catalogue does not have,
// say nothing. Where the driver is the vGPU manager's, vgpu, a board that it can
// divide is the host of such, and by virtual functions if it has them.
func Readings(g host.GPU, vgpu bool) []Reading {
	if g.PCI == nil {
		return nil
	}
	p, ok := catalog.ByID(g.PCI.ID)
	if !ok {
		return nil
	}
	s, ok := p.Readings()
	if !ok {
		return nil
	}
	out := make([]Reading, 0, 64) // about
	add := func(call string, values ...int) {
		for i, v := range values {
			out = append(out, Reading{Call: call, Arg: i, Value: uint64(v)})
		}
	}
	add("DeviceGetTemperature", s.TempC)
	add("DeviceGetTemperatureThreshold", s.ShutdownC, s.SlowdownC, s.MaxC+10, s.MaxC)
	add("DeviceGetPowerUsage", s.IdleW*1000)
	add("DeviceGetPowerManagementMode", 1)
	add("DeviceGetPowerManagementLimit", s.LimitW*1000)
	add("DeviceGetPowerManagementDefaultLimit", s.LimitW*1000)
	add("DeviceGetPowerManagementLimitConstraints", s.MinLimitW*1000, s.LimitW*1000)
	add("DeviceGetEnforcedPowerLimit", s.LimitW*1000)
	add("DeviceGetPerformanceState", s.PState)
	add("DeviceGetPowerState", s.PState)
	add("DeviceGetClockInfo", s.SM, s.SM, s.Memory, s.Video)
	add("DeviceGetMaxClockInfo", s.MaxSM, s.MaxSM, s.MaxMem, s.MaxVideo)
	if s.ECC { // application clocks are for boards of the data centre
		add("DeviceGetApplicationsClock", s.MaxSM, s.MaxSM, s.MaxMem)
		add("DeviceGetDefaultApplicationsClock", s.MaxSM, s.MaxSM, s.MaxMem)
		add("DeviceGetEccMode", 1, 1)
		add("DeviceGetTotalEccErrors", 0, 0, 0, 0)
	}
	if s.Fan >= 0 {
		add("DeviceGetFanSpeed", s.Fan)
	}
	if g.MIG == nil { // which engine of which instance would it be
		add("DeviceGetUtilizationRates", 0, 0)
		add("DeviceGetEncoderUtilization", 0, 167000)
		add("DeviceGetDecoderUtilization", 0, 167000)
	}
	link := s.Link // a link sleeps with its GPU
	if s.PState >= 8 {
		link = 1
	}
	add("DeviceGetCurrPcieLinkGeneration", link)
	add("DeviceGetMaxPcieLinkGeneration", s.Link)
	add("DeviceGetCurrPcieLinkWidth", 16)
	add("DeviceGetMaxPcieLinkWidth", 16)
	add("DeviceGetPcieReplayCounter", 0)
	add("DeviceGetComputeMode", 0)
	add("DeviceGetDisplayMode", 1)
	add("DeviceGetDisplayActive", 0)
	add("DeviceGetAccountingMode", 0)
	add("DeviceGetAccountingBufferSize", 4000)
	if how, can := p.Virtual(); vgpu && can {
		add("DeviceGetVirtualizationMode", int(nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU))
		add("DeviceGetHostVgpuMode", min(how.VFs, 1))
	} else {
		add("DeviceGetVirtualizationMode", 0)
	}
	add("DeviceGetMultiGpuBoard", 0)
	add("DeviceGetBoardId", int(g.PCI.BDF.Domain)<<16|int(g.PCI.BDF.Bus)<<8)
	return out
}

// read returns one reading.
func (g *gpu) read(call string, arg int) (uint64, nvml.Return) {
	r := g.check(call)
	if r == nvml.SUCCESS {
		for _, x := range Readings(g.GPU, g.lib.model.Driver.VGPU != "") {
			if x.Call == call && x.Arg == arg {
				return x.Value, r
			}
		}
		r = nvml.ERROR_NOT_SUPPORTED
	}
	return 0, r
}

// number is read for a call without an argument.
func number[T ~int32 | ~uint32 | ~int](g *gpu, call string) (T, nvml.Return) {
	v, r := g.read(call, 0)
	return T(v), r
}

// indexed is read for a call whose argument is one of n.
func indexed[A ~int32 | ~uint32](g *gpu, call string, arg A, n int) (uint32, nvml.Return) {
	if r := g.check(call); r != nvml.SUCCESS {
		return 0, r
	}
	if int64(arg) < 0 || int64(arg) >= int64(n) {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	v, r := g.read(call, int(arg))
	return uint32(v), r
}

// both is read for a call with two results.
func both(g *gpu, call string) (a, b uint32, r nvml.Return) {
	first, r := g.read(call, 0)
	second, r2 := g.read(call, 1)
	return uint32(first), uint32(second), max(r, r2)
}

func (g *gpu) GetTemperature(sensor nvml.TemperatureSensors) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetTemperature", sensor, 1)
}

func (g *gpu) GetTemperatureThreshold(t nvml.TemperatureThresholds) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetTemperatureThreshold", t, 8)
}

func (g *gpu) GetPowerUsage() (uint32, nvml.Return) { return number[uint32](g, "DeviceGetPowerUsage") }

func (g *gpu) GetPowerManagementMode() (nvml.EnableState, nvml.Return) {
	return number[nvml.EnableState](g, "DeviceGetPowerManagementMode")
}

func (g *gpu) GetPowerManagementLimit() (uint32, nvml.Return) {
	return number[uint32](g, "DeviceGetPowerManagementLimit")
}

func (g *gpu) GetPowerManagementDefaultLimit() (uint32, nvml.Return) {
	return number[uint32](g, "DeviceGetPowerManagementDefaultLimit")
}

func (g *gpu) GetPowerManagementLimitConstraints() (uint32, uint32, nvml.Return) {
	return both(g, "DeviceGetPowerManagementLimitConstraints")
}

func (g *gpu) GetEnforcedPowerLimit() (uint32, nvml.Return) {
	return number[uint32](g, "DeviceGetEnforcedPowerLimit")
}

func (g *gpu) GetPerformanceState() (nvml.Pstates, nvml.Return) {
	return number[nvml.Pstates](g, "DeviceGetPerformanceState")
}

func (g *gpu) GetPowerState() (nvml.Pstates, nvml.Return) {
	return number[nvml.Pstates](g, "DeviceGetPowerState")
}

func (g *gpu) GetClockInfo(t nvml.ClockType) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetClockInfo", t, int(nvml.CLOCK_COUNT))
}

func (g *gpu) GetMaxClockInfo(t nvml.ClockType) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetMaxClockInfo", t, int(nvml.CLOCK_COUNT))
}

func (g *gpu) GetApplicationsClock(t nvml.ClockType) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetApplicationsClock", t, int(nvml.CLOCK_COUNT))
}

func (g *gpu) GetDefaultApplicationsClock(t nvml.ClockType) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetDefaultApplicationsClock", t, int(nvml.CLOCK_COUNT))
}

func (g *gpu) GetEccMode() (nvml.EnableState, nvml.EnableState, nvml.Return) {
	a, b, r := both(g, "DeviceGetEccMode")
	return nvml.EnableState(a), nvml.EnableState(b), r
}

func (g *gpu) GetTotalEccErrors(t nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
	if r := g.check("DeviceGetTotalEccErrors"); r != nvml.SUCCESS {
		return 0, r
	}
	if t < 0 || t > 1 || c < 0 || c > 1 {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return g.read("DeviceGetTotalEccErrors", int(t)*2+int(c))
}

func (g *gpu) GetFanSpeed() (uint32, nvml.Return) { return number[uint32](g, "DeviceGetFanSpeed") }

func (g *gpu) GetUtilizationRates() (nvml.Utilization, nvml.Return) {
	a, b, r := both(g, "DeviceGetUtilizationRates")
	return nvml.Utilization{Gpu: a, Memory: b}, r
}

func (g *gpu) GetEncoderUtilization() (uint32, uint32, nvml.Return) {
	return both(g, "DeviceGetEncoderUtilization")
}

func (g *gpu) GetDecoderUtilization() (uint32, uint32, nvml.Return) {
	return both(g, "DeviceGetDecoderUtilization")
}

func (g *gpu) GetCurrPcieLinkGeneration() (int, nvml.Return) {
	return number[int](g, "DeviceGetCurrPcieLinkGeneration")
}

func (g *gpu) GetMaxPcieLinkGeneration() (int, nvml.Return) {
	return number[int](g, "DeviceGetMaxPcieLinkGeneration")
}

func (g *gpu) GetCurrPcieLinkWidth() (int, nvml.Return) {
	return number[int](g, "DeviceGetCurrPcieLinkWidth")
}

func (g *gpu) GetMaxPcieLinkWidth() (int, nvml.Return) {
	return number[int](g, "DeviceGetMaxPcieLinkWidth")
}

func (g *gpu) GetPcieReplayCounter() (int, nvml.Return) {
	return number[int](g, "DeviceGetPcieReplayCounter")
}

func (g *gpu) GetComputeMode() (nvml.ComputeMode, nvml.Return) {
	return number[nvml.ComputeMode](g, "DeviceGetComputeMode")
}

func (g *gpu) GetDisplayMode() (nvml.EnableState, nvml.Return) {
	return number[nvml.EnableState](g, "DeviceGetDisplayMode")
}

func (g *gpu) GetDisplayActive() (nvml.EnableState, nvml.Return) {
	return number[nvml.EnableState](g, "DeviceGetDisplayActive")
}

func (g *gpu) GetAccountingMode() (nvml.EnableState, nvml.Return) {
	return number[nvml.EnableState](g, "DeviceGetAccountingMode")
}

func (g *gpu) GetAccountingBufferSize() (int, nvml.Return) {
	return number[int](g, "DeviceGetAccountingBufferSize")
}

func (g *gpu) GetVirtualizationMode() (nvml.GpuVirtualizationMode, nvml.Return) {
	return number[nvml.GpuVirtualizationMode](g, "DeviceGetVirtualizationMode")
}

func (g *gpu) GetHostVgpuMode() (nvml.HostVgpuMode, nvml.Return) {
	return number[nvml.HostVgpuMode](g, "DeviceGetHostVgpuMode")
}

func (g *gpu) GetMultiGpuBoard() (int, nvml.Return) {
	return number[int](g, "DeviceGetMultiGpuBoard")
}

func (g *gpu) GetBoardId() (uint32, nvml.Return) { return number[uint32](g, "DeviceGetBoardId") }

// GetComputeRunningProcesses lists none: what programs do on a fake GPU is not
// known here. A GPU of the SoC does not support the question.
func (g *gpu) GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return) {
	return answer(g.check("DeviceGetComputeRunningProcesses"), g.PCI != nil, []nvml.ProcessInfo{})
}

// GetGraphicsRunningProcesses is like GetComputeRunningProcesses.
func (g *gpu) GetGraphicsRunningProcesses() ([]nvml.ProcessInfo, nvml.Return) {
	return answer(g.check("DeviceGetGraphicsRunningProcesses"), g.PCI != nil, []nvml.ProcessInfo{})
}
