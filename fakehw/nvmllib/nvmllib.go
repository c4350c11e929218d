// Package nvmllib is libnvidia-ml.so.1 of a fake host: a small C library,
// compiled when it is needed, that unmodified programs load
// in place of NVIDIA's.
//
// Every function of nvml.h exists, and every name that the library of a driver exports;
// Symbols says which of them each has. What package nvmlfake models is answered from
// the state of the host, a text file that State writes. The library reads it when
// it is initialised and again whenever the file was replaced. All other calls
// return NVML_ERROR_NOT_SUPPORTED. Tests compare the two packages call by call.
// The structures in csrc have the layout of NVML's
// interface; no part of its header is copied.
//
// Like the real library it sees only what the program may open: it does not start
// without /dev/nvidiactl, and GPUs whose node, and MIG devices whose
// capabilities, cannot be opened do not exist for it.
//
// Build compiles the library. The caller installs it and the state file.
package nvmllib

// StatePath is where the library looks for the host's state. A program that is
// not set-user-id may name another file in the environment, StateEnv.
const (
	StatePath = "/run/gpurig/nvml.state"
	StateEnv  = "GPURIG_NVML_STATE"
	RootEnv   = "GPURIG_DEV_ROOT" // for tests: put before /dev; without it a state that StateEnv names needs no nodes
)

// SONAME is the library's name to the loader.
const SONAME = "libnvidia-ml.so.1"

//go:generate go run ./internal/gen symbols.txt csrc csrc/stubs.c
