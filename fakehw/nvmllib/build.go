package nvmllib

import (
	"context"
	"embed"

	"gpurig/fakehw/clib"
)

var (
	//go:embed csrc/*.c csrc/*.h
	sources embed.FS
	//go:embed symbols.txt
	symbols string
)

// Symbols are the names that NVIDIA's library exports. The compiled one has those of
// all branches, and those of nvml.h that none of them has yet.
var Symbols = clib.ParseSymbols(symbols)

// ErrNoCompiler marks a machine without a C compiler.
var ErrNoCompiler = clib.ErrNoCompiler

// A BuildError says why there is no library.
type BuildError = clib.BuildError

// Build compiles the library, once per content, and returns its path; see
// clib.Library. An empty dir is gpurig/nvml in the user's cache folder.
func Build(ctx context.Context, dir string) (string, error) {
	return clib.Library{SONAME: SONAME, Cache: "nvml", Sources: []clib.Sources{{FS: sources, Pattern: "csrc/*"}}}.Build(ctx, dir)
}

// Reader is the part of the library's source that reads the state file, host.c and
// host.h, for another library that answers for the same host.
func Reader() clib.Sources { return clib.Sources{FS: sources, Pattern: "csrc/host.[ch]"} }

// Channel is the part that asks the host for changes, control.c with control.h and
// codes.h, for a program that has to ask what NVML has no call for.
func Channel() clib.Sources { return clib.Sources{FS: sources, Pattern: "csrc/co[dn]*.[ch]"} }
