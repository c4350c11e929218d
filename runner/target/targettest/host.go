// Package targettest has a small machine, plans for it, and named checks that
// every target runs: what a container must look like after each step. Targets
// that pass them agree with each other.
package targettest

import (
	"fmt"

	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/fakehw/elfgen"
	"gpurig/fakehw/tree"
	"gpurig/runner/target"
)

// Where the machine's driver is.
const (
	LibDir  = "/usr/lib/x86_64-linux-gnu"
	Version = "550.163.01"
)

// libraries are SONAMEs of the machine's driver.
var libraries = []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}

// nodes are the machine's. The second GPU's belongs to a group that an idmapped
// container has no id for.
var nodes = []device.Node{
	{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195, Minor: 0}, Mode: 0o666},
	{Path: "/dev/nvidia1", Type: device.Char, Num: device.Num{Major: 195, Minor: 1}, Mode: 0o660, GID: 44},
	{Path: "/dev/nvidiactl", Type: device.Char, Num: device.Num{Major: 195, Minor: 255}, Mode: 0o666},
	{Path: "/dev/nvidia-uvm", Type: device.Char, Num: device.Num{Major: 509, Minor: 0}, Mode: 0o666},
	{Path: "/dev/nvidia-caps/nvidia-cap21", Type: device.Char, Num: device.Num{Major: 236, Minor: 21}, Mode: 0o444},
	{Path: "/dev/dri/card1", Type: device.Char, Num: device.Num{Major: 226, Minor: 1}, Mode: 0o660, GID: 44},
}

// Host returns the machine. driver is the version that its files carry.
func Host(driver string) (target.Host, error) {
	t := tree.New()
	for _, n := range nodes {
		if err := t.Mknod(n); err != nil {
			return target.Host{}, err
		}
	}
	for _, soname := range libraries {
		data, err := elfgen.Library(elfgen.Object{Arch: "x86_64", Name: soname[:len(soname)-2], Version: driver, SONAME: soname})
		if err != nil {
			return target.Host{}, err
		}
		if err := t.WriteFile(library(soname, driver), data, 0o644); err != nil {
			return target.Host{}, err
		}
	}
	for p, text := range map[string]string{
		"/usr/bin/nvidia-smi":                               "#!/bin/sh\n",
		"/usr/share/nvidia/nvoptix.bin":                     "optix",
		"/lib/firmware/nvidia/" + driver + "/gsp_ga10x.bin": "gsp",
	} {
		if err := t.WriteFile(p, []byte(text), 0o755); err != nil {
			return target.Host{}, err
		}
	}
	if err := t.Socket("/run/nvidia-persistenced/socket", 0o666); err != nil {
		return target.Host{}, err
	}
	return target.Host{Root: t, Sum: t.Sum}, nil
}

// library is the file of a SONAME: ".so.1" becomes the driver's version.
func library(soname, driver string) string {
	return fmt.Sprintf("%s/%s.%s", LibDir, soname[:len(soname)-len(".1")], driver)
}

// Plan returns a plan for GPU 0 of Host(driver); gpu1 adds the second GPU.
func Plan(driver string, gpu1 bool) plan.Plan {
	own := plan.Owners{"nvidia.com/gpu=0"}
	p := plan.Plan{Devices: own, LibraryDirs: []string{LibDir}}
	for _, n := range nodes {
		if n.Path == "/dev/nvidia1" && !gpu1 {
			continue
		}
		p.Nodes = append(p.Nodes, plan.Node{
			Path: n.Path, Source: n.Path, Type: n.Type, Num: n.Num, Mode: n.Mode, UID: n.UID, GID: n.GID, Permissions: "rw", Owners: own,
		})
	}
	ro := []string{"ro", "nosuid", "nodev", "bind", "rprivate"}
	mount := func(path string, dir bool, options []string) {
		p.Mounts = append(p.Mounts, plan.Mount{Source: path, Target: path, Dir: dir, Options: options, Owners: own})
	}
	mount("/usr/bin/nvidia-smi", false, ro)
	mount("/usr/share/nvidia", true, ro)
	mount("/run/nvidia-persistenced/socket", false, []string{"nosuid", "nodev", "bind", "rprivate", "noexec"})
	for _, soname := range libraries {
		mount(library(soname, driver), false, ro)
		p.Links = append(p.Links, plan.Link{Path: LibDir + "/" + soname, Target: library(soname, driver)[len(LibDir)+1:], Owners: own})
	}
	p.Links = append(p.Links,
		plan.Link{Path: LibDir + "/libcuda.so", Target: "libcuda.so.1", Owners: own},
		plan.Link{Path: "/dev/dri/by-path/pci-0000:07:00.0-card", Target: "../card1", Owners: own})
	p.Env = []plan.Var{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void", Owners: own}}
	p.Groups = []uint32{44}
	return p
}
