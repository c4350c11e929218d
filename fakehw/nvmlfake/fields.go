package nvmlfake

import (
	"encoding/binary"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// signed and long are the fields whose values are no unsigned int.
var (
	signedFields = []uint32{nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, nvml.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, nvml.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT}
	longFields   = []uint32{nvml.FI_DEV_PERF_POLICY_POWER, nvml.FI_DEV_PERF_POLICY_THERMAL, nvml.FI_DEV_PERF_POLICY_SYNC_BOOST, nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
		nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN}
)

// fieldArg is a Reading's Arg of a field of a scope.
func fieldArg(id, scope uint32) int { return int(scope)<<16 | int(id) }

// fields are what nvmlDeviceGetFieldValues answers, by branch as far as it is known.
func (l *list) fields(m host.Model, p catalog.Product, s catalog.Readings) {
	const call = "DeviceGetFieldValues"
	b := p.Card()
	field := func(from int, id, scope uint32, v int) {
		if l.branch >= from {
			l.at(call, fieldArg(id, scope), v)
		}
	}
	for _, id := range longFields[:3] {
		field(0, id, 0, 0)
	}
	for _, id := range longFields[3:] {
		field(580, id, 0, 0)
	}
	field(0, nvml.FI_DEV_PCIE_REPLAY_COUNTER, 0, 0)
	field(0, nvml.FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER, 0, 0)
	field(0, nvml.FI_DEV_NVLINK_LINK_COUNT, 0, b.Links)
	if up := linked(m, p); b.Links > 0 {
		field(0, nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0, b.LinkMBps())
		for i := range uint32(b.Links) {
			if up && i < 6 {
				field(0, nvml.FI_DEV_NVLINK_SPEED_MBPS_L0+i, 0, b.LinkMBps())
			}
			field(525, nvml.FI_DEV_NVLINK_GET_STATE, i, map[bool]int{true: 1}[up])
			for _, id := range []uint32{nvml.FI_DEV_NVLINK_ERROR_DL_REPLAY, nvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY, nvml.FI_DEV_NVLINK_ERROR_DL_CRC} {
				field(525, id, i, 0)
			}
			if up {
				field(525, nvml.FI_DEV_NVLINK_GET_SPEED, i, b.LinkMBps())
				field(525, nvml.FI_DEV_NVLINK_GET_VERSION, i, b.LinkVersion)
			}
		}
		switched := 0
		if up {
			switched = b.Links
		}
		field(510, nvml.FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT, 0, switched)
	}
	if s.ECC && p.Remaps() || b.CanECC {
		for id := uint32(nvml.FI_DEV_REMAPPED_COR); id <= nvml.FI_DEV_REMAPPED_FAILURE; id++ {
			field(0, id, 0, 0)
		}
	}
	field(570, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 0, 0)
	if s.ECC {
		field(0, nvml.FI_DEV_ECC_CURRENT, 0, 1)
		field(0, nvml.FI_DEV_ECC_PENDING, 0, 1)
	}
	if b.MemoryC > 0 {
		field(0, nvml.FI_DEV_MEMORY_TEMP, 0, b.MemoryC)
	}
	if p.TLimit() {
		field(535, nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, 0, b.Shutdown)
		field(535, nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, 0, b.Slowdown)
		field(535, nvml.FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, 0, 0)
		if b.MemoryC > 0 {
			field(535, nvml.FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, 0, 0)
		}
	}
	if p.Averages() {
		field(535, nvml.FI_DEV_POWER_AVERAGE, nvml.POWER_SCOPE_GPU, s.IdleW*1000)
	}
	field(535, nvml.FI_DEV_POWER_INSTANT, nvml.POWER_SCOPE_GPU, s.IdleW*1000)
	limits := func(scope uint32, lowest, limit int) {
		field(535, nvml.FI_DEV_POWER_MIN_LIMIT, scope, lowest*1000)
		for _, id := range []uint32{nvml.FI_DEV_POWER_MAX_LIMIT, nvml.FI_DEV_POWER_DEFAULT_LIMIT, nvml.FI_DEV_POWER_CURRENT_LIMIT, nvml.FI_DEV_POWER_REQUESTED_LIMIT} {
			field(535, id, scope, limit*1000)
		}
	}
	limits(nvml.POWER_SCOPE_GPU, s.MinLimitW, s.LimitW)
	if b.MemoryW > 0 {
		field(550, nvml.FI_DEV_POWER_AVERAGE, nvml.POWER_SCOPE_MEMORY, b.MemoryW*1000)
	}
	if b.ModuleW > 0 {
		limits(nvml.POWER_SCOPE_MODULE, b.MinModuleW, b.ModuleW)
		field(535, nvml.FI_DEV_POWER_AVERAGE, nvml.POWER_SCOPE_MODULE, b.ModuleIdleW*1000)
		field(535, nvml.FI_DEV_POWER_INSTANT, nvml.POWER_SCOPE_MODULE, b.ModuleIdleW*1000)
	}
	if b.AtomicsIn > 0 {
		field(570, nvml.FI_DEV_PCIE_INBOUND_ATOMICS_MASK, 0, b.AtomicsIn)
	}
	if b.AtomicsOut > 0 {
		field(570, nvml.FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK, 0, b.AtomicsOut)
	}
}

// GetFieldValues answers each field by itself; what is not modelled is not supported.
func (g *gpu) GetFieldValues(values []nvml.FieldValue) nvml.Return {
	if r := g.check("DeviceGetFieldValues"); r != nvml.SUCCESS {
		return r
	}
	if len(values) == 0 {
		return nvml.ERROR_INVALID_ARGUMENT
	}
	for i := range values {
		v := &values[i]
		v.Timestamp, v.LatencyUsec, v.ValueType, v.Value = 0, 0, uint32(nvml.VALUE_TYPE_UNSIGNED_INT), [8]byte{}
		if v.FieldId == 0 || v.FieldId >= nvml.FI_MAX || v.ScopeId > 0xffff {
			v.NvmlReturn = uint32(nvml.ERROR_INVALID_ARGUMENT)
			continue
		}
		n, r := g.read("DeviceGetFieldValues", fieldArg(v.FieldId, v.ScopeId))
		v.NvmlReturn = uint32(r)
		if r != nvml.SUCCESS {
			continue
		}
		switch {
		case slices.Contains(signedFields, v.FieldId):
			v.ValueType = uint32(nvml.VALUE_TYPE_SIGNED_INT)
			binary.NativeEndian.PutUint32(v.Value[:], uint32(n))
		case slices.Contains(longFields, v.FieldId):
			v.ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG)
			binary.NativeEndian.PutUint64(v.Value[:], n)
		default:
			binary.NativeEndian.PutUint32(v.Value[:], uint32(n))
		}
	}
	return nvml.SUCCESS
}
