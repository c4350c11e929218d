package machine

import (
	"os"
	"path"
	"slices"
	"strings"

	"gpurig/core/host/osroot"
)

// shared are the directories of /sys in which the host's entries stand among the
// machine's; "*" is any one name. In every other directory that the host has,
// its entries stand alone.
var shared = []string{
	"", "block", "bus", "bus/*", "bus/pci/devices", "bus/pci/drivers", "bus/platform/devices", "bus/platform/drivers", "bus/soc/devices",
	"class", "class/drm", "class/devfreq", "class/graphics", "class/hwmon", "dev", "dev/char", "dev/block",
	"devices", "devices/pci*", "devices/platform", "devices/platform/bus@0", "devices/virtual", "devices/system",
	"firmware", "fs", "kernel", "module",
}

// replaced are parts of the real /sys that the host's stand for, or that there
// are none of.
var replaced = []string{
	"bus/mdev", "bus/pci/devices/*", "bus/pci/drivers/*/*:*:*.*", "bus/soc/devices/*", "class/drm/*", "class/infiniband", "class/iommu/*", "class/kfd",
	"class/mdev_bus", "class/pci_bus/*", "class/vfio", "class/vfio-dev",
	"dev/char/226:*", "devices/soc0", "devices/virtual/iommu", "devices/virtual/kfd", "devices/virtual/vfio", "firmware/devicetree", "kernel/iommu_groups/*",
}

// gpuModules are drivers of GPUs: the host has them or it has not, whatever the
// machine has loaded.
var gpuModules = []string{
	"amdgpu", "ast", "gdrdrv", "i915", "mdev", "nouveau", "nvgpu", "radeon", "vfio_mdev", "vfio_pci", "xe",
}

func gpuModule(name string) bool {
	return slices.Contains(gpuModules, name) || strings.HasPrefix(name, "nvidia")
}

// gpuDriver is gpuModule for the names of PCI drivers.
func gpuDriver(name string) bool { return gpuModule(strings.ReplaceAll(name, "-", "_")) }

func matches(patterns []string, rel string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, rel)
		return ok && err == nil
	})
}

// A sysView says how /sys is put together.
type sysView struct {
	gpus map[string]bool // addresses of real functions that the host's stand for
}

// newSysView looks which PCI functions of the machine are GPUs or belong to one.
func newSysView() (*sysView, error) {
	v := &sysView{gpus: map[string]bool{}}
	root, err := osroot.New("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := root.ReadDir("/sys/bus/pci/devices")
	if err != nil {
		if os.IsNotExist(err) {
			return v, nil // a machine without PCI
		}
		return nil, err
	}
	read := func(name, attr string) string {
		text, err := root.ReadFile("/sys/bus/pci/devices/" + name + "/" + attr)
		if err != nil {
			return "" // it has none, or the function is gone
		}
		return strings.TrimSpace(string(text))
	}
	for _, name := range names {
		class, vendor := read(name, "class"), read(name, "vendor")
		gpu := strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12") || vendor == "0x10de"
		if !gpu {
			continue
		}
		slot, _, _ := strings.Cut(name, ".")
		for _, other := range names {
			if strings.HasPrefix(other, slot+".") {
				v.gpus[other] = true
			}
		}
	}
	return v, nil
}

func (v *sysView) merge(rel string) bool { return matches(shared, rel) }

func (v *sysView) hide(rel string) bool {
	if matches(replaced, rel) {
		return true
	}
	dir, name := path.Split(rel)
	switch dir {
	case "bus/pci/drivers/":
		return gpuDriver(name)
	case "module/":
		return gpuModule(name)
	}
	if !strings.HasPrefix(rel, "devices/") {
		return false
	}
	// A group of the machine's own could have the number of one of the host's.
	return v.gpus[name] || name == "iommu_group" || name == "iommu"
}

// control are attributes by which drivers are bound and hardware is changed. Of
// the machine's own devices nobody in here may write them (A41).
var control = []string{
	"bind", "config", "driver_override", "drivers_autoprobe", "drivers_probe", "enable", "new_id", "remove", "remove_id", "rescan", "reset",
	"sriov_drivers_autoprobe", "sriov_numvfs", "unbind",
}

func (v *sysView) deny(rel string) bool {
	if !strings.HasPrefix(rel, "bus/pci/") && !strings.HasPrefix(rel, "devices/pci") {
		return false
	}
	name := path.Base(rel)
	return slices.Contains(control, name) || strings.HasPrefix(name, "resource")
}

// gpuMajor reports whether a line of /proc/devices is a GPU driver's.
func gpuMajor(name string) bool {
	switch name {
	case "drm", "kfd", "accel", "vfio", "vfio-dev", "nvhost", "nvmap", "gdrdrv":
		return true
	}
	return strings.HasPrefix(name, "nvidia")
}
