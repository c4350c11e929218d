package live

import (
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
)

// Mediated devices after drivers/vfio/mdev. What NVIDIA's driver answers itself
// is not published: that there is no instance left is ENOSPC, as with other
// drivers that have mediated devices, and that a vGPU is in use is EBUSY
// (reported); both are unverified.

// createMDev is create_store: EINVAL for what is no UUID, with one character
// behind it at most; EEXIST for one that a mediated device has.
func (w *write) createMDev(a pci.BDF, kind, s string, size int) syscall.Errno {
	if size < 36 || size > 37 || len(s) < 36 || !isUUID(s[:36]) {
		return syscall.EINVAL
	}
	uuid := strings.ToLower(s[:36]) // dev_set_name with %pUl
	if w.mdev(uuid) != nil {
		return syscall.EEXIST
	}
	_, how, _ := fakehw.VGPUBoard(&w.m, a)
	for _, t := range how.Types {
		if t.Dir() != kind {
			continue
		}
		if fakehw.VGPUsLeft(&w.m, a, t.ID) == 0 {
			return syscall.ENOSPC
		}
		m, err := fakehw.WithMDev(w.m, uuid, a, kind)
		if err != nil {
			return syscall.EINVAL
		}
		w.m = m
		return 0
	}
	return syscall.EINVAL
}

func (w *write) mdev(uuid string) *host.MDev {
	i := slices.IndexFunc(w.m.MDevs, func(d host.MDev) bool { return d.UUID == uuid })
	if i < 0 {
		return nil
	}
	return &w.m.MDevs[i]
}

func (w *write) mdevAttribute(uuid, name string) storeFunc {
	d := w.mdev(uuid)
	switch {
	case d == nil:
		return nil
	case name == "remove":
		return func(s string, _ int) syscall.Errno { return w.removeMDev(*d, s) }
	case name == "uevent":
		return uevent
	}
	return nil
}

// removeMDev is remove_store: EINVAL for what is no number, nothing happens for
// 0.
func (w *write) removeMDev(d host.MDev, s string) syscall.Errno {
	n, err := kstrtoul(s, 1<<64-1)
	switch {
	case err != nil:
		return syscall.EINVAL
	case n == 0:
		return 0
	case w.inUse(groupNode(d.IOMMUGroup)):
		return syscall.EBUSY
	}
	m, err := fakehw.WithoutMDev(w.m, d.UUID)
	if err != nil {
		return syscall.ENODEV
	}
	w.m = m
	return 0
}

// bindMDev and unbindMDev are bind_store and unbind_store of the mdev bus, whose
// devices all match its one driver.
func (w *write) bindMDev(driver, s string) syscall.Errno {
	d := w.mdev(strings.TrimSuffix(s, "\n"))
	switch {
	case d == nil:
		return syscall.ENODEV
	case d.Driver != "":
		return syscall.EBUSY
	}
	w.m = fakehw.WithMDevDriver(w.m, d.UUID, driver)
	return 0
}

func (w *write) unbindMDev(driver, s string) syscall.Errno {
	d := w.mdev(strings.TrimSuffix(s, "\n"))
	switch {
	case d == nil || d.Driver != driver:
		return syscall.ENODEV
	case w.inUse(groupNode(d.IOMMUGroup)):
		return w.wait()
	}
	w.m = fakehw.WithMDevDriver(w.m, d.UUID, "")
	return 0
}

// vgpuAttribute returns what NVIDIA's driver does with its own attributes of a
// virtual function. Their error numbers are unverified.
func (w *write) vgpuAttribute(a pci.BDF, name string) storeFunc {
	i := slices.IndexFunc(w.m.VFs, func(v host.VF) bool { return v.BDF == a })
	if i < 0 {
		return nil
	}
	v := &w.m.VFs[i]
	switch name {
	case "current_vgpu_type":
		return func(s string, _ int) syscall.Errno { return w.vgpuType(*v, s) }
	case "vgpu_params": // of a vGPU that nobody uses yet
		return func(s string, _ int) syscall.Errno {
			switch params := strings.TrimSpace(s); {
			case v.VGPU == 0 || strings.Contains(params, "\n"):
				return syscall.EINVAL
			case w.inUse(w.nodes(a)...):
				return syscall.EBUSY
			default:
				v.Params = params
			}
			return 0
		}
	case "gpu_instance_id", "placement_id", "warm_update": // what is behind them is not modelled
		return func(s string, _ int) syscall.Errno {
			if n, err := kstrtoul(s, 1<<32-1); err != nil || n != 0 {
				return syscall.EINVAL
			}
			return 0
		}
	}
	return nil
}

// vgpuType makes a vGPU of the type that is written, or removes it for 0: EINVAL
// for what is no type of the board, EBUSY for another while there is one or while
// it is in use, ENOSPC for one that creatable_vgpu_types does not have now.
func (w *write) vgpuType(v host.VF, s string) syscall.Errno {
	n, err := kstrtoul(s, 1<<31-1)
	if err != nil {
		return syscall.EINVAL
	}
	id := int(n)
	_, how, _ := fakehw.VGPUBoard(&w.m, v.BDF)
	_, known := how.Type(id)
	switch {
	case id == v.VGPU:
		return 0
	case id != 0 && !known:
		return syscall.EINVAL
	case id != 0 && v.VGPU != 0, id == 0 && w.inUse(w.nodes(v.BDF)...):
		return syscall.EBUSY
	case id != 0 && fakehw.VGPUsLeft(&w.m, v.BDF, id) == 0:
		return syscall.ENOSPC
	}
	m, err := fakehw.WithVGPU(w.m, v.BDF, id)
	if err != nil {
		return syscall.EIO
	}
	w.m = m
	return 0
}
