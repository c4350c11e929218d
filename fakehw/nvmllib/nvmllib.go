// Package nvmllib is libnvidia-ml.so.1 of a fake host: a small C library of
// ours, compiled where it is needed, that programs which nobody here wrote load
// in place of NVIDIA's.
//
// Every function of nvml.h is there. What package nvmlfake models answers from
// the state of the host, a text file that State writes and that the library
// reads when it is initialised and again whenever the file was replaced; all
// else is NVML_ERROR_NOT_SUPPORTED. Both answer alike, call by call, which the
// tests of this package compare. The structures in csrc are laid out as NVML's
// interface has them; no part of its header is copied.
//
// As the real one it knows only what the program may reach: without
// /dev/nvidiactl it does not start, and a GPU whose node, or a MIG device whose
// capabilities, cannot be opened is not there.
//
// Build compiles the library. Putting it and the state file in their places is
// for whoever makes the machine.
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

//go:generate go run ./internal/gen csrc csrc/stubs.c
