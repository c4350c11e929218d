package fakehw

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
)

// Fixed numbers of NVIDIA's kernel driver (nv-chardev-numbers.h, nv-caps.c).
const (
	majorNVIDIA  = 195
	minorModeset = 254
	minorControl = 255
	maxMinor     = 247
	majorDRM     = 226
	majorMisc    = 10

	capConfig  = 1
	capMonitor = 2
	capIMEX    = 4323
	capGPUs    = 32 // GPUs that capability minors are numbered for
)

// giCap returns the capability minor of a GPU instance; that of its compute
// instance c is 1+c more.
func giCap(gpuMinor, gi int) uint32 { return uint32(3 + 135*gpuMinor + 9*gi) }

func nodePath(minor int) string { return fmt.Sprintf("/dev/nvidia%d", minor) }

func capPath(minor uint32) string { return fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor) }

func char(p string, major, minor uint32, mode fs.FileMode, gid uint32) device.Node {
	return device.Node{Path: p, Type: device.Char, Num: device.Num{Major: major, Minor: minor}, Mode: mode, GID: gid}
}

// frontendNode makes a node of major 195. Jetson's udev rules give them to
// group video; elsewhere they are everybody's.
func frontendNode(m *host.Model, minor int) device.Node {
	name := nodePath(minor)
	switch minor {
	case minorModeset:
		name = "/dev/nvidia-modeset"
	case minorControl:
		name = "/dev/nvidiactl"
	}
	mode, gid := driverMode(m)
	return char(name, majorNVIDIA, uint32(minor), mode, gid)
}

// driverMode returns mode and group of the driver's own nodes.
func driverMode(m *host.Model) (fs.FileMode, uint32) {
	if m.Tegra != nil {
		video, _ := groups(m)
		return 0o660, video
	}
	return 0o666, 0
}

// addDRMNodes adds the card and render nodes of g and its partitions.
func addDRMNodes(m *host.Model, g host.GPU) {
	video, render := groups(m)
	for _, d := range drmDevices(g) {
		if d.Card >= 0 {
			addMajor(m, "drm", majorDRM)
			setNode(m, char(fmt.Sprintf("/dev/dri/card%d", d.Card), majorDRM, uint32(d.Card), 0o660, video))
		}
		if d.Render >= 0 {
			addMajor(m, "drm", majorDRM)
			setNode(m, char(fmt.Sprintf("/dev/dri/renderD%d", d.Render), majorDRM, uint32(d.Render), 0o660, render))
		}
	}
}

// addInstanceNodes adds the capability nodes of the MIG instances of these GPUs:
// all at once, since a host has hundreds.
func addInstanceNodes(m *host.Model, gpus ...host.GPU) {
	caps, ok := majorOf(m, "nvidia-caps")
	if !ok {
		return
	}
	var nodes []device.Node
	paths := map[string]bool{}
	add := func(minor uint32) {
		n := char(capPath(minor), caps, minor, 0o444, 0)
		nodes, paths[n.Path] = append(nodes, n), true
	}
	for _, g := range gpus {
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.Instances {
			minor := giCap(g.Minor, gi.ID)
			add(minor)
			for _, ci := range gi.Compute {
				add(minor + 1 + uint32(ci.ID))
			}
		}
	}
	if len(nodes) > 0 {
		dropNodes(m, func(p string) bool { return paths[p] })
		m.Nodes = append(m.Nodes, nodes...)
	}
}

// dropInstanceNodes removes every capability node that belongs to these GPUs.
func dropInstanceNodes(m *host.Model, gpus ...host.GPU) {
	first := giCap(0, 0)
	minors := map[uint32]bool{}
	for _, g := range gpus {
		if g.Minor >= 0 && g.Minor < capGPUs {
			minors[uint32(g.Minor)] = true
		}
	}
	if len(minors) == 0 {
		return
	}
	dropNodes(m, func(p string) bool {
		n, ok := capNumber(p)
		return ok && n >= first && minors[(n-first)/(giCap(1, 0)-first)]
	})
}

// capNumber reads the N of /dev/nvidia-caps/nvidia-capN.
func capNumber(p string) (uint32, bool) {
	rest, ok := strings.CutPrefix(p, "/dev/nvidia-caps/nvidia-cap")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 32)
	return uint32(n), err == nil && rest == strconv.FormatUint(n, 10)
}

// dropMinorNodes removes what carries g's NVIDIA minor in its name or number.
func dropMinorNodes(m *host.Model, g host.GPU) {
	if g.Minor < 0 {
		return
	}
	dropNodes(m, func(p string) bool { return p == nodePath(g.Minor) })
	dropInstanceNodes(m, g)
}

// dropGPUNodes removes every node that is g's alone.
func dropGPUNodes(m *host.Model, g host.GPU) {
	dropMinorNodes(m, g)
	dropDRMNodes(m, g)
}

func dropDRMNodes(m *host.Model, g host.GPU) {
	dropNodes(m, func(p string) bool {
		return slices.ContainsFunc(drmDevices(g), func(d host.Partition) bool { return slices.Contains(d.Paths(), p) })
	})
}
