package host

import "gpurig/core/pci"

// An NVML tells what only NVIDIA's management library knows of a host: names,
// UUIDs, memory, MIG geometry, and its own order of GPUs. Discover takes one
// beside a Root; a nil NVML means that the library is not there or failed to
// start.
//
// It is plain data on purpose, so that neither this package nor its tests need
// the library. An implementation reports what it was told and repairs nothing:
// Discover decides what to do where library and files disagree.
type NVML interface {
	// CUDAVersion returns the newest CUDA that the driver supports, "12.4".
	CUDAVersion() (string, error)
	// Devices returns every full GPU in the library's own order. MIG devices
	// are in their GPU's MIG. It is an error if no GPU answers.
	Devices() ([]NVMLDevice, error)
}

// An NVMLDevice is one full GPU as the management library describes it.
type NVMLDevice struct {
	Index      int
	PCI        *pci.BDF // nil: a platform device (Orin's integrated GPU)
	Minor      int      // N of /dev/nvidiaN; -1: the library does not say
	UUID       string   // "GPU-…"; an Orin's has no prefix
	Name       string   // "NVIDIA A100-SXM4-80GB"
	MemoryMiB  uint64   // total memory; zero: the library does not say
	ComputeCap string   // "8.0"
	VBIOS      string   // empty: the library does not say
	MIG        *MIG     // nil: not capable, or mode off
	Err        error    // the GPU does not answer (fell off the bus); only Index is known then
}
