package fakehw

import (
	"fmt"
	"io/fs"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/catalog"
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

// addDRMNodes adds the card and render node of g.
func addDRMNodes(m *host.Model, g host.GPU) {
	video, render := groups(m)
	if g.Card >= 0 {
		addMajor(m, "drm", majorDRM)
		setNode(m, char(fmt.Sprintf("/dev/dri/card%d", g.Card), majorDRM, uint32(g.Card), 0o660, video))
	}
	if g.Render >= 0 {
		addMajor(m, "drm", majorDRM)
		setNode(m, char(fmt.Sprintf("/dev/dri/renderD%d", g.Render), majorDRM, uint32(g.Render), 0o660, render))
	}
}

// addInstanceNodes adds the capability nodes of g's MIG instances.
func addInstanceNodes(m *host.Model, g host.GPU) {
	caps, ok := majorOf(m, "nvidia-caps")
	if g.MIG == nil || !ok {
		return
	}
	for _, gi := range g.MIG.Instances {
		minor := giCap(g.Minor, gi.ID)
		setNode(m, char(capPath(minor), caps, minor, 0o444, 0))
		for _, ci := range gi.Compute {
			at := minor + 1 + uint32(ci.ID)
			setNode(m, char(capPath(at), caps, at, 0o444, 0))
		}
	}
}

// dropInstanceNodes removes every capability node that belongs to g.
func dropInstanceNodes(m *host.Model, g host.GPU) {
	if g.Minor < 0 || g.Minor >= capGPUs {
		return
	}
	first, last := giCap(g.Minor, 0), giCap(g.Minor+1, 0)
	dropNodes(m, func(p string) bool {
		n, ok := capNumber(p)
		return ok && n >= first && n < last
	})
}

// capNumber reads the N of /dev/nvidia-caps/nvidia-capN.
func capNumber(p string) (uint32, bool) {
	rest, ok := strings.CutPrefix(p, "/dev/nvidia-caps/nvidia-cap")
	if !ok {
		return 0, false
	}
	var n uint32
	_, err := fmt.Sscanf(rest, "%d", &n)
	return n, err == nil && rest == fmt.Sprint(n)
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
		return g.Card >= 0 && p == fmt.Sprintf("/dev/dri/card%d", g.Card) ||
			g.Render >= 0 && p == fmt.Sprintf("/dev/dri/renderD%d", g.Render)
	})
}

// instance makes the model's form of a placement. Next is the index of its
// first MIG device.
func instance(uuidOfGPU string, p catalog.Placement, next int) host.GPUInstance {
	gi := host.GPUInstance{
		ID: p.ID, Profile: p.Profile.Name, ProfileID: p.Profile.ID,
		Start: p.Start, Size: p.Profile.Size, MemoryMiB: p.Profile.MemoryMiB,
	}
	names := []string{p.Profile.Name}
	if len(p.Parts) > 0 {
		names = nil
		for _, part := range p.Parts {
			names = append(names, part+"."+p.Profile.Name)
		}
	}
	for c, name := range names {
		gi.Compute = append(gi.Compute, host.ComputeInstance{
			ID: c, Profile: name, Index: next + c,
			UUID: "MIG-" + uuid(5, uuidOfGPU, " ", p.Start, ":", p.Profile.Size, " ", p.Profile.Name, " ", c, " ", name),
		})
	}
	return gi
}

// WithMIG returns m with another MIG geometry on the GPU of this NVML index:
// nvidia-smi -mig 1, then -cgi PROFILES -C. No profiles: enabled and empty. Off
// turns the mode off. Capability nodes, MIG device indexes and UUIDs follow.
//
// MIG devices are indexed in the order of the list. On the captures we know
// that order is also by GPU instance id, which a list with the widest profile
// first has; a list in another order is for hosts built in another order.
func WithMIG(m host.Model, gpuIndex int, profiles []string, off bool) (host.Model, error) {
	change := fmt.Sprintf("MIG geometry of GPU %d", gpuIndex)
	out := m.Clone()
	i := gpuAt(&out, gpuIndex)
	if i < 0 {
		return host.Model{}, noGPU(&out, "MIG geometry of GPU", gpuIndex)
	}
	g := &out.GPUs[i]
	if g.PCI == nil {
		return host.Model{}, impossible(change, "it is part of the SoC")
	}
	product, ok := catalog.ByID(g.PCI.ID)
	if !ok {
		return host.Model{}, impossible(change, "the catalogue has no product %s", g.PCI.ID)
	}
	if off && len(profiles) > 0 {
		return host.Model{}, impossible(change, "profiles are given and MIG is to be off")
	}
	placed, err := product.Place(profiles)
	if err != nil {
		return host.Model{}, &ChangeError{Change: change, Err: err}
	}
	if g.Minor >= capGPUs {
		return host.Model{}, impossible(change, "capability nodes are numbered for minors below %d, this GPU has %d", capGPUs, g.Minor)
	}
	dropInstanceNodes(&out, *g)
	if g.MIG = nil; !off {
		g.MIG = &host.MIG{}
		next := 0
		for _, p := range placed {
			gi := instance(g.UUID, p, next)
			next += len(gi.Compute)
			g.MIG.Instances = append(g.MIG.Instances, gi)
		}
		addInstanceNodes(&out, *g)
	}
	normalize(&out)
	return out, nil
}

// Rebooted returns m after a reboot: the nodes that only a first user of the
// driver makes (uvm, uvm-tools, modeset, one per MIG instance) and those made by
// hand (IMEX channels) are gone.
//
// So are all GPU and compute instances, which never outlive a reboot. MIG mode
// itself does on Ampere, where it is kept on the board; from Hopper on it
// starts off (MIG user guide). Majors stay: give others with WithMajors.
func Rebooted(m host.Model) host.Model {
	out := m.Clone()
	for i := range out.GPUs {
		g := &out.GPUs[i]
		dropInstanceNodes(&out, *g)
		if g.MIG == nil {
			continue
		}
		g.MIG = nil
		if p, ok := catalog.ByID(g.PCI.ID); ok && p.Persistent {
			g.MIG = &host.MIG{}
		}
	}
	dropNodes(&out, func(p string) bool {
		switch p {
		case "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset":
			return true
		}
		return strings.HasPrefix(p, "/dev/nvidia-caps-imex-channels/")
	})
	return trimmed(out)
}
