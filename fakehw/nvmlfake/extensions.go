package nvmlfake

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ErrNoSymbol marks a function that the fake library does not have.
var ErrNoSymbol = errors.New("symbol not found")

type extensions struct{}

// Extensions tells which functions of the C library there are. It works before Init.
func (l *Library) Extensions() nvml.ExtendedInterface { return extensions{} }

// handlers are calls that answer with a handler. A handler of ours would call
// the real C library, which is not there, and end the process.
var handlers = []string{
	"DeviceGetC2cModeInfoV", "DeviceGetGpuFabricInfoV", "DeviceGetGpuInstanceProfileInfoByIdV",
	"DeviceGetGpuInstanceProfileInfoV", "DeviceGetNvLinkInfo", "DeviceGetTemperatureV",
	"GpmMetricsGetV", "GpmQueryDeviceSupportV", "GpuInstanceGetComputeInstanceProfileInfoV",
	"VgpuTypeGetMaxInstancesPerGpuInstance",
}

// LookupSymbol takes C names, "nvmlDeviceGetMigMode". A version suffix counts
// as the call without it.
func (extensions) LookupSymbol(name string) error {
	call, ok := strings.CutPrefix(name, "nvml")
	if i := strings.LastIndex(call, "_v"); i > 0 && !known(call) {
		call = call[:i]
	}
	if !ok || !known(call) || slices.Contains(handlers, call) {
		return fmt.Errorf("look up %s in libnvidia-ml.so.1: %w", name, ErrNoSymbol)
	}
	return nil
}

func known(call string) bool {
	_, ok := slices.BinarySearch(calls, call)
	return ok
}
