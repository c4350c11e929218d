package workload

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"gpurig/runner/smoke"
)

var nvmlCalls = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID",
}

// migCalls came with MIG, in driver 450.
var migCalls = []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"}

// listing asks NVML for its devices, and for the driver's version. A machine without
// NVML, as an older Jetson, is no failure.
func listing(r *smoke.Result) *smoke.Listing {
	l, err := open(nvmlName)
	if err == nil {
		err = l.has(nvmlCalls...)
	}
	if err != nil {
		return &smoke.Listing{Problem: err.Error()}
	}
	if code := l.call("nvmlInit_v2"); code != 0 {
		return &smoke.Listing{Problem: fmt.Sprintf("nvmlInit_v2: %d", code)}
	}
	defer l.call("nvmlShutdown")
	version := make([]byte, 80)
	if l.call("nvmlSystemGetDriverVersion", at(&version[0]), 80) == 0 {
		r.Driver = text(version)
	}
	count := new(uint32)
	if code := l.call("nvmlDeviceGetCount_v2", at(count)); code != 0 {
		return &smoke.Listing{Problem: fmt.Sprintf("nvmlDeviceGetCount_v2: %d", code)}
	}
	out := &smoke.Listing{}
	for i := range *count {
		handle := new(uintptr)
		// A GPU that this container may not use is counted, and has no handle.
		if l.call("nvmlDeviceGetHandleByIndex_v2", int(i), at(handle)) != 0 || !usable(l, *handle) {
			continue
		}
		out.UUIDs = append(out.UUIDs, l.uuids(*handle)...)
	}
	return out
}

// usable reports whether a GPU's own node may be opened: NVML may name others too.
// An integrated GPU has no such node.
func usable(l *library, handle uintptr) bool {
	minor := new(uint32)
	if l.has("nvmlDeviceGetMinorNumber") != nil || l.call("nvmlDeviceGetMinorNumber", handle, at(minor)) != 0 {
		return true
	}
	return openNode(fmt.Sprintf("/dev/nvidia%d", *minor)) == smoke.Allowed
}

// uuids are a GPU's own, or those of its MIG devices. In MIG mode without any that
// may be used, it is "MIG mode of" and its own.
func (l *library) uuids(handle uintptr) []string {
	own := l.uuid(handle)
	now, pending := new(uint32), new(uint32)
	if l.has(migCalls...) != nil || l.call("nvmlDeviceGetMigMode", handle, at(now), at(pending)) != 0 || *now == 0 {
		return []string{own}
	}
	most := new(uint32)
	l.call("nvmlDeviceGetMaxMigDeviceCount", handle, at(most))
	var out []string
	for i := range *most {
		mig := new(uintptr)
		if l.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, int(i), at(mig)) == 0 {
			out = append(out, l.uuid(*mig))
		}
	}
	if len(out) == 0 {
		return []string{smoke.MIGMode + own}
	}
	return out
}

func (l *library) uuid(handle uintptr) string {
	buffer := make([]byte, 96)
	if code := l.call("nvmlDeviceGetUUID", handle, at(&buffer[0]), len(buffer)); code != 0 {
		return fmt.Sprintf("nvmlDeviceGetUUID: %d", code)
	}
	return text(buffer)
}

// compare holds NVML's devices against CUDA's. Each that CUDA sees, NVML names. The
// other way round, CUDA_VISIBLE_DEVICES may hide some, and a process that gets a MIG
// device gets that one and no other device
// (https://docs.nvidia.com/datacenter/tesla/mig-user-guide, "CUDA visible devices").
func compare(r smoke.Result) *smoke.Failure {
	if r.NVML.Problem != "" {
		return nil
	}
	var wrong []string
	mig := false
	for _, d := range r.Devices {
		mig = mig || d.MIG
		if !slices.ContainsFunc(r.NVML.UUIDs, func(id string) bool { return same(id, d.UUID) }) {
			wrong = append(wrong, d.UUID+" is listed only by CUDA")
		}
	}
	if mig && len(r.Devices) != 1 {
		wrong = append(wrong, fmt.Sprintf("a MIG device is one of %d devices", len(r.Devices)))
	}
	_, chosen := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	for _, id := range r.NVML.UUIDs {
		seen := slices.ContainsFunc(r.Devices, func(d smoke.Device) bool { return same(id, d.UUID) })
		if !seen && !chosen && !mig && smoke.IsFull(id) {
			wrong = append(wrong, id+" is listed only by NVML")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &smoke.Failure{Step: smoke.NVML, Cause: smoke.NVMLDiffers, Reason: strings.Join(wrong, "; ")}
}

// same compares UUIDs. NVML writes a Tegra's without a prefix.
func same(a, b string) bool {
	const digits = 36
	if len(a) == digits || len(b) == digits {
		return a[max(0, len(a)-digits):] == b[max(0, len(b)-digits):]
	}
	return a == b
}
