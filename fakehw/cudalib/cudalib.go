// Package cudalib is libcuda.so.1 of a fake host: a small C library, compiled when
// it is needed, that unmodified programs load in place of NVIDIA's.
//
// It finds the devices that the host's state names and whose nodes can be opened,
// and fails as the real library does if they cannot. Kernels come as PTX text
// and run on the CPU: csrc/parse.c and the files it calls parse the text,
// csrc/exec.c and the files beside it interpret it. Launching a kernel with an
// instruction outside the supported subset fails with CUDA_ERROR_NOT_SUPPORTED, and the
// log names the instruction; text that is not PTX fails with CUDA_ERROR_INVALID_PTX.
// Every function of the driver API exists; those that are not modelled return
// CUDA_ERROR_NOT_SUPPORTED and are logged. Programs of the CUDA runtime (libcudart) do not
// run: it checks that the library is NVIDIA's own, and says 801 to every call here.
//
// The host's state is the file of package nvmllib. Build compiles the library.
// The caller installs it and the state file.
package cudalib

import (
	"context"
	"embed"

	"gpurig/fakehw/clib"
	"gpurig/fakehw/nvmllib"
)

// SONAME is the library's name to the loader. A file name that ends in a driver's
// version, libcuda.so.550.163.01, makes the library one of that driver: cuInit is
// then CUDA_ERROR_SYSTEM_DRIVER_MISMATCH beside another kernel module.
const SONAME = "libcuda.so.1"

// What a program that is not set-user-id may set in the environment, besides the
// state's nvmllib.StateEnv and what the real library reads.
const (
	LogEnv   = "GPURIG_CUDA_LOG"   // file for the log, or "stderr"; unset: only what is not supported, to stderr
	StepsEnv = "GPURIG_CUDA_STEPS" // most instructions of one launch; unset: no limit, as on the chip
	RootEnv  = "GPURIG_DEV_ROOT"   // for tests: put before /dev and /proc, where files stand for nodes
)

//go:generate go run ./internal/gen symbols.txt csrc csrc/stubs.c

var (
	//go:embed csrc/*.c csrc/*.h
	sources embed.FS
	//go:embed symbols.txt
	symbols string
)

// Symbols are the names that NVIDIA's library exports. The compiled one has those of
// all branches.
var Symbols = clib.ParseSymbols(symbols)

// Build compiles the library, once per content, and returns its path; see
// clib.Library. An empty dir is gpurig/cuda in the user's cache folder. Without a C
// compiler the error is a clib.ErrNoCompiler.
func Build(ctx context.Context, dir string) (string, error) { return library().Build(ctx, dir) }

func library() clib.Library {
	return clib.Library{
		SONAME:  SONAME,
		Cache:   "cuda",
		Sources: []clib.Sources{{FS: sources, Pattern: "csrc/*"}, nvmllib.Reader(), nvmllib.Channel()},
		// Each operation rounds once, in the direction that is set.
		Flags: []string{"-ffp-contract=off", "-frounding-math"},
		Libs:  []string{"-lm"},
	}
}
