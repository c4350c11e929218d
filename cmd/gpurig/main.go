// Command gpurig tests GPU passthrough into system containers: see package cli.
package main

import "gpurig/runner/cli"

func main() { cli.Program() }
