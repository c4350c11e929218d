// Command gpurig-smoke runs kernels on every CUDA device that it sees and says, as
// JSON, how that went. See package workload.
package main

import (
	"os"

	"gpurig/runner/smoke/workload"
)

func main() { os.Exit(workload.Main(os.Args[1:], os.Stdout, os.Stderr)) }
