package cdi

import (
	"strconv"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
)

// NodeEdits returns the edits of a GPU that is selected without CDI, by DRM
// card, PCI address or ids: its DRM card and render nodes, and for a GPU that
// NVIDIA's driver runs its /dev/nvidiaN and the control nodes. Only nodes that
// the host has are named, with number, mode and owner as they are there.
// Libraries are not among them.
//
// Device is "gpu 0000:65:00.0", or "gpu 17000000.gpu" for a platform device.
func NodeEdits(m host.Model, gpu host.GPU) Edits {
	e := &specs.ContainerEdits{}
	have := map[string]device.Node{}
	for _, n := range m.Nodes {
		have[n.Path] = n
	}
	for _, path := range gpuNodes(gpu) {
		if n, ok := have[path]; ok && n.Type == device.Char {
			e.DeviceNodes = append(e.DeviceNodes, nodeOf(n))
		}
	}
	return Edits{Device: GPUName(gpu), Spec: OnHost, Edits: e}
}

// GPUName names a GPU that is selected without CDI: "gpu 0000:65:00.0".
func GPUName(gpu host.GPU) string {
	if gpu.PCI != nil {
		return "gpu " + gpu.PCI.BDF.String()
	}
	return "gpu " + gpu.Platform
}

// gpuNodes returns the paths of the nodes that the GPU may have.
func gpuNodes(gpu host.GPU) []string {
	paths := host.Partition{Card: gpu.Card, Render: gpu.Render}.Paths()
	for _, p := range gpu.Partitions {
		paths = append(paths, p.Paths()...)
	}
	if gpu.Minor < 0 || gpu.PCI != nil && gpu.PCI.ID.Vendor != pci.NVIDIA {
		return paths
	}
	return append(paths, "/dev/nvidia"+strconv.Itoa(gpu.Minor),
		"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
}

func nodeOf(n device.Node) *specs.DeviceNode {
	mode := n.Mode.Perm()
	node := &specs.DeviceNode{
		Path: n.Path, Type: string(n.Type), Major: int64(n.Num.Major), Minor: int64(n.Num.Minor),
		FileMode: &mode, Permissions: "rw",
	}
	if n.UID != 0 {
		node.UID = &n.UID
	}
	if n.GID != 0 {
		node.GID = &n.GID
	}
	return node
}
