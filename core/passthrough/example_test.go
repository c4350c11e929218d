package passthrough_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"gpurig/core/emit/lxc"
	"gpurig/core/passthrough"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
)

// workstation opens a host that is files in memory: a desktop with a Radeon and a
// GeForce. On a real machine it is, with package osroot of core/host and go-nvml,
//
//	root, err := osroot.New("/")
//	h := passthrough.New(root, nvml.New(), passthrough.HostOptions{})
func workstation() *passthrough.Host {
	p, err := profiles.Load("workstation")
	if err != nil {
		log.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		log.Fatal(err)
	}
	files, err := fakehw.Build(m)
	if err != nil {
		log.Fatal(err)
	}
	return passthrough.New(files, nvmlfake.New(m, nvmlfake.Options{}), passthrough.HostOptions{})
}

// A container gets a GPU: the options of its device become a plan, and the plan
// lines of its LXC configuration.
func ExamplePlan() {
	devices := map[string]request.Options{"gpu0": {ID: "amd.com/gpu=0"}}
	got, err := passthrough.Plan(context.Background(), workstation(), devices, passthrough.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range got.Warnings {
		fmt.Println("warning:", w)
	}
	for _, n := range got.Plan.Nodes {
		fmt.Println(n.Path, n.Num, n.Owners)
	}
	c, err := lxc.Emit(*got.Plan, lxc.Options{Cgroup: "v2", HookPath: "/usr/bin/cdi-hook", HookFile: "/var/lib/lxc/c1/cdi-hook.json", Container: "c1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range c.Entries.Lines() {
		if strings.Contains(l, "devices.allow") {
			fmt.Println(l)
		}
	}
	// Output:
	// /dev/dri/card0 226:0 [amd.com/gpu=0]
	// /dev/dri/renderD128 226:128 [amd.com/gpu=0]
	// /dev/kfd 235:0 [amd.com/gpu=0]
	// lxc.cgroup2.devices.allow = c 226:0 rw
	// lxc.cgroup2.devices.allow = c 226:128 rw
	// lxc.cgroup2.devices.allow = c 235:0 rw
}

// What cannot be had is refused, with the device and the option that it is about, a
// reason for programs, and what to write instead.
func ExamplePlan_refused() {
	devices := map[string]request.Options{"gpu0": {ID: "nvidia.com/gpu=7"}, "gpu1": {GPUType: "mig", MIGGI: "1"}}
	_, err := passthrough.Plan(context.Background(), workstation(), devices, passthrough.Options{})
	refused, ok := errors.AsType[*passthrough.Refused](err)
	if !ok {
		log.Fatal(err) // the host failed, and not the user
	}
	fmt.Println("at the station", refused.At)
	for _, e := range refused.All {
		fmt.Printf("%s: %v\n  hint: %s\n", e.Reason, e, e.Hint)
	}
	fmt.Println(errors.Is(err, refuse.Reason("missing-option")))
	// Output:
	// at the station request
	// not-found: gpu0: id: CDI device "nvidia.com/gpu=7": the host has no such GPU
	//   hint: The host has nvidia.com/gpu=0.
	// missing-option: gpu1: mig.ci: is needed with mig.gi
	//   hint: Write mig.ci too: the id of the compute instance as nvidia-smi mig -lci prints it.
	// true
}

// A device leaves a container that runs: what it alone had goes, by the plan that
// was made for it.
func ExampleResult_Without() {
	devices := map[string]request.Options{"amd": {ID: "amd.com/gpu=0"}, "screen": {PCI: "0000:0a:00.0"}}
	got, err := passthrough.Plan(context.Background(), workstation(), devices, passthrough.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Plan.Devices)
	fmt.Println(got.Without("amd").Plan.Devices)
	// Output:
	// [amd.com/gpu=0 gpu 0000:0a:00.0]
	// [gpu 0000:0a:00.0]
}

// A virtual machine gets a GPU: what has to be written to sysfs before it starts, and
// what takes that back.
func ExamplePlan_virtualMachine() {
	devices := map[string]request.Options{"gpu0": {PCI: "0000:0a:00.0"}}
	got, err := passthrough.Plan(context.Background(), workstation(), devices, passthrough.Options{VM: "vm1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range got.VM.Devices {
		fmt.Println(d.BDF, d.Role)
	}
	fmt.Println(got.VM.Writes[0])
	// Output:
	// 0000:0a:00.0 gpu
	// 0000:0a:00.1 companion
	// {/sys/bus/pci/drivers/nvidia/unbind 0000:0a:00.0}
}
