// Command clibs compiles the C libraries and programs of a fake host into a folder, in
// the form that gpurig takes from lib/gpurig of a package. CC names the compiler, for
// another architecture a cross compiler.
package main

import (
	"context"
	"fmt"
	"os"

	"gpurig/fakehw/cudalib"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/smi"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: clibs FOLDER")
		os.Exit(2)
	}
	os.Unsetenv("CFLAGS") // which would be part of the name, and users have others
	for _, build := range []func(context.Context, string) (string, error){nvmllib.Build, cudalib.Build, smi.Build, smi.BuildModprobe} {
		if _, err := build(context.Background(), os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
}
