package fakehw

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// DriverOptions say how NVIDIA's kernel driver is loaded. The zero value, with
// a version, is the driver as packages load it.
type DriverOptions struct {
	Version      string            // or a branch: "550"
	Open         bool              // the open kernel modules
	Modules      []string          // sysfs spelling; none: what such a host has
	Majors       map[string]uint32 // dynamic majors by name; others are taken from 511 down
	IMEXChannels int               // nodes made below /dev/nvidia-caps-imex-channels
}

var (
	desktopModules = []string{"nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm"}
	nvgpuModules   = []string{"nvgpu", "nvidia", "nvidia_drm", "nvidia_modeset"}
)

// Bind lets the kernel's own drivers (amdgpu, i915, xe, ast, nouveau, vfio-pci)
// have the GPUs that name one: names, memory, DRM nodes, /dev/kfd and the nodes
// of VFIO groups appear. Card and render numbers that are -1 are given in order
// of address.
func Bind(m host.Model, majors map[string]uint32) host.Model {
	out := m.Clone()
	for i := range out.GPUs {
		bindGPU(&out, &out.GPUs[i], majors)
	}
	normalize(&out)
	return out
}

// bindGPU is Bind for one GPU.
func bindGPU(m *host.Model, g *host.GPU, majors map[string]uint32) {
	if g.PCI == nil {
		return
	}
	if g.PCI.Driver == "vfio-pci" {
		addVFIONodes(m, g.PCI.IOMMUGroup, majors["vfio"])
		return
	}
	p, ok := productOf(*g)
	switch {
	case !ok || g.PCI.Driver == "":
		return
	case g.PCI.Driver == "nouveau": // which tells nothing of the board
		if g.PCI.ID.Vendor != pci.NVIDIA {
			return
		}
	case g.PCI.Driver != p.Driver || p.Driver == "nvidia":
		return
	default:
		g.Name = p.Name
	}
	if g.PCI.Driver == "amdgpu" {
		g.MemoryMiB = p.MemoryMiB
		_, render := groups(m)
		setNode(m, char("/dev/kfd", addMajor(m, "kfd", majors["kfd"]), 0, 0o660, render))
	}
	numberDRM(m, g, p)
	addDRMNodes(m, *g)
}

// addVFIONodes adds the node of a group, with the lowest minor that is free
// (vfio_group_find_or_alloc), and the one that all users share. A negative group
// is none.
func addVFIONodes(m *host.Model, group int, want uint32) {
	addMajor(m, "misc", majorMisc)
	setNode(m, char("/dev/vfio/vfio", majorMisc, 196, 0o666, 0))
	p := fmt.Sprintf("/dev/vfio/%d", group)
	if group < 0 || hasNode(m, p) {
		return
	}
	major := addMajor(m, "vfio", want)
	minor := uint32(0)
	for slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return n.Num == device.Num{Major: major, Minor: minor} }) {
		minor++
	}
	setNode(m, char(p, major, minor, 0o600, 0))
}

// productOf returns what g is.
func productOf(g host.GPU) (catalog.Product, bool) {
	if g.PCI != nil {
		return catalog.Of(*g.PCI)
	}
	p, err := catalog.Find("orin-gpu")
	return p, err == nil && g.Platform != ""
}

// numberDRM gives g the first free card and render number where it has none.
func numberDRM(m *host.Model, g *host.GPU, p catalog.Product) {
	free := func(n int, of func(host.Partition) int) int {
		for slices.ContainsFunc(m.GPUs, func(o host.GPU) bool {
			return slices.ContainsFunc(drmDevices(o), func(p host.Partition) bool { return of(p) == n })
		}) {
			n++
		}
		return n
	}
	card := func(p host.Partition) int { return p.Card }
	render := func(p host.Partition) int { return p.Render }
	if g.Card < 0 {
		g.Card = free(0, card)
	}
	if g.Render < 0 && p.Render {
		g.Render = free(128, render)
	}
	for i := range g.Partitions {
		if part := &g.Partitions[i]; part.Card < 0 {
			part.Card = free(0, card)
		}
		if part := &g.Partitions[i]; part.Render < 0 {
			part.Render = free(128, render)
		}
	}
}

// drmDevices are the DRM devices of a GPU: its own, and those of its partitions.
func drmDevices(g host.GPU) []host.Partition {
	return append([]host.Partition{{Card: g.Card, Render: g.Render}}, g.Partitions...)
}

// Load loads NVIDIA's driver: it takes every NVIDIA GPU and NVSwitch that no
// other driver holds, and on a Tegra the integrated GPU. Numbers in the model
// that are -1 are given in order of address; others stay.
func Load(m host.Model, o DriverOptions) (host.Model, error) {
	change := "driver " + o.Version
	if m.Driver != nil {
		return host.Model{}, impossible(change, "driver %s is loaded", m.Driver.Version)
	}
	release, err := catalog.FindDriver(o.Version)
	if err != nil {
		return host.Model{}, &ChangeError{Change: change, Err: err}
	}
	out := m.Clone()
	out.Driver = &host.Driver{Version: release.Version, Open: o.Open, CUDA: release.CUDA, Modules: slices.Clone(o.Modules)}
	if len(o.Modules) == 0 {
		out.Driver.Modules = slices.Clone(desktopModules)
		if hasPlatformGPU(&out) {
			out.Driver.Modules = slices.Clone(nvgpuModules)
		}
	}
	takeGPUs(&out)
	addDriverNodes(&out, o)
	normalize(&out)
	return out, nil
}

func hasPlatformGPU(m *host.Model) bool {
	return slices.ContainsFunc(m.GPUs, func(g host.GPU) bool { return g.PCI == nil })
}

// hasDiscrete reports whether NVIDIA's driver holds a PCI GPU that is no part
// of the SoC.
func hasDiscrete(m *host.Model) bool {
	return slices.ContainsFunc(m.GPUs, func(g host.GPU) bool { return driven(g) && g.PCI.ID.Device != 0x2b00 })
}

// driven reports whether NVIDIA's PCI driver holds g.
func driven(g host.GPU) bool { return g.PCI != nil && g.PCI.Driver == "nvidia" }

func hasModule(m *host.Model, name string) bool {
	return m.Driver != nil && slices.Contains(m.Driver.Modules, name)
}

// takeGPUs binds the functions and fills in what the driver knows of them.
func takeGPUs(m *host.Model) {
	normalize(m)
	for i := range m.NVSwitches {
		if m.NVSwitches[i].Driver == "" {
			m.NVSwitches[i].Driver = "nvidia-nvswitch"
		}
	}
	index := 0
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if f := g.PCI; f != nil && (f.ID.Vendor != pci.NVIDIA || f.Driver != "" && f.Driver != "nvidia" || f.Override != "" && f.Override != "nvidia") {
			continue
		}
		p, ok := productOf(*g)
		if !ok {
			continue // the driver does not know the product and leaves it alone
		}
		if g.Index < 0 {
			for slices.ContainsFunc(m.GPUs, func(o host.GPU) bool { return o.Index == index }) {
				index++
			}
			g.Index = index
		}
		hold(m, g, p)
	}
}

// hold fills in what NVIDIA's driver knows of a GPU that it holds, and gives it
// the numbers that it has not.
func hold(m *host.Model, g *host.GPU, p catalog.Product) {
	g.Name, g.ComputeCap, g.MemoryMiB = p.Name, p.ComputeCap, p.MemoryMiB
	if g.PCI == nil { // Orin prints its UUID without a prefix
		if g.UUID == "" {
			g.UUID = uuid(0, "igpu ", m.Tegra.Model, " ", g.Platform)
		}
		return
	}
	g.PCI.Driver, g.VBIOS = "nvidia", p.VBIOS
	if g.UUID == "" {
		g.UUID = "GPU-" + uuid(0, "gpu ", g.PCI.ID, " ", g.PCI.BDF)
	}
	if g.Minor < 0 {
		g.Minor = freeMinor(m)
	}
	if hasModule(m, "nvidia_drm") && p.Render {
		numberDRM(m, g, p)
	}
}

// freeMinor returns the lowest NVIDIA minor that no GPU has. On Orin minor 0 is
// the display's.
func freeMinor(m *host.Model) int {
	n := 0
	if hasPlatformGPU(m) {
		n = 1
	}
	for slices.ContainsFunc(m.GPUs, func(g host.GPU) bool { return g.Minor == n }) {
		n++
	}
	return n
}

// addDriverNodes adds the lines of /proc/devices and the nodes that the loaded
// modules bring.
func addDriverNodes(m *host.Model, o DriverOptions) {
	addFrontend(m)
	discrete := hasDiscrete(m)
	if hasModule(m, "nvidia_uvm") {
		uvm := addMajor(m, "nvidia-uvm", o.Majors["nvidia-uvm"])
		mode, gid := driverMode(m)
		setNode(m, char("/dev/nvidia-uvm", uvm, 0, mode, gid))
		setNode(m, char("/dev/nvidia-uvm-tools", uvm, 1, mode, gid))
	}
	if discrete {
		addCapabilities(m, o)
	}
	var held []host.GPU
	for _, g := range m.GPUs {
		if driven(g) {
			held = append(held, g)
			setNode(m, frontendNode(m, g.Minor))
			addDRMNodes(m, g)
		}
	}
	addInstanceNodes(m, held...)
	if m.Tegra != nil {
		addTegraNodes(m, o.Majors)
	}
}

// addCapabilities adds what there is as soon as the driver holds a discrete GPU.
func addCapabilities(m *host.Model, o DriverOptions) {
	caps := addMajor(m, "nvidia-caps", o.Majors["nvidia-caps"])
	setNode(m, char(capPath(capConfig), caps, capConfig, 0o400, 0))
	setNode(m, char(capPath(capMonitor), caps, capMonitor, 0o444, 0))
	addFabric(m, o.Majors)
	addIMEX(m, o)
}

// addFrontend adds what stands on major 195. Up to 535 one module registered
// all of it; since 545 each part has its own name.
func addFrontend(m *host.Model) {
	setNode(m, frontendNode(m, minorControl))
	if hasModule(m, "nvidia_modeset") {
		setNode(m, frontendNode(m, minorModeset))
	}
	if catalog.BranchNumber(m.Driver.Version) < 540 {
		addMajor(m, "nvidia-frontend", majorNVIDIA)
		return
	}
	addMajor(m, "nvidia", majorNVIDIA)
	addMajor(m, "nvidiactl", majorNVIDIA)
	if hasModule(m, "nvidia_modeset") {
		addMajor(m, "nvidia-modeset", majorNVIDIA)
	}
}

// addFabric adds the lines of NVLink and NVSwitch, which the driver registers
// everywhere (nvlink_drivers_init in nv.c), and the nodes of hosts that have switches.
func addFabric(m *host.Model, majors map[string]uint32) {
	link := addMajor(m, "nvidia-nvlink", majors["nvidia-nvlink"])
	major := addMajor(m, "nvidia-nvswitch", majors["nvidia-nvswitch"])
	if len(m.NVSwitches) == 0 {
		return
	}
	setNode(m, char("/dev/nvidia-nvlink", link, 0, 0o666, 0))
	setNode(m, char("/dev/nvidia-nvswitchctl", major, minorControl, 0o666, 0))
	for i := range m.NVSwitches {
		setNode(m, char(fmt.Sprintf("/dev/nvidia-nvswitch%d", i), major, uint32(i), 0o666, 0))
	}
}

// addIMEX adds the IMEX line, which drivers since 550 register everywhere, and
// on hosts with channels their nodes.
func addIMEX(m *host.Model, o DriverOptions) {
	if catalog.BranchNumber(m.Driver.Version) < 550 {
		return
	}
	major := addMajor(m, "nvidia-caps-imex-channels", o.Majors["nvidia-caps-imex-channels"])
	if o.IMEXChannels == 0 {
		return
	}
	caps, _ := majorOf(m, "nvidia-caps")
	setNode(m, char(capPath(capIMEX), caps, capIMEX, 0o400, 0))
	for i := range o.IMEXChannels {
		setNode(m, char(fmt.Sprintf("/dev/nvidia-caps-imex-channels/channel%d", i), major, uint32(i), 0o666, 0))
	}
}

// Unloaded returns m after NVIDIA's modules were removed: GPUs without a
// driver, names and UUIDs unknown, nodes and majors gone. Libraries stay.
func Unloaded(m host.Model) host.Model {
	out := m.Clone()
	if out.Driver == nil {
		return out
	}
	for i := range out.GPUs {
		g := &out.GPUs[i]
		if g.PCI != nil && !driven(*g) {
			continue
		}
		dropDRMNodes(&out, *g)
		*g = host.GPU{PCI: g.PCI, Platform: g.Platform, Minor: -1, Index: -1, Card: -1, Render: -1}
		if g.PCI != nil {
			g.PCI.Driver = ""
		}
	}
	for i := range out.NVSwitches {
		out.NVSwitches[i].Driver = ""
	}
	dropNodes(&out, func(p string) bool {
		return strings.HasPrefix(p, "/dev/nvidia") || strings.HasPrefix(p, "/dev/nvgpu/") ||
			strings.HasPrefix(p, "/dev/nvhost-") && strings.HasSuffix(p, "gpu")
	})
	dropMajors(&out, func(name string) bool {
		return strings.HasPrefix(name, "nvidia") || strings.HasSuffix(name, ".gpu") ||
			name == "drm" && !anyNode(&out, "/dev/dri/")
	})
	dropGPUDirect(&out)
	out.Driver = nil
	return trimmed(out)
}

func anyNode(m *host.Model, prefix string) bool {
	for _, n := range m.Nodes {
		if strings.HasPrefix(n.Path, prefix) {
			return true
		}
	}
	return false
}

// WithDriver returns m with another driver, kernel and user space, after the
// reboot that it takes: version "550.163.01" or branch "550". Where no driver
// was loaded it is loaded now. What the driver makes follows: the names in
// /proc/devices, IMEX lines, capability nodes. Numbers and MIG geometry stay.
func WithDriver(m host.Model, version string) (host.Model, error) {
	release, err := catalog.FindDriver(version)
	if err != nil {
		return host.Model{}, &ChangeError{Change: "driver " + version, Err: err}
	}
	ours := func(g host.GPU) bool { return g.PCI == nil || g.PCI.ID.Vendor == pci.NVIDIA }
	if m.Driver == nil && !slices.ContainsFunc(m.GPUs, ours) {
		return host.Model{}, impossible("driver "+version, "it has neither a GPU of NVIDIA's nor its driver")
	}
	out := m.Clone()
	if out.Userspace != nil {
		setUserspaceVersion(out.Userspace, release.Version)
	}
	if out.Driver == nil {
		return Load(out, DriverOptions{Version: release.Version})
	}
	majors := map[string]uint32{}
	for _, x := range out.Majors {
		majors[x.Name] = x.Major
	}
	out.Driver.Version, out.Driver.CUDA = release.Version, release.CUDA
	dropMajors(&out, func(name string) bool {
		switch name {
		case "nvidia", "nvidiactl", "nvidia-modeset", "nvidia-frontend", "nvidia-caps-imex-channels":
			return true
		}
		return false
	})
	addLines(&out, majors)
	if _, ok := majorOf(&out, "nvidia-caps-imex-channels"); !ok {
		dropNodes(&out, func(p string) bool {
			return strings.HasPrefix(p, "/dev/nvidia-caps-imex-channels/") || p == capPath(capIMEX)
		})
	}
	normalize(&out)
	return out, nil
}

// addLines registers the lines that depend on the driver's release alone.
func addLines(m *host.Model, majors map[string]uint32) {
	before := slices.Clone(m.Nodes)
	addFrontend(m)
	if _, ok := majorOf(m, "nvidia-caps"); ok {
		addIMEX(m, DriverOptions{Majors: majors})
	}
	m.Nodes = before // nodes that a fault removed do not come back with an upgrade
}
