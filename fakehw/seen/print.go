package seen

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The functions here make a question of a call of NVML: they print what it
// answers as nvidia-smi does.

func text(call func(nvml.Device) (string, nvml.Return)) question { return question(call) }

// unit puts a unit behind a number.
func unit[T any](v T, name string) string { return strings.TrimSpace(fmt.Sprint(v, " ", name)) }

func count[T any](call func(nvml.Device) (T, nvml.Return), name string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		v, r := call(d)
		return unit(v, name), r
	}
}

func suffixed(call func(nvml.Device) (int, nvml.Return), suffix string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		v, r := call(d)
		return fmt.Sprint(v) + suffix, r
	}
}

func named[T comparable](call func(nvml.Device) (T, nvml.Return), names map[T]string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		v, r := call(d)
		name, ok := names[v]
		if !ok {
			name = fmt.Sprintf("unknown %v", v)
		}
		return name, r
	}
}

func onOff(v int) string {
	if v != 0 {
		return "Enabled"
	}
	return "Disabled"
}

func enabled(call func(nvml.Device) (nvml.EnableState, nvml.Return)) question {
	return func(d nvml.Device) (string, nvml.Return) {
		v, r := call(d)
		return onOff(int(v)), r
	}
}

func side(call func(nvml.Device) (int, int, nvml.Return), which int) question {
	return func(d nvml.Device) (string, nvml.Return) {
		a, b, r := call(d)
		return onOff([]int{a, b}[which]), r
	}
}

func ecc(which int) question {
	return side(func(d nvml.Device) (int, int, nvml.Return) {
		a, b, r := d.GetEccMode()
		return int(a), int(b), r
	}, which)
}

func addressing(d nvml.Device) (string, nvml.Return) {
	m, r := d.GetAddressingMode()
	return [...]string{"None", "HMM", "ATS", "unknown"}[m.Value&3], r
}

func inforom(object nvml.InforomObject) question {
	return func(d nvml.Device) (string, nvml.Return) { return d.GetInforomVersion(object) }
}

func pstate(d nvml.Device) (string, nvml.Return) {
	s, r := d.GetPerformanceState()
	return fmt.Sprintf("P%d", s), r
}

// field asks one field value; its number is 0 where there is none.
func field(d nvml.Device, id, scope uint32) (int64, nvml.Return) {
	v := []nvml.FieldValue{{FieldId: id, ScopeId: scope}}
	if r := d.GetFieldValues(v); r != nvml.SUCCESS {
		return 0, r
	}
	if r := nvml.Return(v[0].NvmlReturn); r != nvml.SUCCESS {
		return 0, r
	}
	n := binary.NativeEndian.Uint64(v[0].Value[:])
	switch nvml.ValueType(v[0].ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return int64(uint32(n)), nvml.SUCCESS
	case nvml.VALUE_TYPE_SIGNED_INT:
		return int64(int32(n)), nvml.SUCCESS
	}
	return int64(n), nvml.SUCCESS
}

func fieldCount(id, scope uint32, name string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := field(d, id, scope)
		return unit(n, name), r
	}
}

func fieldWord(id uint32, words ...string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := field(d, id, 0)
		if n < 0 || n >= int64(len(words)) {
			return fmt.Sprint("unknown ", n), r
		}
		return words[n], r
	}
}

func milli(mw int64) string { return fmt.Sprintf("%d.%02d W", mw/1000, mw%1000/10) }

func fieldWatts(id, scope uint32) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := field(d, id, scope)
		return milli(n), r
	}
}

func watts(call func(nvml.Device) (uint32, nvml.Return)) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := call(d)
		return milli(int64(n)), r
	}
}

func limit(which int) question {
	return func(d nvml.Device) (string, nvml.Return) {
		a, b, r := d.GetPowerManagementLimitConstraints()
		return milli(int64([]uint32{a, b}[which])), r
	}
}

func atomics(id uint32) question {
	return func(d nvml.Device) (string, nvml.Return) {
		mask, r := field(d, id, 0)
		var out []string
		for bit, name := range []string{"FETCHADD_32", "FETCHADD_64", "SWAP_32", "SWAP_64", "CAS_32", "CAS_64", "CAS_128"} {
			if mask>>bit&1 != 0 {
				out = append(out, name)
			}
		}
		return strings.Join(out, " "), r
	}
}

func pciInfo(say func(nvml.PciInfo) string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		p, r := d.GetPciInfo()
		return say(p), r
	}
}

func pciExt(say func(nvml.PciInfoExt) string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		p, r := d.GetPciInfoExt()
		return say(p), r
	}
}

func throughput(counter nvml.PcieUtilCounter) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := d.GetPcieThroughput(counter)
		return unit(n, "KB/s"), r
	}
}

// mebibytes rounds up, as nvidia-smi does: what is free and what is reserved add up to
// one more than there is in every capture.
func mebibytes(n uint64) string { return unit((n+1<<20-1)>>20, "MiB") }

func memory(of func(nvml.Memory_v2) uint64) question {
	return func(d nvml.Device) (string, nvml.Return) {
		m, r := d.GetMemoryInfo_v2()
		return mebibytes(of(m)), r
	}
}

func bar1(of func(nvml.BAR1Memory) uint64) question {
	return func(d nvml.Device) (string, nvml.Return) {
		m, r := d.GetBAR1MemoryInfo()
		return mebibytes(of(m)), r
	}
}

func protected(of func(nvml.Memory) uint64) question {
	return func(d nvml.Device) (string, nvml.Return) {
		m, r := d.GetConfComputeProtectedMemoryUsage()
		return mebibytes(of(m)), r
	}
}

func utilization(of func(nvml.Utilization) uint32) question {
	return func(d nvml.Device) (string, nvml.Return) {
		u, r := d.GetUtilizationRates()
		return unit(of(u), "%"), r
	}
}

func engine(call func(nvml.Device) (uint32, uint32, nvml.Return)) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, _, r := call(d)
		return unit(n, "%"), r
	}
}

func encoder(which int) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, fps, latency, r := d.GetEncoderStats()
		return fmt.Sprint([]int{n, int(fps), int(latency)}[which]), r
	}
}

func capture(of func(nvml.FBCStats) uint32) question {
	return func(d nvml.Device) (string, nvml.Return) {
		s, r := d.GetFBCStats()
		return fmt.Sprint(of(s)), r
	}
}

func sram(of func(nvml.EccSramErrorStatus) uint64) question {
	return func(d nvml.Device) (string, nvml.Return) {
		s, r := d.GetSramEccErrorStatus()
		return fmt.Sprint(of(s)), r
	}
}

func exceeded(d nvml.Device) (string, nvml.Return) {
	s, r := d.GetSramEccErrorStatus()
	return yesNo(s.BThresholdExceeded), r
}

func yesNo(n uint32) string {
	if n != 0 {
		return "Yes"
	}
	return "No"
}

func errorsIn(kind nvml.MemoryErrorType, counter nvml.EccCounterType, at nvml.MemoryLocation) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := d.GetMemoryErrorCounter(kind, counter, at)
		return fmt.Sprint(n), r
	}
}

func repair(of func(nvml.RepairStatus) uint32) question {
	return func(d nvml.Device) (string, nvml.Return) {
		s, r := d.GetRepairStatus()
		return yesNo(of(s)), r
	}
}

func retired(cause nvml.PageRetirementCause) question {
	return func(d nvml.Device) (string, nvml.Return) {
		pages, r := d.GetRetiredPages(cause)
		return fmt.Sprint(len(pages)), r
	}
}

func remapped(which int) question {
	return func(d nvml.Device) (string, nvml.Return) {
		corrected, not, pending, failure, r := d.GetRemappedRows()
		n := map[bool]string{true: "Yes", false: "No"}
		return []string{fmt.Sprint(corrected), fmt.Sprint(not), n[pending], n[failure]}[which], r
	}
}

func banks(of func(nvml.RowRemapperHistogramValues) uint32) question {
	return func(d nvml.Device) (string, nvml.Return) {
		h, r := d.GetRowRemapperHistogram()
		return unit(of(h), "bank(s)"), r
	}
}

func degrees(call func(nvml.Device) (uint32, nvml.Return)) question { return count(call, "C") }

func threshold(t nvml.TemperatureThresholds) question {
	return degrees(func(d nvml.Device) (uint32, nvml.Return) { return d.GetTemperatureThreshold(t) })
}

func margin(d nvml.Device) (string, nvml.Return) {
	m, r := d.GetMarginTemperature()
	return unit(m.MarginTemperature, "C"), r
}

func clock(call func(nvml.Device, nvml.ClockType) (uint32, nvml.Return), kind nvml.ClockType) question {
	return func(d nvml.Device) (string, nvml.Return) {
		n, r := call(d, kind)
		return unit(n, "MHz"), r
	}
}

func fabric(say func(nvml.GpuFabricInfo) string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		f, r := d.GetGpuFabricInfo()
		return say(f), r
	}
}

func platform(say func(nvml.PlatformInfo) string) question {
	return func(d nvml.Device) (string, nvml.Return) {
		p, r := d.GetPlatformInfo()
		return say(p), r
	}
}

func reason(bit int) question {
	return func(d nvml.Device) (string, nvml.Return) {
		mask, r := d.GetCurrentClocksEventReasons()
		if mask>>bit&1 != 0 {
			return "Active", r
		}
		return "Not Active", r
	}
}

// links counts the NVLinks that are up.
func links(d nvml.Device) (string, nvml.Return) {
	up := 0
	for i := range nvml.NVLINK_MAX_LINKS {
		state, r := d.GetNvLinkState(i)
		if i == 0 && r != nvml.SUCCESS {
			return "", r
		}
		if r == nvml.SUCCESS && state == nvml.FEATURE_ENABLED {
			up++
		}
	}
	return fmt.Sprint(up), nvml.SUCCESS
}
