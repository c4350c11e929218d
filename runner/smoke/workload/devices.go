package workload

import (
	"fmt"

	"gpurig/runner/smoke"
)

// Attributes of cuDeviceGetAttribute.
const (
	smCount      = 16
	computeMajor = 75
	computeMinor = 76
)

// devices fills in the driver's version and what each device says of itself.
func (l *library) devices(r *smoke.Result) *smoke.Failure {
	n := new(int32)
	if code := l.call("cuDriverGetVersion", at(n)); code != 0 {
		return l.failed(smoke.Devices, "cuDriverGetVersion", code)
	}
	r.CUDA = fmt.Sprintf("%d.%d", *n/1000, *n%1000/10)
	if code := l.call("cuDeviceGetCount", at(n)); code != 0 {
		return l.failed(smoke.Devices, "cuDeviceGetCount", code)
	}
	if *n < 1 {
		return &smoke.Failure{Step: smoke.Devices, Cause: smoke.NoDevice, Reason: "cuDeviceGetCount: no device"}
	}
	for i := range int(*n) {
		d, failure := l.device(i)
		if failure != nil {
			return failure
		}
		r.Devices = append(r.Devices, d)
	}
	return nil
}

func (l *library) device(i int) (smoke.Device, *smoke.Failure) {
	var failure *smoke.Failure
	dev := new(int32)
	ask := func(call string, args ...any) {
		if failure == nil {
			if code := l.call(call, args...); code != 0 {
				failure = l.failed(smoke.Devices, fmt.Sprintf("%s of device %d", call, i), code)
			}
		}
	}
	ask("cuDeviceGet", at(dev), i)
	name, bus := make([]byte, 256), make([]byte, 32)
	ask("cuDeviceGetName", at(&name[0]), 256, *dev)
	ask("cuDeviceGetPCIBusId", at(&bus[0]), 32, *dev)
	memory, id := new(uint64), new([16]byte)
	ask("cuDeviceTotalMem_v2", at(memory), *dev)
	ask("cuDeviceGetUuid", at(id), *dev)
	major, minor, sms := new(int32), new(int32), new(int32)
	ask("cuDeviceGetAttribute", at(major), computeMajor, *dev)
	ask("cuDeviceGetAttribute", at(minor), computeMinor, *dev)
	ask("cuDeviceGetAttribute", at(sms), smCount, *dev)
	d := smoke.Device{Name: text(name), BusID: text(bus), Memory: *memory, UUID: uuid("GPU-", *id), SMs: int(*sms), Compute: fmt.Sprintf("%d.%d", *major, *minor)}
	// The older call names the GPU, the newer the MIG device on it. A driver before
	// CUDA 11.4 has the older alone.
	if failure == nil && l.has("cuDeviceGetUuid_v2") == nil {
		own := new([16]byte)
		ask("cuDeviceGetUuid_v2", at(own), *dev)
		if *own != *id {
			d.MIG, d.Parent, d.UUID = true, d.UUID, uuid("MIG-", *own)
		}
	}
	return d, failure
}

func uuid(prefix string, b [16]byte) string {
	return fmt.Sprintf("%s%x-%x-%x-%x-%x", prefix, b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
