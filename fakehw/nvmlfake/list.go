package nvmlfake

import (
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// A Reading is the answer of a call about a full GPU that returns numbers or a text:
// of a sensor, of a counter, or of a setting that no fake host changes. Arg is the
// call's argument, or which of its results.
type Reading struct {
	Call  string // as in Options.Fail: "DeviceGetTemperature"
	Arg   int
	Value uint64
	Text  string // empty: it is a number
}

// since are the driver branches that brought calls.
var since = map[string]int{
	"DeviceGetConfComputeProtectedMemoryUsage": 535, "DeviceGetJpgUtilization": 535, "DeviceGetOfaUtilization": 535,
	"DeviceGetSramEccErrorStatus": 545, "DeviceGetPlatformInfo": 565, "DeviceGetMarginTemperature": 570,
	"DeviceGetAddressingMode": 580, "DeviceGetRepairStatus": 580,
}

// deprecated are the calls that a driver has given up, and from which branch on.
var deprecated = map[string]int{
	"DeviceGetDisplayMode":       580,
	"DeviceGetApplicationsClock": 590, "DeviceGetDefaultApplicationsClock": 590, "DeviceGetPowerState": 590, // by records of 580 and 595
}

// Deprecated returns the calls that the driver of a host has given up, sorted.
func Deprecated(m host.Model) []string {
	var out []string
	if m.Driver != nil {
		for call, from := range deprecated {
			if catalog.BranchNumber(m.Driver.Version) >= from {
				out = append(out, call)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Readings returns what an idle GPU of a host answers, in a fixed order; what is not
// there is not supported. A GPU of the SoC, and one that the catalogue does not have,
// say nothing. Where the driver is the vGPU manager's, a board that it can divide is
// the host of such, and by virtual functions if it has them.
func Readings(m host.Model, g host.GPU) []Reading {
	if g.PCI == nil || m.Driver == nil {
		return nil
	}
	p, ok := catalog.OfGPU(g)
	if !ok {
		return nil
	}
	l := list{branch: catalog.BranchNumber(m.Driver.Version), out: make([]Reading, 0, 256)}
	s, ok := p.Readings()
	if !ok {
		if p.Key == thor {
			l.add("DeviceGetComputeMode", 0)
		}
		return l.out
	}
	l.sensors(g, p, s)
	l.settings(m, g, p, s)
	l.memory(g, p, s)
	l.board(m, g, p)
	l.fields(m, p, s)
	l.affinity(m, g)
	l.links(m, g, p)
	return l.out
}

// thor is the product of a GPU of the SoC that is a PCI function: it tells a compute
// mode and a MIG mode, which is off.
const thor = "thor-gpu"

// A list grows by the answers of one call after the other.
type list struct {
	branch int
	out    []Reading
}

func (l *list) add(call string, values ...int) {
	for i, v := range values {
		l.at(call, i, v)
	}
}

func (l *list) at(call string, arg, v int) {
	if l.branch >= since[call] {
		l.out = append(l.out, Reading{Call: call, Arg: arg, Value: uint64(v)})
	}
}

func (l *list) text(call string, arg int, s string) {
	if s != "" && l.branch >= since[call] {
		l.out = append(l.out, Reading{Call: call, Arg: arg, Text: s})
	}
}

func (l *list) sensors(g host.GPU, p catalog.Product, s catalog.Readings) {
	b := p.Card()
	l.add("DeviceGetTemperature", s.TempC)
	if p.TLimit() {
		l.add("DeviceGetMarginTemperature", s.MaxC+2-s.TempC)
	} else {
		l.add("DeviceGetTemperatureThreshold", s.ShutdownC, s.SlowdownC)
		if b.MemoryC > 0 {
			l.at("DeviceGetTemperatureThreshold", 2, s.MaxC+10)
		}
		l.at("DeviceGetTemperatureThreshold", 3, s.MaxC)
	}
	if b.TargetC > 0 {
		l.at("DeviceGetTemperatureThreshold", int(nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_CURR), b.TargetC)
	}
	l.add("DeviceGetPowerUsage", s.IdleW*1000)
	l.add("DeviceGetPowerManagementMode", 1)
	l.add("DeviceGetPowerManagementLimit", s.LimitW*1000)
	l.add("DeviceGetPowerManagementDefaultLimit", s.LimitW*1000)
	l.add("DeviceGetPowerManagementLimitConstraints", s.MinLimitW*1000, b.MaxLimitW*1000)
	l.add("DeviceGetEnforcedPowerLimit", s.LimitW*1000)
	l.add("DeviceGetPerformanceState", s.PState)
	l.add("DeviceGetPowerState", s.PState)
	l.add("DeviceGetClockInfo", s.SM, s.SM, s.Memory, b.Video)
	l.add("DeviceGetMaxClockInfo", s.MaxSM, s.MaxSM, s.MaxMem, b.MaxVideo)
	l.add("DeviceGetCurrentClocksEventReasons", 1) // idle
	l.add("DeviceGetSupportedClocksEventReasons", 0x1ff)
	l.add("DeviceGetCurrentClocksThrottleReasons", 1)
	l.add("DeviceGetSupportedClocksThrottleReasons", 0x1ff)
	l.add("DeviceGetSupportedEventTypes", eventTypes(p, s))
	if s.ECC { // application clocks are for boards of the data centre
		l.add("DeviceGetApplicationsClock", b.AppClock, b.AppClock, s.MaxMem)
		l.add("DeviceGetDefaultApplicationsClock", b.AppClock, b.AppClock, s.MaxMem)
		l.add("DeviceGetMaxCustomerBoostClock", s.MaxSM, s.MaxSM, s.MaxMem, b.MaxVideo)
	}
	if s.Fan >= 0 {
		l.add("DeviceGetFanSpeed", s.Fan)
	}
	if g.MIG == nil { // which engine of which instance would it be
		const period = 167000
		l.add("DeviceGetUtilizationRates", 0, 0)
		for _, call := range []string{"Encoder", "Decoder", "Jpg", "Ofa"} {
			l.add("DeviceGet"+call+"Utilization", 0, period)
		}
	}
	l.add("DeviceGetEncoderStats", 0, 0, 0)
	l.add("DeviceGetFBCStats", 0, 0, 0)
	link := s.Link // a link sleeps with its GPU
	if s.PState >= 8 {
		link = 1
	}
	l.add("DeviceGetCurrPcieLinkGeneration", link)
	l.add("DeviceGetMaxPcieLinkGeneration", s.Link)
	l.add("DeviceGetGpuMaxPcieLinkGeneration", b.DeviceLink)
	l.add("DeviceGetCurrPcieLinkWidth", 16)
	l.add("DeviceGetMaxPcieLinkWidth", 16)
	l.add("DeviceGetPcieReplayCounter", 0)
	l.add("DeviceGetPcieThroughput", b.TxKB, b.RxKB)
}

// eventTypes are the events that a GPU can tell; the masks are unverified.
func eventTypes(p catalog.Product, s catalog.Readings) int {
	types := nvml.EventTypePState | nvml.EventTypeXidCriticalError | nvml.EventTypeClock
	if s.ECC {
		types |= nvml.EventTypeSingleBitEccError | nvml.EventTypeDoubleBitEccError
	}
	if len(p.MIG) > 0 {
		types |= nvml.EventMigConfigChange
	}
	return types
}

func (l *list) settings(m host.Model, g host.GPU, p catalog.Product, s catalog.Readings) {
	l.add("DeviceGetComputeMode", 0)
	l.add("DeviceGetDisplayMode", map[bool]int{false: 1}[p.Displays()]) // no display is at it, or there is nothing for one
	l.add("DeviceGetDisplayActive", 0)
	l.add("DeviceGetAccountingMode", 0)
	l.add("DeviceGetAccountingBufferSize", 4000)
	if how, can := p.Virtual(); m.Driver.VGPU != "" && can {
		l.add("DeviceGetVirtualizationMode", int(nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU))
		l.add("DeviceGetHostVgpuMode", min(how.VFs, 1))
	} else {
		l.add("DeviceGetVirtualizationMode", 0)
	}
	l.add("DeviceGetMultiGpuBoard", 0)
	l.add("DeviceGetBoardId", int(g.PCI.BDF.Domain)<<16|int(g.PCI.BDF.Bus)<<8|int(g.PCI.BDF.Device))
	switch {
	case p.Coherent():
		l.add("DeviceGetAddressingMode", int(nvml.DEVICE_ADDRESSING_MODE_ATS))
	case m.Driver.Open && kernelAtLeast(m.Kernel, 6, 1): // heterogeneous memory management came with it
		l.add("DeviceGetAddressingMode", int(nvml.DEVICE_ADDRESSING_MODE_HMM))
	default:
		l.add("DeviceGetAddressingMode", int(nvml.DEVICE_ADDRESSING_MODE_NONE))
	}
}

// kernelAtLeast compares a kernel's release, "6.8.0-60-generic".
func kernelAtLeast(release string, major, minor int) bool {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, b, ok := parseDotted(parts[0] + "." + parts[1])
	return ok && (a > major || a == major && b >= minor)
}

// Locations of counted memory errors (nvml.h).
const (
	dram = int(nvml.MEMORY_LOCATION_DRAM)
	sram = int(nvml.MEMORY_LOCATION_SRAM)
)

// memory are a board's counters of errors, which are all 0, and what it keeps of its
// memory.
func (l *list) memory(g host.GPU, p catalog.Product, s catalog.Readings) {
	b := p.Card()
	if b.ReservedMiB > 0 { // half a MiB less, as what is printed is rounded up
		l.add("DeviceGetMemoryInfo_v2", b.ReservedMiB*mib-mib/2)
	}
	l.add("DeviceGetBAR1MemoryInfo", mib)
	l.add("DeviceGetConfComputeProtectedMemoryUsage", 0, 0, 0)
	if p.Remaps() {
		l.add("DeviceGetRepairStatus", 0, 0)
	}
	if b.CanECC {
		l.add("DeviceGetEccMode", 0, 0)
		l.rows(b)
	}
	if !s.ECC {
		return
	}
	l.add("DeviceGetEccMode", 1, 1)
	l.add("DeviceGetTotalEccErrors", 0, 0, 0, 0)
	for counter := range 4 { // corrected or not, volatile or for life
		if counter%2 == 0 && g.MIG != nil && l.branch < 525 { // whose instance's? By a record of 510 and one of 535
			continue
		}
		l.at("DeviceGetMemoryErrorCounter", counter*16+dram, 0)
		l.at("DeviceGetMemoryErrorCounter", counter*16+sram, 0)
	}
	if !p.Remaps() {
		l.add("DeviceGetRetiredPages", 0, 0)
		l.add("DeviceGetRetiredPagesPendingStatus", 0)
		return
	}
	l.add("DeviceGetSramEccErrorStatus", make([]int, 12)...)
	l.rows(b)
}

// rows are those of memory that are remapped: none.
func (l *list) rows(b catalog.Card) {
	l.add("DeviceGetRemappedRows", 0, 0, 0, 0)
	if b.Banks > 0 {
		l.add("DeviceGetRowRemapperHistogram", b.Banks, 0, 0, 0, 0)
	}
}

func (l *list) board(m host.Model, g host.GPU, p catalog.Product) {
	b := p.Card()
	l.text("DeviceGetBoardPartNumber", 0, b.Part)
	l.text("DeviceGetInforomImageVersion", 0, b.Image)
	l.text("DeviceGetInforomVersion", int(nvml.INFOROM_OEM), b.OEM)
	l.text("DeviceGetInforomVersion", int(nvml.INFOROM_ECC), b.ECC)
	if s, _ := p.Readings(); m.Driver.Open || s.ECC && l.branch >= 510 { // closed modules use it on boards of the data centre
		l.text("DeviceGetGspFirmwareVersion", 0, m.Driver.Version)
	}
	if p.Fabric() { // whether there is a coherent link; only Hopper and newer know
		l.add("DeviceGetC2cModeInfoV", map[bool]int{true: 1}[p.Coherent()])
	}
	module := moduleID(g, p)
	l.add("DeviceGetModuleId", module)
	if p.Platform() {
		l.add("DeviceGetPlatformInfo", 0, 0, 1, 1, module) // slot, tray, host, behind a switch, module
	}
}

// modules are the module numbers of a baseboard's GPUs by address: of eight as an H100's
// were recorded, of four as a GB200's.
var modules = map[int][]int{8: {7, 5, 6, 8, 1, 3, 4, 2}, 4: {2, 1, 4, 3}}

func moduleID(g host.GPU, p catalog.Product) int {
	size := 8
	if p.Coherent() {
		size = 4
	}
	if p.Card().Links == 0 || g.Index < 0 {
		return 1
	}
	return modules[size][g.Index%size]
}
