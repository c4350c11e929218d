// Command gpurig-docker is gpurig with the target docker, which gpurig becomes
// when that target is asked for: see package cli.
package main

import (
	"gpurig/runner/cli"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
)

func main() {
	docker.Init()
	cli.Docker = func(cdi bool) (target.Target, error) { return docker.Open(docker.Options{CDI: cdi}) }
	cli.Program()
}
