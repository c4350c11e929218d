package fakehw

import (
	"fmt"
	"strings"

	"gpurig/fakehw/catalog"
)

// A param is one line of /proc/driver/nvidia/params: name, default, and the
// branches that have it.
type param struct {
	name        string
	value       uint32
	since, last int // zero: always
}

// params are in the order of nv-reg.h at 580. Defaults of EnableGpuFirmware,
// EnableGpuFirmwareLogs and PreserveVideoMemoryAllocations are unverified.
var params = []param{
	{name: "ResmanDebugLevel", value: 4294967295},
	{name: "RmLogonRC", value: 1},
	{name: "ModifyDeviceFiles", value: 1},
	{name: "DeviceFileUID"},
	{name: "DeviceFileGID"},
	{name: "DeviceFileMode", value: 438},
	{name: "InitializeSystemMemoryAllocations", value: 1},
	{name: "UsePageAttributeTable", value: 4294967295},
	{name: "EnableMSI", value: 1},
	{name: "EnablePCIeGen3"},
	{name: "MemoryPoolSize"},
	{name: "KMallocHeapMaxSize"},
	{name: "VMallocHeapMaxSize"},
	{name: "IgnoreMMIOCheck"},
	{name: "TCEBypassMode", last: 550},
	{name: "EnableStreamMemOPs"},
	{name: "EnableUserNUMAManagement", value: 1},
	{name: "NvLinkDisable"},
	{name: "RmProfilingAdminOnly", value: 1},
	{name: "PreserveVideoMemoryAllocations", last: 570},
	{name: "PreserveVideoMemoryAllocations", value: 1, since: 580},
	{name: "EnableS0ixPowerManagement"},
	{name: "S0ixPowerManagementVideoMemoryThreshold", value: 256},
	{name: "DynamicPowerManagement", value: 3},
	{name: "DynamicPowerManagementVideoMemoryThreshold", value: 200},
	{name: "RegisterPCIDriver", value: 1},
	{name: "EnablePCIERelaxedOrderingMode"},
	{name: "EnableResizableBar"},
	{name: "EnableGpuFirmware", value: 18},
	{name: "EnableGpuFirmwareLogs", value: 2},
	{name: "RmNvlinkBandwidthLinkCount", since: 570},
	{name: "EnableDbgBreakpoint"},
	{name: "OpenRmEnableUnsupportedGpus", value: 1},
	{name: "DmaRemapPeerMmio", value: 1},
	{name: "ImexChannelCount", value: 2048, since: 550},
	{name: "CreateImexChannel0", since: 570},
	{name: "GrdmaPciTopoCheckOverride", since: 570},
}

var paramStrings = []string{"RegistryDwords", "RegistryDwordsPerDevice", "RmMsg", "GpuBlacklist", "TemporaryFilePath", "ExcludedGpus"}

// paramsText is the file "params" of a driver version.
func paramsText(version string) string {
	branch := catalog.BranchNumber(version)
	var s strings.Builder
	for _, p := range params {
		if branch >= p.since && (p.last == 0 || branch <= p.last) {
			fmt.Fprintf(&s, "%s: %d\n", p.name, p.value)
		}
	}
	for _, name := range paramStrings {
		fmt.Fprintf(&s, "%s: \"\"\n", name)
	}
	return s.String()
}
