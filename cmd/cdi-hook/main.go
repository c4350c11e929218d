// Command cdi-hook carries out, inside one container's root file system, the
// file that a container manager wrote for it. See package hook.
package main

import (
	"os"

	"gpurig/hook"
)

func main() { os.Exit(hook.Main(os.Args, hook.DefaultLimits)) }
