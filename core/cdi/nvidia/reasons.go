package nvidia

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/refuse"
)

// Reasons why no Spec is made.
const (
	ReasonBadOption      refuse.Reason = "bad-generator-option"
	ReasonNoLibrary      refuse.Reason = "no-nvml-library"
	ReasonNoDriver       refuse.Reason = "no-driver"
	ReasonMismatch       refuse.Reason = "driver-version-mismatch"
	ReasonNVML           refuse.Reason = "nvml-failed"
	ReasonWSL            refuse.Reason = "wsl"
	ReasonNoDevices      refuse.Reason = "no-devices"
	ReasonMIGEmpty       refuse.Reason = "mig-enabled-empty"
	ReasonMIGNodeMissing refuse.Reason = "mig-node-missing"
	ReasonNodeMissing    refuse.Reason = "device-node-missing"
	ReasonNoCSV          refuse.Reason = "no-csv-files"
	ReasonBadCSV         refuse.Reason = "bad-csv-line"
	ReasonGenerator      refuse.Reason = "generator-failed"
	ReasonInvalidSpec    refuse.Reason = "invalid-spec"
)

// Reasons of warnings: a Spec is made, and something is left to say. A warning
// may also have ReasonMIGEmpty, about one GPU among others, or ReasonBadCSV,
// about a line that was left out.
const (
	ReasonNoCUDA        refuse.Reason = "no-cuda"
	ReasonUVMMissing    refuse.Reason = "uvm-missing"
	ReasonNotFound      refuse.Reason = "file-not-found"
	ReasonMIGInCSV      refuse.Reason = "mig-in-csv-mode"
	ReasonGeneratorSays refuse.Reason = "generator-warning"
)

// Reasons explains every reason in one sentence.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonBadOption, Meaning: "An option of the generator has an invalid value."},
		{Reason: ReasonNoLibrary, Meaning: "NVIDIA's management library is not installed on the host."},
		{Reason: ReasonNoDriver, Meaning: "NVIDIA's kernel driver is not loaded."},
		{Reason: ReasonMismatch, Meaning: "The loaded kernel driver and the installed libraries are of different versions."},
		{Reason: ReasonNVML, Meaning: "NVIDIA's management library returned an error."},
		{Reason: ReasonWSL, Meaning: "The host is a Windows subsystem for Linux, which has no GPU device nodes."},
		{Reason: ReasonNoDevices, Meaning: "The host has no device of the kind that was asked for."},
		{Reason: ReasonMIGEmpty, Meaning: "MIG mode is on, and no MIG device has been created."},
		{Reason: ReasonMIGNodeMissing, Meaning: "A MIG device lacks the node of its GPU or one of its two capability nodes."},
		{Reason: ReasonNodeMissing, Meaning: "A GPU or the driver's control device has no device node."},
		{Reason: ReasonNoCSV, Meaning: "A Tegra host has none of the CSV files that list what containers need."},
		{Reason: ReasonBadCSV, Meaning: "A line of a Tegra CSV file is wrong, or names what no container may have."},
		{Reason: ReasonGenerator, Meaning: "NVIDIA's generator failed for another reason."},
		{Reason: ReasonInvalidSpec, Meaning: "NVIDIA's generator made a Spec that breaks the rules of CDI."},
		{Reason: ReasonNoCUDA, Meaning: "The host has no CUDA library, like all hosts of NVIDIA's vGPU manager: containers get only nvidia-smi."},
		{Reason: ReasonUVMMissing, Meaning: "The unified memory nodes, without which CUDA does not start, do not exist yet."},
		{Reason: ReasonNotFound, Meaning: "The generator looked for a file that the host does not have."},
		{Reason: ReasonGeneratorSays, Meaning: "NVIDIA's generator gave a warning that is not about one missing file."},
		{Reason: ReasonMIGInCSV, Meaning: "A GPU is in MIG mode, which the csv mode of the generator does not support."},
	}
}

func refusal(r refuse.Reason, where, format string, args ...any) *refuse.Error {
	return refuse.New(r, where, format, args...)
}

// nvmlRefusal says what an NVML error means for who wants a Spec. The call is
// go-nvml's, "Init".
func nvmlRefusal(call string, r nvml.Return) *refuse.Error {
	said := func(reason refuse.Reason, msg, hint string) *refuse.Error {
		return refusal(reason, "NVML "+call, "%s", msg).WithErr(r).WithHint("%s", hint)
	}
	switch r {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return said(ReasonNoLibrary, "no libnvidia-ml.so.1 on the host", "Install the user-space driver, or name its place as driver root.")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return said(ReasonNoDriver, "no NVIDIA kernel driver is loaded", "Load it with: modprobe nvidia.")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return said(ReasonMismatch, "the libraries and the loaded kernel driver are of different versions", "After an upgrade, reload the kernel modules or reboot.")
	case nvml.ERROR_GPU_IS_LOST:
		return said(ReasonNVML, "the GPU has fallen off the bus", "Look for Xid 79 in the kernel's log, and reboot: nothing less brings the GPU back.")
	case nvml.ERROR_RESET_REQUIRED:
		return said(ReasonNVML, "the GPU needs a reset", "Reset it with nvidia-smi --gpu-reset when nothing uses it, or reboot.")
	case nvml.ERROR_NO_PERMISSION:
		return said(ReasonNVML, "the management library may not use the driver", "Look at owner and mode of /dev/nvidiactl and the GPU's node, or ask as root.")
	}
	return said(ReasonNVML, "the management library failed", "nvidia-smi asks the same library, and the kernel's log has what the driver says: lines with NVRM.")
}

// An Error is an NVML call that failed. Return is the library's code.
type Error struct {
	Call   string
	Return nvml.Return
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Call, e.Return.Error()) }

// Unwrap offers the code, so that errors.Is(err, nvml.ERROR_TIMEOUT) works.
func (e *Error) Unwrap() error { return e.Return }
