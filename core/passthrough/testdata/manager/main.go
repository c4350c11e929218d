// Manager is a container manager in a module of its own: all that it takes to plan
// for a container is package passthrough and what that hands out.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host/osroot"
	"gpurig/core/passthrough"
	"gpurig/core/request"
)

func main() {
	root, err := osroot.New("/")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	defer root.Close()
	h := passthrough.New(root, nvml.New(), passthrough.HostOptions{})
	got, err := passthrough.Plan(context.Background(), h, map[string]request.Options{"gpu0": {ID: os.Args[1]}}, passthrough.Options{})
	if got.Refused != nil {
		fmt.Println("refused at", got.Refused.At)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Println(len(got.Plan.Nodes), "nodes")
}
