package host

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/pci"
)

// binding reads by what a function can be bound and made to be several.
func (d *discovery) binding(f *PCIFunction, dir string) error {
	override, _, err := d.optional(dir + "/driver_override")
	if err != nil {
		return err
	}
	if f.Override = strings.TrimSuffix(override, "\n"); f.Override == "(null)" {
		f.Override = ""
	}
	names, err := d.list(dir + "/vfio-dev")
	if err != nil {
		return err
	}
	if len(names) > 0 {
		f.VFIODev = names[0]
	}
	total, ok, err := d.integer(dir + "/sriov_totalvfs")
	if err != nil || !ok {
		return err
	}
	s := &SRIOV{Total: total}
	for _, a := range []struct {
		name string
		to   *int
	}{{"sriov_numvfs", &s.Num}, {"sriov_offset", &s.Offset}, {"sriov_stride", &s.Stride}} {
		if *a.to, _, err = d.integer(dir + "/" + a.name); err != nil {
			return err
		}
	}
	device, ok, err := d.optional(dir + "/sriov_vf_device")
	if err != nil {
		return err
	}
	if ok {
		v, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(device), "0x"), 16, 16)
		if err != nil {
			return inFile(dir+"/sriov_vf_device", malformed(0, strings.TrimSpace(device), "want a device id in hex"))
		}
		s.Device = uint16(v)
	}
	probe, ok, err := d.integer(dir + "/sriov_drivers_autoprobe")
	if err != nil {
		return err
	}
	s.NoProbe = ok && probe == 0
	f.SRIOV = s
	return nil
}

// integer reads an attribute that is a number; ok says whether it is there.
func (d *discovery) integer(p string) (n int, ok bool, err error) {
	text, ok, err := d.optional(p)
	if err != nil || !ok {
		return 0, false, err
	}
	if n, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
		return 0, false, inFile(p, malformed(0, strings.TrimSpace(text), "not a number"))
	}
	return n, true, nil
}

// physical returns whose virtual function an entry of the bus is, if it is one.
func (d *discovery) physical(name string) (pf pci.BDF, ok bool, err error) {
	dir, err := d.device(name)
	if err != nil {
		return pf, false, err
	}
	base, err := d.linkBase(dir + "/physfn")
	if err != nil || base == "" {
		return pf, false, err
	}
	if pf, err = pci.ParseBDF(base); err != nil {
		return pf, false, inFile(dir+"/physfn", err)
	}
	return pf, true, nil
}

// virtual reads what a virtual function has beside a function's attributes.
func (d *discovery) virtual(f PCIFunction, pf pci.BDF) (VF, error) {
	v := VF{PCIFunction: f, PF: pf}
	dir, err := d.device(f.BDF.String())
	if err != nil {
		return v, err
	}
	if v.VGPU, _, err = d.integer(dir + "/nvidia/current_vgpu_type"); err != nil {
		return v, err
	}
	params, _, err := d.optional(dir + "/nvidia/vgpu_params")
	v.Params = strings.TrimSpace(params)
	return v, err
}

// mdevs reads the mediated devices.
func (d *discovery) mdevs() error {
	const bus = "/sys/bus/mdev/devices"
	names, err := d.list(bus)
	if err != nil {
		return err
	}
	for _, uuid := range names {
		m, err := d.mdev(bus, uuid)
		if err != nil {
			d.problem("mediated device "+uuid, err)
			continue
		}
		d.m.MDevs = append(d.m.MDevs, m)
	}
	return nil
}

// mdev reads one mediated device.
func (d *discovery) mdev(bus, uuid string) (MDev, error) {
	m := MDev{UUID: uuid, IOMMUGroup: -1}
	dir, err := Resolve(d.r, bus+"/"+uuid)
	if err != nil {
		return m, fmt.Errorf("follow %s/%s: %w", bus, uuid, err)
	}
	if m.Parent, err = pci.ParseBDF(path.Base(path.Dir(dir))); err != nil {
		return m, inFile(bus+"/"+uuid, err)
	}
	if m.Type, err = d.linkBase(dir + "/mdev_type"); err != nil {
		return m, err
	}
	if m.Driver, err = d.linkBase(dir + "/driver"); err != nil {
		return m, err
	}
	group, err := d.linkBase(dir + "/iommu_group")
	if err != nil || group == "" {
		return m, err
	}
	if m.IOMMUGroup, err = strconv.Atoi(group); err != nil {
		return m, inFile(dir+"/iommu_group", malformed(0, group, "not the number of a group"))
	}
	return m, nil
}

// gpuDrivers are PCI drivers of GPUs and of the functions beside them that may be
// loaded and hold nothing. NVIDIA's own are not among them: they are there when
// the module is.
var gpuDrivers = []string{
	"amdgpu", "ast", "i915", "nouveau", "nvgrace-gpu-vfio-pci", "nvidia-gpu", "radeon", "snd_hda_intel", "vfio-pci", "xe", "xhci_hcd",
}

// IsGPUDriver reports whether a Model names this PCI driver among its Drivers when
// it holds nothing.
func IsGPUDriver(name string) bool { return slices.Contains(gpuDrivers, name) }

// idleDrivers reads which drivers of GPUs are loaded without use, and whether new
// functions get a driver.
func (d *discovery) idleDrivers() error {
	names, err := d.list("/sys/bus/pci/drivers")
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, f := range d.m.Functions() {
		used[f.Driver] = true
	}
	for _, name := range names {
		if IsGPUDriver(name) && !used[name] {
			d.m.Drivers = append(d.m.Drivers, name)
		}
	}
	probe, ok, err := d.integer("/sys/bus/pci/drivers_autoprobe")
	d.problem("probing of PCI drivers", err)
	d.m.NoProbe = ok && probe == 0
	return nil
}

// vgpu reads how the driver makes vGPUs. Its module says that it does; which way
// shows in the class of devices that can have mediated ones.
func (d *discovery) vgpu() error {
	if d.m.Driver == nil || !slices.Contains(d.m.Driver.Modules, "nvidia_vgpu_vfio") {
		return nil
	}
	d.m.Driver.VGPU = VGPUVendor
	if ok, err := Exists(d.r, "/sys/class/mdev_bus"); err != nil {
		return err
	} else if ok {
		d.m.Driver.VGPU = VGPUMDev
	}
	return nil
}
