// Package driverctl lets programs inside a fake machine ask its host to change. It
// replaces the ioctl calls by which nvidia-smi and NVML ask NVIDIA's kernel driver.
//
// The channel is a stream socket. A request is one line, and so is its reply:
//
//	mig-mode GPU 0|1                          ok CURRENT PENDING ACTIVATION
//	create-gi GPU PROFILE [START]             ok GI START SIZE
//	create-ci GPU GI PROFILE|default          ok CI
//	destroy-gi GPU GI                         ok
//	destroy-ci GPU GI CI                      ok
//	reset GPU                                 ok
//	persistence GPU 0|1                       ok
//	sriov BDF N                               ok
//	make-nodes gpus|modeset|uvm|caps          ok
//
// or "error CODE TEXT", where CODE is what the NVML call returns. GPU is an NVML
// index or a PCI address; PROFILE is the number that nvidia-smi mig -lgip or
// -lcip prints; START is a memory slice; GI and CI are instance ids. ACTIVATION
// is the second return code of nvmlDeviceSetMigMode. Make-nodes does what
// nvidia-modprobe does; any user may request it, since that program is set-user-id
// root. An "ok" is sent after the change has been carried out: from then on all
// files of the machine show it.
//
// Apply computes what the driver would do, as a function of values. The live host
// that serves the channel keeps the state, writes it to the machine's files and
// tracks who has nodes open.
//
// References: https://docs.nvidia.com/deploy/nvml-api (Multi Instance GPU
// Management), https://docs.nvidia.com/datacenter/tesla/mig-user-guide
package driverctl

// Path is the socket inside a fake machine. A program that is not set-user-id
// may name another in the environment, Env.
const (
	Path = "/run/gpurig/control"
	Env  = "GPURIG_CONTROL"
)

// MaxLine is the longest request or reply, its newline included, in bytes.
const MaxLine = 256
