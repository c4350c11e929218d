// Package partition changes the MIG geometry of a GPU of this machine through
// NVIDIA's management library, and restores it. Programs that use the GPU are the
// caller's concern: the driver refuses to change a part that is in use.
//
// Reference: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
package partition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ErrCannot marks what this GPU, or its driver, does not do. It has then the geometry
// that it had.
var ErrCannot = errors.New("cannot be re-partitioned")

// A part is a GPU instance with its compute instances.
type part struct {
	profile nvml.GpuInstanceProfileInfo
	place   nvml.GpuInstancePlacement // Size zero: wherever the driver puts it
	compute []nvml.ComputeInstanceProfileInfo
}

// A layout is a MIG geometry.
type layout struct {
	on    bool
	parts []part
}

// Change gives the GPU of that NVML index one GPU instance, with one compute instance
// in it, for each of the profiles, named as nvidia-smi does: "1g.5gb". None: MIG mode
// on, and empty; off: MIG mode off. undo gives it back what it had; UUIDs of MIG devices
// are new. After an error everything is as it was, or the error says that it is not.
func Change(lib nvml.Interface, gpu int, profiles []string, off bool) (undo func() error, err error) {
	var before layout
	err = with(lib, gpu, func(d nvml.Device) error {
		if before, err = read(d); err != nil {
			return err
		}
		err := become(d, profiles, off)
		if err == nil {
			return nil
		}
		if back := restored(before.apply(d)); back != nil {
			return fmt.Errorf("%v; %w", err, hide(back)) // not ErrCannot: it is not as it was
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", gpu, err)
	}
	return func() error { return with(lib, gpu, func(d nvml.Device) error { return restored(before.apply(d)) }) }, nil
}

func restored(err error) error {
	if err != nil {
		return fmt.Errorf("its MIG geometry could not be restored: %w", err)
	}
	return nil
}

// hide keeps an error's text alone.
func hide(err error) error { return errors.New(err.Error()) }

func with(lib nvml.Interface, gpu int, do func(nvml.Device) error) error {
	if r := lib.Init(); r != nvml.SUCCESS {
		return failed("Init", r)
	}
	defer lib.Shutdown()
	d, r := lib.DeviceGetHandleByIndex(gpu)
	if r != nvml.SUCCESS {
		return failed("DeviceGetHandleByIndex", r)
	}
	return do(d)
}

func failed(call string, r nvml.Return) error {
	err := fmt.Errorf("%s: %s", call, nvml.ErrorString(r))
	switch r {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_IN_USE, nvml.ERROR_INSUFFICIENT_RESOURCES, nvml.ERROR_RESET_REQUIRED, nvml.ERROR_INVALID_ARGUMENT:
		return fmt.Errorf("%w: %w", ErrCannot, err)
	}
	return err
}

// read returns the geometry as it is.
func read(d nvml.Device) (layout, error) {
	mode, _, r := d.GetMigMode()
	if r != nvml.SUCCESS {
		return layout{}, failed("GetMigMode", r)
	}
	l := layout{on: mode == nvml.DEVICE_MIG_ENABLE}
	if !l.on {
		return l, nil
	}
	err := each(d, func(p nvml.GpuInstanceProfileInfo, gi nvml.GpuInstance) error {
		info, r := gi.GetInfo()
		if r != nvml.SUCCESS {
			return failed("GpuInstanceGetInfo", r)
		}
		one := part{profile: p, place: info.Placement}
		err := eachCompute(gi, func(c nvml.ComputeInstanceProfileInfo, _ nvml.ComputeInstance) error {
			one.compute = append(one.compute, c)
			return nil
		})
		l.parts = append(l.parts, one)
		return err
	})
	return l, err
}

// each calls do for every GPU instance and its profile.
func each(d nvml.Device, do func(nvml.GpuInstanceProfileInfo, nvml.GpuInstance) error) error {
	for i := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		p, r := d.GetGpuInstanceProfileInfo(i)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if r != nvml.SUCCESS {
			return failed("GetGpuInstanceProfileInfo", r)
		}
		all, r := d.GetGpuInstances(&p)
		if r != nvml.SUCCESS {
			return failed("GetGpuInstances", r)
		}
		for _, gi := range all {
			if err := do(p, gi); err != nil {
				return err
			}
		}
	}
	return nil
}

func eachCompute(gi nvml.GpuInstance, do func(nvml.ComputeInstanceProfileInfo, nvml.ComputeInstance) error) error {
	for i := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		p, r := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if r != nvml.SUCCESS {
			return failed("GetComputeInstanceProfileInfo", r)
		}
		all, r := gi.GetComputeInstances(&p)
		if r != nvml.SUCCESS {
			return failed("GetComputeInstances", r)
		}
		for _, ci := range all {
			if err := do(p, ci); err != nil {
				return err
			}
		}
	}
	return nil
}

// become makes the geometry that is asked for.
func become(d nvml.Device, profiles []string, off bool) error {
	want := layout{on: !off}
	if err := want.apply(d); err != nil || off {
		return err
	}
	for _, name := range profiles {
		p, err := profile(d, name)
		if err != nil {
			return err
		}
		if err := (part{profile: p}).make(d); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// profile finds one by nvidia-smi's name for it.
func profile(d nvml.Device, name string) (nvml.GpuInstanceProfileInfo, error) {
	var known []string
	for i := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		named, r := d.GetGpuInstanceProfileInfoV(i).V2()
		if r != nvml.SUCCESS {
			continue
		}
		text := strings.TrimPrefix(textOf(named.Name[:]), "MIG ")
		if known = append(known, text); text != name {
			continue
		}
		p, r := d.GetGpuInstanceProfileInfo(i)
		if r != nvml.SUCCESS {
			return p, failed("GetGpuInstanceProfileInfo", r)
		}
		return p, nil
	}
	return nvml.GpuInstanceProfileInfo{}, fmt.Errorf("%w: no profile %s; it has %s", ErrCannot, name, strings.Join(known, ", "))
}

func textOf(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// apply takes every instance away and makes those of l.
func (l layout) apply(d nvml.Device) error {
	now, err := read(d)
	if err != nil {
		return err
	}
	if now.on {
		if err := clear(d); err != nil {
			return err
		}
	}
	if now.on != l.on {
		mode := nvml.DEVICE_MIG_DISABLE
		if l.on {
			mode = nvml.DEVICE_MIG_ENABLE
		}
		status, r := d.SetMigMode(mode)
		if r != nvml.SUCCESS {
			return failed("SetMigMode", r)
		}
		if status != nvml.SUCCESS {
			return failed("SetMigMode: the mode waits for a reset", status)
		}
	}
	for _, p := range l.parts {
		if err := p.make(d); err != nil {
			return err
		}
	}
	return nil
}

func clear(d nvml.Device) error {
	return each(d, func(_ nvml.GpuInstanceProfileInfo, gi nvml.GpuInstance) error {
		err := eachCompute(gi, func(_ nvml.ComputeInstanceProfileInfo, ci nvml.ComputeInstance) error {
			if r := ci.Destroy(); r != nvml.SUCCESS {
				return failed("ComputeInstanceDestroy", r)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if r := gi.Destroy(); r != nvml.SUCCESS {
			return failed("GpuInstanceDestroy", r)
		}
		return nil
	})
}

// make makes one GPU instance. Without compute instances of its own it gets the one
// that fills it.
func (p part) make(d nvml.Device) error {
	var gi nvml.GpuInstance
	var r nvml.Return
	compute := p.compute
	if p.place.Size > 0 {
		gi, r = d.CreateGpuInstanceWithPlacement(&p.profile, &p.place)
	} else {
		gi, r = d.CreateGpuInstance(&p.profile)
	}
	if r != nvml.SUCCESS {
		return failed("CreateGpuInstance", r)
	}
	if p.place.Size == 0 {
		full, err := filling(gi, p.profile.SliceCount)
		if err != nil {
			return err
		}
		compute = []nvml.ComputeInstanceProfileInfo{full}
	}
	for _, c := range compute {
		if _, r := gi.CreateComputeInstance(&c); r != nvml.SUCCESS {
			return failed("CreateComputeInstance", r)
		}
	}
	return nil
}

// filling finds the profile of the compute instance that has all slices.
func filling(gi nvml.GpuInstance, slices uint32) (nvml.ComputeInstanceProfileInfo, error) {
	for i := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		p, r := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if r == nvml.SUCCESS && p.SliceCount == slices {
			return p, nil
		}
	}
	return nvml.ComputeInstanceProfileInfo{}, fmt.Errorf("%w: no compute instance has all its %d slices", ErrCannot, slices)
}
