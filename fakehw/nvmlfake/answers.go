package nvmlfake

import (
	"encoding/hex"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// word is one text of a call.
func word(g *gpu, call string, arg int) (string, nvml.Return) {
	x, r := g.reading(call, arg)
	return x.Text, r
}

// several reads the results of a call, of which it has all or none.
func several(g *gpu, call string, n int) ([]uint64, nvml.Return) {
	out := make([]uint64, n)
	for i := range out {
		v, r := g.read(call, i)
		if r != nvml.SUCCESS {
			return make([]uint64, n), r
		}
		out[i] = v
	}
	return out, nvml.SUCCESS
}

func (g *gpu) GetBoardPartNumber() (string, nvml.Return) {
	return word(g, "DeviceGetBoardPartNumber", 0)
}

func (g *gpu) GetInforomImageVersion() (string, nvml.Return) {
	return word(g, "DeviceGetInforomImageVersion", 0)
}

func (g *gpu) GetInforomVersion(o nvml.InforomObject) (string, nvml.Return) {
	if r := g.check("DeviceGetInforomVersion"); r != nvml.SUCCESS {
		return "", r
	}
	if o < 0 || o >= nvml.INFOROM_COUNT {
		return "", nvml.ERROR_INVALID_ARGUMENT
	}
	return word(g, "DeviceGetInforomVersion", int(o))
}

func (g *gpu) GetGspFirmwareVersion() (string, nvml.Return) {
	return word(g, "DeviceGetGspFirmwareVersion", 0)
}

func (g *gpu) GetModuleId() (int, nvml.Return) { return number[int](g, "DeviceGetModuleId") }

func (g *gpu) GetMarginTemperature() (nvml.MarginTemperature, nvml.Return) {
	v, r := number[int32](g, "DeviceGetMarginTemperature")
	return nvml.MarginTemperature{MarginTemperature: v}, r
}

func (g *gpu) GetAddressingMode() (nvml.DeviceAddressingMode, nvml.Return) {
	v, r := number[uint32](g, "DeviceGetAddressingMode")
	return nvml.DeviceAddressingMode{Value: v}, r
}

func (g *gpu) GetMaxCustomerBoostClock(t nvml.ClockType) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetMaxCustomerBoostClock", t, int(nvml.CLOCK_COUNT))
}

func (g *gpu) GetCurrentClocksEventReasons() (uint64, nvml.Return) {
	return g.read("DeviceGetCurrentClocksEventReasons", 0)
}

func (g *gpu) GetSupportedEventTypes() (uint64, nvml.Return) {
	return g.read("DeviceGetSupportedEventTypes", 0)
}

func (g *gpu) GetSupportedClocksEventReasons() (uint64, nvml.Return) {
	return g.read("DeviceGetSupportedClocksEventReasons", 0)
}

func (g *gpu) GetCurrentClocksThrottleReasons() (uint64, nvml.Return) {
	return g.read("DeviceGetCurrentClocksThrottleReasons", 0)
}

func (g *gpu) GetSupportedClocksThrottleReasons() (uint64, nvml.Return) {
	return g.read("DeviceGetSupportedClocksThrottleReasons", 0)
}

func (g *gpu) GetJpgUtilization() (uint32, uint32, nvml.Return) {
	return both(g, "DeviceGetJpgUtilization")
}

func (g *gpu) GetOfaUtilization() (uint32, uint32, nvml.Return) {
	return both(g, "DeviceGetOfaUtilization")
}

func (g *gpu) GetEncoderStats() (int, uint32, uint32, nvml.Return) {
	v, r := several(g, "DeviceGetEncoderStats", 3)
	return int(v[0]), uint32(v[1]), uint32(v[2]), r
}

func (g *gpu) GetFBCStats() (nvml.FBCStats, nvml.Return) {
	v, r := several(g, "DeviceGetFBCStats", 3)
	return nvml.FBCStats{SessionsCount: uint32(v[0]), AverageFPS: uint32(v[1]), AverageLatency: uint32(v[2])}, r
}

func (g *gpu) GetGpuMaxPcieLinkGeneration() (int, nvml.Return) {
	return number[int](g, "DeviceGetGpuMaxPcieLinkGeneration")
}

func (g *gpu) GetPcieThroughput(c nvml.PcieUtilCounter) (uint32, nvml.Return) {
	return indexed(g, "DeviceGetPcieThroughput", c, int(nvml.PCIE_UTIL_COUNT))
}

func (g *gpu) GetConfComputeProtectedMemoryUsage() (nvml.Memory, nvml.Return) {
	v, r := several(g, "DeviceGetConfComputeProtectedMemoryUsage", 3)
	return nvml.Memory{Total: v[0], Free: v[1], Used: v[2]}, r
}

// GetMemoryErrorCounter counts errors in memory and in the SRAM of the chip.
func (g *gpu) GetMemoryErrorCounter(t nvml.MemoryErrorType, c nvml.EccCounterType, at nvml.MemoryLocation) (uint64, nvml.Return) {
	if r := g.check("DeviceGetMemoryErrorCounter"); r != nvml.SUCCESS {
		return 0, r
	}
	if t < 0 || t > 1 || c < 0 || c > 1 || at < 0 || at >= nvml.MEMORY_LOCATION_COUNT {
		return 0, nvml.ERROR_INVALID_ARGUMENT
	}
	return g.read("DeviceGetMemoryErrorCounter", (int(t)*2+int(c))*16+int(at))
}

func (g *gpu) GetSramEccErrorStatus() (nvml.EccSramErrorStatus, nvml.Return) {
	v, r := several(g, "DeviceGetSramEccErrorStatus", 12)
	return nvml.EccSramErrorStatus{AggregateUncParity: v[0], AggregateUncSecDed: v[1], AggregateCor: v[2], VolatileUncParity: v[3], VolatileUncSecDed: v[4],
		VolatileCor: v[5], AggregateUncBucketL2: v[6], AggregateUncBucketSm: v[7], AggregateUncBucketPcie: v[8], AggregateUncBucketMcu: v[9],
		AggregateUncBucketOther: v[10], BThresholdExceeded: uint32(v[11])}, r
}

func (g *gpu) GetRepairStatus() (nvml.RepairStatus, nvml.Return) {
	v, r := several(g, "DeviceGetRepairStatus", 2)
	return nvml.RepairStatus{BChannelRepairPending: uint32(v[0]), BTpcRepairPending: uint32(v[1])}, r
}

// GetRetiredPages lists none of the pages that older boards retire.
func (g *gpu) GetRetiredPages(cause nvml.PageRetirementCause) ([]uint64, nvml.Return) {
	_, r := indexed(g, "DeviceGetRetiredPages", cause, int(nvml.PAGE_RETIREMENT_CAUSE_COUNT))
	if r != nvml.SUCCESS {
		return nil, r
	}
	return []uint64{}, r
}

// GetRetiredPages_v2 is GetRetiredPages with times.
func (g *gpu) GetRetiredPages_v2(cause nvml.PageRetirementCause) ([]uint64, []uint64, nvml.Return) {
	pages, r := g.GetRetiredPages(cause)
	return pages, pages, r
}

func (g *gpu) GetRetiredPagesPendingStatus() (nvml.EnableState, nvml.Return) {
	return number[nvml.EnableState](g, "DeviceGetRetiredPagesPendingStatus")
}

func (g *gpu) GetRemappedRows() (int, int, bool, bool, nvml.Return) {
	v, r := several(g, "DeviceGetRemappedRows", 4)
	return int(v[0]), int(v[1]), v[2] != 0, v[3] != 0, r
}

func (g *gpu) GetRowRemapperHistogram() (nvml.RowRemapperHistogramValues, nvml.Return) {
	v, r := several(g, "DeviceGetRowRemapperHistogram", 5)
	return nvml.RowRemapperHistogramValues{Max: uint32(v[0]), High: uint32(v[1]), Partial: uint32(v[2]), Low: uint32(v[3]), None: uint32(v[4])}, r
}

func (g *gpu) GetPlatformInfo() (nvml.PlatformInfo, nvml.Return) {
	v, r := several(g, "DeviceGetPlatformInfo", 5)
	return nvml.PlatformInfo{SlotNumber: uint8(v[0]), TrayIndex: uint8(v[1]), HostId: uint8(v[2]), PeerType: uint8(v[3]), ModuleId: uint8(v[4])}, r
}

// GetGpuFabricInfo says whether the NVLink fabric is up: where the fabric manager
// runs, and in racks, whose switches have a manager of their own.
func (g *gpu) GetGpuFabricInfo() (nvml.GpuFabricInfo, nvml.Return) {
	const call = "DeviceGetGpuFabricInfo"
	v, r := several(g, call, 3)
	if r != nvml.SUCCESS {
		return nvml.GpuFabricInfo{}, r
	}
	info := nvml.GpuFabricInfo{State: nvml.GPU_FABRIC_STATE_NOT_STARTED, CliqueId: uint32(v[0])}
	text, r := word(g, call, 3)
	if id, err := hex.DecodeString(text); err == nil && g.fabricUp() {
		info.State = nvml.GPU_FABRIC_STATE_COMPLETED
		copy(info.ClusterUuid[:], id)
	}
	return info, r
}
