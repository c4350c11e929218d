// Package workload is the smoke workload: it finds libcuda.so.1 by its SONAME
// through the loader that started the program, counts and names the devices, runs
// three kernels on each, checks every element against the CPU, and checks that NVML
// lists the same devices. It knows nothing of fake machines: the same program runs
// on a real GPU.
//
// It is Go without cgo, and calls C through purego: the program needs only a
// loader and its dlopen, so it runs in a container of any C library. Start it as
// LOADER PROGRAM if the image has another loader than the program names.
package workload

import (
	"encoding/json"
	"io"
	"runtime"

	"gpurig/core/show"
	"gpurig/runner/smoke"
)

// Main runs the workload, prints its answer, and returns the exit code.
func Main(args []string, out, errs io.Writer) int {
	if len(args) > 0 {
		show.Fprintf(errs, "%s: want no arguments, got %q\n", smoke.Program, args)
		return 2
	}
	r := Run()
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		show.Fprintf(errs, "%s: %v\n", smoke.Program, err)
		return 1
	}
	if r.Failure == nil {
		return 0
	}
	show.Fprintf(errs, "%s: %s: %s\n", smoke.Program, r.Failure.Step, r.Failure.Reason)
	return smoke.ExitCodes[r.Failure.Cause]
}

// Run runs the workload. Contexts of CUDA belong to a thread: this one.
func Run() smoke.Result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var r smoke.Result
	lib, file, failure := openCUDA()
	if failure != nil {
		r.Failure = failure
		return r
	}
	r.Library = file
	if code := lib.call("cuInit", 0); code != 0 {
		r.NVML = listing(&r)
		r.Nodes = look("/dev")
		r.Failure = smoke.Diagnose(lib.failed(smoke.Init, "cuInit", code), r.Nodes, r.NVML.UUIDs)
		return r
	}
	if r.Failure = lib.devices(&r); r.Failure != nil {
		return r
	}
	for i := range r.Devices {
		if r.Failure = lib.kernels(i, &r); r.Failure != nil {
			return r
		}
	}
	r.NVML = listing(&r)
	r.Failure = compare(r)
	return r
}
