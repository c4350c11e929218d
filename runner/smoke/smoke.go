// Package smoke defines the answer of the smoke workload and its
// exit codes. Package workload does the work; the program gpurig-smoke runs it.
package smoke

// Program is the file name of the workload.
const Program = "gpurig-smoke"

// A Step is a part of the workload; each needs the ones before it.
type Step string

// The steps, in order.
const (
	Library Step = "library" // the loader finds libcuda.so.1, and it has the driver API
	Init    Step = "init"    // cuInit
	Devices Step = "devices" // what the devices say of themselves
	Kernels Step = "kernels" // each kernel on each device, checked against the CPU
	NVML    Step = "nvml"    // the devices that NVML names are those that CUDA sees
)

// A Cause says why a step failed.
type Cause string

// The causes.
const (
	NotFound     Cause = "library-not-found"
	NotLoadable  Cause = "library-not-loadable" // found, and not for this loader
	NodeMissing  Cause = "node-missing"
	NodeForbid   Cause = "node-forbidden" // by the device cgroup, or by owner and mode
	NoDevice     Cause = "no-device"      // the driver has none for this container
	WrongVersion Cause = "version-mismatch"
	CUDAError    Cause = "cuda-error" // any other code of the driver API
	WrongResult  Cause = "wrong-result"
	NVMLDiffers  Cause = "nvml-differs"
)

// ExitCodes are those of the program by cause; 0: everything passed, 2: bad arguments.
var ExitCodes = map[Cause]int{
	NotFound: 10, NotLoadable: 11, NodeMissing: 12, NodeForbid: 13, NoDevice: 14, WrongVersion: 15,
	CUDAError: 16, WrongResult: 17, NVMLDiffers: 18,
}

// Pass is Kernel.Result of a kernel whose every element is as the CPU has it.
const Pass = "pass"

// A Result is what the workload prints, as JSON.
type Result struct {
	Failure *Failure `json:"failure,omitempty"` // nil: everything passed
	Library string   `json:"library,omitempty"` // the file that the loader took for libcuda.so.1
	Driver  string   `json:"driver,omitempty"`  // "550.163.01", by NVML
	CUDA    string   `json:"cuda,omitempty"`    // newest CUDA of the driver, "12.4"
	Devices []Device `json:"devices,omitempty"` // in CUDA's order
	Kernels []Kernel `json:"kernels,omitempty"`
	NVML    *Listing `json:"nvml,omitempty"`
	Nodes   []Node   `json:"nodes,omitempty"` // after a failed cuInit: the GPU's nodes, and what came of opening them
}

// A Failure is the first step that failed.
type Failure struct {
	Step   Step   `json:"step"`
	Cause  Cause  `json:"cause"`
	Code   int    `json:"code,omitempty"` // the CUresult
	Reason string `json:"reason"`         // for people
}

// A Device is one that CUDA sees.
type Device struct {
	UUID    string `json:"uuid"` // "GPU-…" or "MIG-…"
	Name    string `json:"name"`
	BusID   string `json:"bus-id"`
	Memory  uint64 `json:"memory"`  // bytes
	Compute string `json:"compute"` // capability, "8.0"
	SMs     int    `json:"sms"`
	MIG     bool   `json:"mig"`
	Parent  string `json:"parent,omitempty"` // of a MIG device: its GPU's UUID
}

// A Kernel is one kernel that ran on one device.
type Kernel struct {
	Device   int    `json:"device"`
	Name     string `json:"name"`
	Elements int    `json:"elements"`
	Result   string `json:"result"` // Pass, or what is wrong
}

// A Listing is what NVML names.
type Listing struct {
	Problem string   `json:"problem,omitempty"` // why it could not be asked
	UUIDs   []string `json:"uuids,omitempty"`   // of full GPUs without MIG mode, and of MIG devices
}

// A Node is a device node and the answer of open(2).
type Node struct {
	Path string `json:"path"`
	Open string `json:"open"` // "allowed", "missing", or the error's text
}
