package nvmlfake

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// read returns one reading.
func (g *gpu) read(call string, arg int) (uint64, nvml.Return) {
	x, r := g.reading(call, arg)
	return x.Value, r
}

func (g *gpu) reading(call string, arg int) (Reading, nvml.Return) {
	r := g.check(call)
	if r != nvml.SUCCESS {
		return Reading{}, r
	}
	for _, x := range g.readings() {
		if x.Call == call && x.Arg == arg {
			return x, r
		}
	}
	return Reading{}, nvml.ERROR_NOT_SUPPORTED
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
