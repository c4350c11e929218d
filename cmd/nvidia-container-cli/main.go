// Command nvidia-container-cli is a stand-in for NVIDIA's program of that name: see
// package containercli.
package main

import (
	"os"
	"runtime"

	"gpurig/hook/containercli"
)

// The program enters a container's namespace: what /proc/self says is then about the
// first thread, which does it all.
func init() { runtime.LockOSThread() }

func main() { os.Exit(containercli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
