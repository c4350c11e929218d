package live

import (
	"syscall"

	"gpurig/core/pci"
	"gpurig/fakehw"
)

// numVFs is sriov_numvfs_store of drivers/pci/iov.c: EINVAL for what is no number
// of 16 bits, ERANGE for more than sriov_totalvfs, ENOENT without a driver that
// can do it, EBUSY for another number than 0 while there are some.
func (w *write) numVFs(a pci.BDF, s string) syscall.Errno {
	n, err := kstrtoul(s, 1<<16-1)
	f := w.function(a)
	switch {
	case err != nil:
		return syscall.EINVAL
	case f.SRIOV == nil:
		return syscall.EACCES // cannot be: then there is no such attribute
	case int(n) > f.SRIOV.Total:
		return syscall.ERANGE
	case int(n) == f.SRIOV.Num:
		return 0
	case f.Driver != "nvidia" || w.m.Driver == nil || w.m.Driver.VGPU == "":
		// vfio-pci has it with enable_sriov=1 alone, NVIDIA's driver in its build
		// for vGPU hosts.
		return syscall.ENOENT
	case n > 0 && f.SRIOV.Num > 0:
		return syscall.EBUSY
	}
	if n == 0 {
		for _, v := range w.m.VFs { // each is unbound, and that waits
			if v.PF == a && w.inUse(w.nodes(v.BDF)...) {
				return w.wait()
			}
		}
	}
	m, err := fakehw.WithVFs(w.m, a, int(n))
	if err != nil {
		return syscall.ENOMEM // sriov_enable: the bus numbers do not suffice
	}
	w.m = m
	for _, v := range w.m.VFs {
		if v.PF == a {
			w.attach(v.BDF)
		}
	}
	return 0
}

// vfAutoprobe is sriov_drivers_autoprobe_store: EINVAL for what is no yes or no.
func (w *write) vfAutoprobe(a pci.BDF, s string) syscall.Errno {
	on, ok := kstrtobool(s)
	if f := w.function(a); ok && f.SRIOV != nil {
		f.SRIOV.NoProbe = !on
		return 0
	}
	return syscall.EINVAL
}
