package fault

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw/nvmlfake"
)

// codes are NVML's return codes by name, without NVML_ERROR_.
// Source: nvmlReturn_t in https://docs.nvidia.com/deploy/nvml-api
var codes = map[string]nvml.Return{
	"UNINITIALIZED": nvml.ERROR_UNINITIALIZED, "INVALID_ARGUMENT": nvml.ERROR_INVALID_ARGUMENT, "NOT_SUPPORTED": nvml.ERROR_NOT_SUPPORTED,
	"NO_PERMISSION": nvml.ERROR_NO_PERMISSION, "ALREADY_INITIALIZED": nvml.ERROR_ALREADY_INITIALIZED, "NOT_FOUND": nvml.ERROR_NOT_FOUND,
	"INSUFFICIENT_SIZE": nvml.ERROR_INSUFFICIENT_SIZE, "INSUFFICIENT_POWER": nvml.ERROR_INSUFFICIENT_POWER, "DRIVER_NOT_LOADED": nvml.ERROR_DRIVER_NOT_LOADED,
	"TIMEOUT": nvml.ERROR_TIMEOUT, "IRQ_ISSUE": nvml.ERROR_IRQ_ISSUE, "LIBRARY_NOT_FOUND": nvml.ERROR_LIBRARY_NOT_FOUND,
	"FUNCTION_NOT_FOUND": nvml.ERROR_FUNCTION_NOT_FOUND, "CORRUPTED_INFOROM": nvml.ERROR_CORRUPTED_INFOROM, "GPU_IS_LOST": nvml.ERROR_GPU_IS_LOST,
	"RESET_REQUIRED": nvml.ERROR_RESET_REQUIRED, "OPERATING_SYSTEM": nvml.ERROR_OPERATING_SYSTEM, "LIB_RM_VERSION_MISMATCH": nvml.ERROR_LIB_RM_VERSION_MISMATCH,
	"IN_USE": nvml.ERROR_IN_USE, "MEMORY": nvml.ERROR_MEMORY, "NO_DATA": nvml.ERROR_NO_DATA, "VGPU_ECC_NOT_SUPPORTED": nvml.ERROR_VGPU_ECC_NOT_SUPPORTED,
	"INSUFFICIENT_RESOURCES": nvml.ERROR_INSUFFICIENT_RESOURCES, "FREQ_NOT_SUPPORTED": nvml.ERROR_FREQ_NOT_SUPPORTED,
	"ARGUMENT_VERSION_MISMATCH": nvml.ERROR_ARGUMENT_VERSION_MISMATCH, "DEPRECATED": nvml.ERROR_DEPRECATED, "NOT_READY": nvml.ERROR_NOT_READY,
	"GPU_NOT_FOUND": nvml.ERROR_GPU_NOT_FOUND, "INVALID_STATE": nvml.ERROR_INVALID_STATE, "UNKNOWN": nvml.ERROR_UNKNOWN,
}

// parseCode reads "GPU_IS_LOST", "NVML_ERROR_GPU_IS_LOST" or "15".
func parseCode(s string) (nvml.Return, error) {
	if c, ok := codes[strings.TrimPrefix(s, "NVML_ERROR_")]; ok {
		return c, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no return code of NVML: a number, or one of %s", s, strings.Join(slices.Sorted(maps.Keys(codes)), ", "))
	}
	if n == 0 {
		return 0, fmt.Errorf("the code 0 is success, and so no fault")
	}
	return nvml.Return(n), nil
}

// codeName is the reverse of parseCode.
func codeName(c nvml.Return) string {
	for name, code := range codes {
		if code == c {
			return name
		}
	}
	return strconv.Itoa(int(c))
}

// callName reads the name of a call, as C ("nvmlInit_v2") or Go ("Init") has it.
// "init" is what people call the first.
func callName(s string) (string, error) {
	if s == "*" {
		return s, nil
	}
	name := strings.TrimPrefix(s, "nvml")
	if name == "init" {
		name = "Init"
	}
	for {
		if nvmlfake.IsCall(name) {
			return name, nil
		}
		at := strings.LastIndex(name, "_v")
		if at < 0 || strings.Trim(name[at+2:], "0123456789") != "" {
			return "", fmt.Errorf("%q is no call of NVML", s)
		}
		name = name[:at]
	}
}

func breakNVML(b *Broken, f Fault) error {
	if r := b.start(); r != nvml.SUCCESS {
		return impossible("NVML does not start on this host (%s), so nothing is asked of it", codeName(r))
	}
	if f.gpu == "" {
		b.fail(f.name, f.code)
		if f.name == "Init" {
			b.fail("InitWithFlags", f.code)
		}
		return nil
	}
	g, err := b.gpu(f.gpu)
	if err != nil {
		return err
	}
	if g.Index < 0 {
		return impossible("NVML does not know GPU %s", f.gpu)
	}
	b.fail(fmt.Sprintf("%s:%d", f.name, g.Index), f.code)
	return nil
}

// Lost reports whether every call about the GPU of this NVML index fails, and
// with which code.
func (b Broken) Lost(index int) (nvml.Return, bool) {
	code, lost := b.codes[fmt.Sprintf("*:%d", index)]
	return code, lost
}

// start returns what NVML's start returns on the host as its model is.
func (b *Broken) start() nvml.Return { return nvmlfake.New(b.Model, nvmlfake.Options{}).Init() }

func (b *Broken) fail(call string, code nvml.Return) {
	if b.codes == nil {
		b.codes = map[string]nvml.Return{}
	}
	b.codes[call] = code
}

func breakXid(b *Broken, f Fault) error {
	if r := b.start(); r != nvml.SUCCESS {
		return impossible("NVML does not start on this host (%s), so nobody is told", codeName(r))
	}
	g, err := b.gpu(f.gpu)
	if err != nil {
		return err
	}
	if g.Index < 0 || g.PCI == nil {
		return impossible("NVML has no events of GPU %s", f.gpu)
	}
	b.xids = append(b.xids, nvmlfake.Xid{GPU: g.Index, Code: int(f.code)})
	return nil
}
