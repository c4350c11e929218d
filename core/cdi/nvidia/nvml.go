package nvidia

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// NVML adapts the management library to what host.Discover asks. Each call
// starts the library and shuts it down again. Errors are *Error or wrap one.
func NVML(lib nvml.Interface) host.NVML { return adapter{lib} }

type adapter struct{ lib nvml.Interface }

// CUDAVersion is part of host.NVML.
func (a adapter) CUDAVersion() (string, error) {
	if r := a.lib.Init(); r != nvml.SUCCESS {
		return "", &Error{Call: "Init", Return: r}
	}
	defer a.lib.Shutdown()
	v, r := a.lib.SystemGetCudaDriverVersion()
	if r != nvml.SUCCESS {
		return "", &Error{Call: "SystemGetCudaDriverVersion", Return: r}
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), nil
}

// Devices is part of host.NVML. What a GPU does not support is left at its
// "not known"; any other error is that GPU's, and the listing's if no GPU answers.
func (a adapter) Devices() ([]host.NVMLDevice, error) {
	if r := a.lib.Init(); r != nvml.SUCCESS {
		return nil, &Error{Call: "Init", Return: r}
	}
	defer a.lib.Shutdown()
	n, r := a.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, &Error{Call: "DeviceGetCount", Return: r}
	}
	devices := device.New(a.lib)
	var out []host.NVMLDevice
	var errs []error
	for i := range n {
		read, err := a.device(devices, i)
		if err != nil {
			err = fmt.Errorf("GPU %d: %w", i, err)
			errs = append(errs, err)
			read = host.NVMLDevice{Index: i, Minor: -1, Err: err}
		}
		out = append(out, read)
	}
	if n > 0 && len(errs) == n {
		return nil, errs[0]
	}
	return out, nil
}

func (a adapter) device(devices device.Interface, index int) (host.NVMLDevice, error) {
	d, r := a.lib.DeviceGetHandleByIndex(index)
	if r != nvml.SUCCESS {
		return host.NVMLDevice{}, &Error{Call: "DeviceGetHandleByIndex", Return: r}
	}
	return readDevice(devices, index, d)
}

// A reader asks one question after the other and keeps the first error.
type reader struct{ err error }

// get returns the answer, or none where the device does not support the question.
func get[T any](r *reader, call string, none T, ask func() (T, nvml.Return)) T {
	if r.err != nil {
		return none
	}
	switch v, ret := ask(); ret {
	case nvml.SUCCESS:
		return v
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
		return none
	default:
		r.err = &Error{Call: call, Return: ret}
		return none
	}
}

func readDevice(lib device.Interface, index int, d nvml.Device) (host.NVMLDevice, error) {
	var r reader
	out := host.NVMLDevice{
		Index:     index,
		Minor:     get(&r, "DeviceGetMinorNumber", -1, d.GetMinorNumber),
		UUID:      get(&r, "DeviceGetUUID", "", d.GetUUID),
		Name:      get(&r, "DeviceGetName", "", d.GetName),
		MemoryMiB: get(&r, "DeviceGetMemoryInfo", nvml.Memory{}, d.GetMemoryInfo).Total >> 20,
		VBIOS:     get(&r, "DeviceGetVbiosVersion", "", d.GetVbiosVersion),
	}
	out.ComputeCap = get(&r, "DeviceGetCudaComputeCapability", "", func() (string, nvml.Return) {
		major, minor, ret := d.GetCudaComputeCapability()
		return fmt.Sprintf("%d.%d", major, minor), ret
	})
	bus := get(&r, "DeviceGetPciInfo", nvml.PciInfo{}, d.GetPciInfo).BusId
	on := get(&r, "DeviceGetMigMode", nvml.DEVICE_MIG_DISABLE, func() (int, nvml.Return) {
		current, _, ret := d.GetMigMode()
		return current, ret
	})
	if r.err != nil {
		return host.NVMLDevice{}, r.err
	}
	if text := cString(bus[:]); text != "" {
		bdf, err := pci.ParseBDF(text)
		if err != nil {
			return host.NVMLDevice{}, fmt.Errorf("bus id: %w", err)
		}
		out.PCI = &bdf
	}
	if on == nvml.DEVICE_MIG_ENABLE {
		mig, err := readMIG(lib, d)
		if err != nil {
			return host.NVMLDevice{}, err
		}
		out.MIG = mig
	}
	return out, nil
}

// cString reads a C character array up to its NUL.
func cString(a []int8) string {
	var b []byte
	for _, c := range a {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// readMIG lists the GPU instances, with and without MIG devices in them, in the
// order of their MIG devices; those without come last, by id.
func readMIG(lib device.Interface, d nvml.Device) (*host.MIG, error) {
	total, r := d.GetMemoryInfo()
	if r != nvml.SUCCESS {
		return nil, &Error{Call: "DeviceGetMemoryInfo", Return: r}
	}
	mig := &host.MIG{}
	for p := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, r := d.GetGpuInstanceProfileInfo(p)
		switch r {
		case nvml.SUCCESS:
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT:
			continue // the GPU has no such profile
		default:
			return nil, &Error{Call: "DeviceGetGpuInstanceProfileInfo", Return: r}
		}
		instances, r := d.GetGpuInstances(&info)
		if r != nvml.SUCCESS {
			return nil, &Error{Call: "DeviceGetGpuInstances", Return: r}
		}
		for _, gi := range instances {
			name, err := lib.NewMigProfile(p, ciProfileOf(info.SliceCount), nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, info.MemorySizeMB, total.Total)
			if err != nil {
				return nil, fmt.Errorf("GPU instance profile %d: %w", info.Id, err)
			}
			read, err := readInstance(gi)
			if err != nil {
				return nil, err
			}
			read.Profile, read.MemoryMiB = name.String(), info.MemorySizeMB
			mig.Instances = append(mig.Instances, read)
		}
	}
	if err := readMIGDevices(lib, d, mig); err != nil {
		return nil, err
	}
	slices.SortFunc(mig.Instances, func(a, b host.GPUInstance) int {
		return cmp.Or(cmp.Compare(firstIndex(a), firstIndex(b)), cmp.Compare(a.ID, b.ID))
	})
	return mig, nil
}

// firstIndex returns the lowest MIG device index in gi.
func firstIndex(gi host.GPUInstance) int {
	if len(gi.Compute) == 0 {
		return int(^uint(0) >> 1)
	}
	return gi.Compute[0].Index
}

// ciProfileOf returns the compute instance profile that fills a GPU instance of
// so many slices.
func ciProfileOf(slices uint32) int {
	switch slices {
	case 7:
		return nvml.COMPUTE_INSTANCE_PROFILE_7_SLICE
	case 8:
		return nvml.COMPUTE_INSTANCE_PROFILE_8_SLICE
	case 6:
		return nvml.COMPUTE_INSTANCE_PROFILE_6_SLICE
	}
	return int(slices) - 1
}

func readInstance(gi nvml.GpuInstance) (host.GPUInstance, error) {
	info, r := gi.GetInfo()
	if r != nvml.SUCCESS {
		return host.GPUInstance{}, &Error{Call: "GpuInstanceGetInfo", Return: r}
	}
	return host.GPUInstance{
		ID: int(info.Id), ProfileID: int(info.ProfileId),
		Start: int(info.Placement.Start), Size: int(info.Placement.Size),
	}, nil
}

// readMIGDevices adds every MIG device to its instance, in the order of index.
func readMIGDevices(lib device.Interface, d nvml.Device, mig *host.MIG) error {
	n, r := d.GetMaxMigDeviceCount()
	if r != nvml.SUCCESS {
		return &Error{Call: "DeviceGetMaxMigDeviceCount", Return: r}
	}
	for index := range n {
		handle, r := d.GetMigDeviceHandleByIndex(index)
		switch r {
		case nvml.SUCCESS:
		case nvml.ERROR_NOT_FOUND, nvml.ERROR_INVALID_ARGUMENT:
			continue // no MIG device of this index
		default:
			return &Error{Call: "DeviceGetMigDeviceHandleByIndex", Return: r}
		}
		gi, ci, err := readMIGDevice(lib, handle)
		if err != nil {
			return fmt.Errorf("MIG device %d: %w", index, err)
		}
		ci.Index = index
		at := slices.IndexFunc(mig.Instances, func(i host.GPUInstance) bool { return i.ID == gi })
		if at < 0 {
			return fmt.Errorf("MIG device %d: its GPU instance %d is not listed", index, gi)
		}
		mig.Instances[at].Compute = append(mig.Instances[at].Compute, ci)
	}
	return nil
}

func readMIGDevice(lib device.Interface, handle nvml.Device) (gi int, ci host.ComputeInstance, err error) {
	gi, r := handle.GetGpuInstanceId()
	if r != nvml.SUCCESS {
		return 0, ci, &Error{Call: "DeviceGetGpuInstanceId", Return: r}
	}
	if ci.ID, r = handle.GetComputeInstanceId(); r != nvml.SUCCESS {
		return 0, ci, &Error{Call: "DeviceGetComputeInstanceId", Return: r}
	}
	if ci.UUID, r = handle.GetUUID(); r != nvml.SUCCESS {
		return 0, ci, &Error{Call: "DeviceGetUUID", Return: r}
	}
	m, err := lib.NewMigDevice(handle)
	if err != nil {
		return 0, ci, err
	}
	profile, err := m.GetProfile()
	if err != nil {
		return 0, ci, err
	}
	ci.Profile = profile.String()
	return gi, ci, nil
}
