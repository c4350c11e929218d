package cdi_test

import (
	"io/fs"
	"strings"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
)

func node(path string, major, minor uint32, mode fs.FileMode, gid uint32) device.Node {
	return device.Node{Path: path, Type: device.Char, Num: device.Num{Major: major, Minor: minor}, Mode: mode, GID: gid}
}

func TestNodeEdits(t *testing.T) {
	m := host.Model{Nodes: []device.Node{
		node("/dev/dri/card0", 226, 0, 0o660, 44), node("/dev/dri/card1", 226, 1, 0o660, 44), node("/dev/dri/renderD128", 226, 128, 0o660, 109),
		node("/dev/nvidia-caps/nvidia-cap1", 235, 1, 0o400, 0), node("/dev/nvidia-uvm", 511, 0, 0o666, 0),
		node("/dev/nvidia0", 195, 0, 0o666, 0), node("/dev/nvidia1", 195, 1, 0o666, 0), node("/dev/nvidiactl", 195, 255, 0o666, 0),
	}}
	gpu := func(vendor uint16, card, render, minor int) host.GPU {
		return host.GPU{PCI: &host.PCIFunction{BDF: pci.BDF{Bus: 0x41}, ID: pci.ID{Vendor: vendor}}, Card: card, Render: render, Minor: minor}
	}
	for _, tc := range []struct {
		name   string
		gpu    host.GPU
		device string
		want   string
	}{
		{"an NVIDIA GPU and the control nodes that are there", gpu(pci.NVIDIA, 1, 128, 0), "gpu 0000:41:00.0", "/dev/dri/card1 /dev/dri/renderD128 /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm"},
		{"no DRM node (no-drm-panic)", gpu(pci.NVIDIA, -1, -1, 1), "gpu 0000:41:00.0", "/dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm"},
		{"a DRM node that is not in /dev (dri-node-absent)", gpu(pci.NVIDIA, 1, 129, 0), "gpu 0000:41:00.0", "/dev/dri/card1 /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm"},
		{"another vendor's GPU has nothing of NVIDIA", gpu(pci.Intel, 0, -1, -1), "gpu 0000:41:00.0", "/dev/dri/card0"},
		{"a platform GPU", host.GPU{Platform: "17000000.gpu", Card: -1, Render: -1, Minor: 0}, "gpu 17000000.gpu", "/dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := cdi.NodeEdits(m, tc.gpu)
			var got []string
			for _, n := range e.Edits.DeviceNodes {
				got = append(got, n.Path)
			}
			if e.Device != tc.device || strings.Join(got, " ") != tc.want {
				t.Errorf("NodeEdits = %s: %q; want %s: %q", e.Device, got, tc.device, tc.want)
			}
		})
	}
	n := cdi.NodeEdits(m, gpu(pci.NVIDIA, 1, 128, 0)).Edits.DeviceNodes[0]
	if n.Major != 226 || n.Minor != 1 || *n.FileMode != 0o660 || n.GID == nil || *n.GID != 44 || n.UID != nil || n.Permissions != "rw" {
		t.Errorf("card1 is %+v; want the host's number, mode and group (mode-clone)", n)
	}
}
