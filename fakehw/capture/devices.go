package capture

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/fixtures/hosts"
)

const pciDevices = "/sys/bus/pci/devices"

// A function is what is looked at to choose PCI functions.
type function struct {
	name, slot, group string
	gpu               bool
}

// functions records every PCI function that is a GPU or of NVIDIA, and those in
// the slots and IOMMU groups of such. A machine has hundreds of others.
func (c *collector) functions() {
	var all []function
	for _, name := range c.list(pciDevices) {
		all = append(all, c.function(name))
	}
	slots, groups := map[string]bool{}, map[string]bool{}
	for _, f := range all {
		if f.gpu {
			slots[f.slot] = true
			groups[f.group] = f.group != ""
		}
	}
	c.take("/sys/bus/pci/drivers")
	c.take(pciDevices)
	for _, d := range []string{"nvidia", "nvidia-nvswitch", "amdgpu", "nouveau", "vfio-pci", "nvgrace_gpu_vfio_pci"} {
		// Also one that holds no function: Tegra's display driver registers it.
		for _, a := range driverAttributes {
			c.glob("/sys/bus/pci/drivers/" + d + "/" + a)
		}
	}
	c.glob("/sys/bus/pci/drivers_autoprobe", "/sys/bus/pci/drivers_probe", "/sys/bus/pci/rescan")
	kept := 0
	for _, f := range all {
		if slots[f.slot] || groups[f.group] {
			c.device(pciDevices+"/"+f.name, pciAttributes)
			kept++
		}
	}
	if n := len(all) - kept; n > 0 {
		c.notes.add("left out: %d PCI functions that have nothing to do with GPUs", n)
	}
	for _, uuid := range c.list("/sys/bus/mdev/devices") {
		if target, err := c.r.Readlink("/sys/bus/mdev/devices/" + uuid + "/iommu_group"); err == nil {
			groups[path.Base(target)] = true
		}
	}
	c.iommu(groups)
}

// function reads what decides whether a function is kept. One that cannot be
// read vanished, or is no reason to look at it further.
func (c *collector) function(name string) function {
	f := function{name: name, slot: name}
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		f.slot = name[:i]
	}
	hex := func(attr string) uint64 {
		data, err := c.r.ReadFile(pciDevices + "/" + name + "/" + attr)
		if err != nil {
			return 0
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 0, 32)
		if err != nil {
			return 0
		}
		return n
	}
	class, vendor := hex("class"), hex("vendor")
	f.gpu = class>>16 == 0x03 || class>>16 == 0x12 || vendor == 0x10de && class != 0x060400
	if target, err := c.r.Readlink(pciDevices + "/" + name + "/iommu_group"); err == nil {
		f.group = path.Base(target)
	}
	return f
}

// pciAttributes are what is kept of a function. Serial numbers are not among
// them: amdgpu's serial_number and unique_id, the vital product data.
var pciAttributes = []string{
	"class", "vendor", "device", "subsystem_vendor", "subsystem_device", "revision", "resource", "resource[0-9]*", "config", "rom",
	"driver", "driver_override", "enable", "irq", "iommu", "iommu_group", "local_cpulist", "local_cpus", "modalias", "numa_node",
	"current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "power_state", "reset_method", "boot_vga",
	"subsystem", "uevent", "remove", "rescan", "reset", "physfn", "virtfn[0-9]*", "sriov_*",
	"product_name", "mem_info_*", "vbios_version", "gpu_busy_percent", "mem_busy_percent",
	"current_compute_partition", "available_compute_partition", "current_memory_partition", "available_memory_partition",
	"modalias", "load", "vfio-dev", "vfio-dev/*", "vfio-dev/*/*", "nvidia/*", "mdev_supported_types", "mdev_supported_types/*", "mdev_supported_types/*/*",
	"mdev_supported_types/*/devices/*",
}

// drmAttributes are what is kept of a device's cards, render nodes and
// connectors. The monitor's EDID has a serial number.
var drmAttributes = []string{
	"drm", "drm/*", "drm/*/dev", "drm/*/device", "drm/*/subsystem", "drm/*/uevent",
	"drm/*/card*-*", "drm/*/card*-*/device", "drm/*/card*-*/dpms", "drm/*/card*-*/edid", "drm/*/card*-*/enabled", "drm/*/card*-*/modes",
	"drm/*/card*-*/status", "drm/*/card*-*/subsystem",
}

// sensorAttributes are what is kept of a device's sensors and clocks.
var sensorAttributes = []string{
	"hwmon/*/device", "hwmon/*/subsystem", "hwmon/*/name", "hwmon/*/temp*", "hwmon/*/power1_*", "hwmon/*/freq*",
	"devfreq/*", "devfreq/*/*_freq", "devfreq/*/available_*", "devfreq/*/governor", "devfreq/*/name", "devfreq/*/device",
}

// driverAttributes are what is kept of a driver, besides the devices it holds.
var driverAttributes = []string{"bind", "unbind", "new_id", "remove_id", "uevent", "module"}

// device records an entry of a bus, its attributes, and its driver.
func (c *collector) device(p string, attributes []string) {
	real, info, ok := c.take(p)
	if !ok || !info.Mode.IsDir() {
		return
	}
	for _, a := range slices.Concat(attributes, drmAttributes, sensorAttributes) {
		c.glob(escape(real) + "/" + a)
	}
	for _, class := range []string{"hwmon", "devfreq"} {
		for _, name := range c.list(real + "/" + class) {
			c.take("/sys/class/" + class)
			c.look("/sys/class/" + class + "/" + name)
		}
	}
	if driver, _, ok := c.take(real + "/driver"); ok {
		for _, a := range append(slices.Clone(driverAttributes), path.Base(p)) {
			c.take(driver + "/" + a)
		}
	}
}

// iommu records the groups of the kept functions, and that there is an IOMMU.
func (c *collector) iommu(groups map[string]bool) {
	const top = "/sys/kernel/iommu_groups"
	c.take(top)
	names := c.list(top)
	if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return groups[n] }) {
		c.take(top + "/" + names[0]) // whose being there says that the IOMMU is on
	}
	for _, name := range names {
		if groups[name] {
			c.glob(top+"/"+name, top+"/"+name+"/type", top+"/"+name+"/reserved_regions", top+"/"+name+"/devices")
			for _, f := range c.list(top + "/" + name + "/devices") {
				c.look(top + "/" + name + "/devices/" + f)
			}
		}
	}
	c.take("/sys/class/iommu")
	c.each("/sys/class/iommu/*", func(p string) {
		real, _, ok := c.take(p)
		if !ok {
			return
		}
		c.take(real + "/devices")
		for _, f := range c.list(real + "/devices") {
			if _, kept := c.entries[pciDevices+"/"+f]; kept {
				c.look(real + "/devices/" + f)
			}
		}
	})
}

// display records the classes through which programs find cards, and AMD's
// compute topology.
func (c *collector) display() {
	for _, dir := range []string{"/sys/class/drm", "/sys/class/kfd", "/sys/class/mdev_bus", "/sys/class/accel"} {
		c.glob(dir, dir+"/*")
	}
	c.mediated()
	c.glob("/sys/class/vfio-dev", "/sys/class/vfio-dev/*")
	c.each("/sys/class/vfio-dev/*/dev", func(p string) {
		if number, err := c.r.ReadFile(p); err == nil {
			c.look("/sys/dev")
			c.take("/sys/dev/char/" + strings.TrimSpace(string(number)))
		}
	})
	c.each("/sys/class/drm/card[0-9]*", func(p string) { c.glob(p+"/dev", p+"/device", p+"/subsystem", p+"/uevent") })
	c.each("/sys/class/drm/renderD*", func(p string) { c.glob(p+"/dev", p+"/device", p+"/subsystem", p+"/uevent") })
	topology := "/sys/class/kfd/kfd/topology"
	c.glob(topology+"/system_properties", topology+"/generation_id", topology+"/nodes/*",
		topology+"/nodes/*/name", topology+"/nodes/*/properties", topology+"/nodes/*/gpu_id")
	for _, part := range []string{"mem_banks", "caches", "io_links", "p2p_links", "perf"} {
		c.glob(topology+"/nodes/*/"+part, topology+"/nodes/*/"+part+"/*/properties")
	}
}

// mediated records mediated devices and the drivers of their bus.
func (c *collector) mediated() {
	const bus = "/sys/bus/mdev"
	c.glob(bus, bus+"/devices", bus+"/drivers/*")
	for _, a := range driverAttributes {
		c.glob(bus + "/drivers/*/" + a)
	}
	c.each(bus+"/devices/*", func(p string) {
		c.device(p, []string{"iommu_group", "mdev_type", "nvidia/*", "remove", "subsystem", "uevent"})
	})
}

// soc records what there is of a Tegra.
func (c *collector) soc() {
	c.take("/proc/device-tree")
	for _, tree := range []string{"/proc/device-tree", "/sys/firmware/devicetree/base"} {
		c.glob(tree+"/compatible", tree+"/model")
	}
	c.glob("/sys/devices/gpu.0")
	for _, dir := range []string{"/sys/bus/soc/devices/soc0", "/sys/devices/soc0"} {
		c.glob(dir, dir+"/family", dir+"/machine", dir+"/revision", dir+"/soc_id")
	}
	// /sys/bus/platform has hundreds of entries on any machine.
	for _, name := range []string{"*.gpu", "*.ga10b", "*.gv11b", "*.gp10b", "*.display", "*.host1x", "amdgpu_xcp_*"} {
		c.each("/sys/bus/platform/devices/"+name, func(p string) {
			c.device(p, []string{"driver", "subsystem", "uevent", "modalias", "load", "of_node", "of_node/compatible", "of_node/name", "of_node/status"})
		})
	}
}

// snapshot returns the entries below a path, by path: recording goes on while
// they are looked at.
func (c *collector) snapshot(below string) iter.Seq2[string, hosts.Entry] {
	paths := slices.Sorted(maps.Keys(c.entries))
	return func(yield func(string, hosts.Entry) bool) {
		for _, p := range paths {
			if strings.HasPrefix(p, below) && !yield(p, c.entries[p]) {
				return
			}
		}
	}
}

// number returns a node's number as sysfs writes it.
func number(e hosts.Entry) string { return fmt.Sprintf("%d:%d", e.Major, e.Minor) }

// linksInto reports whether the text of a link has part in it.
func (c *collector) linksInto(p, part string) bool {
	target, err := c.r.Readlink(p)
	return err == nil && strings.Contains(target, part)
}

// escape makes a pattern of a path that matches itself alone.
func escape(p string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(p)
}
