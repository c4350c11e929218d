package nvmllib_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A caller is one call with arguments that are no numbers.
type caller[T any] struct {
	name string
	do   func(on T) []reflect.Value
}

func values(v ...any) []reflect.Value {
	var out []reflect.Value
	for _, x := range v {
		out = append(out, reflect.ValueOf(x))
	}
	return out
}

// device keeps the static type of a handle, which may be nil.
func device(d nvml.Device, r nvml.Return) []reflect.Value {
	return []reflect.Value{reflect.ValueOf(&d).Elem(), reflect.ValueOf(r)}
}

// lookups are searches for what the host has, in every spelling, and for what it
// does not have.
func lookups(t *testing.T, lib nvml.Interface) []caller[nvml.Interface] {
	var out []caller[nvml.Interface]
	uuid := func(s string) {
		out = append(out, caller[nvml.Interface]{"DeviceGetHandleByUUID(" + s + ")", func(l nvml.Interface) []reflect.Value {
			return device(l.DeviceGetHandleByUUID(s))
		}})
		out = append(out, caller[nvml.Interface]{"DeviceGetHandleByUUIDV(" + s + ")", func(l nvml.Interface) []reflect.Value {
			id := nvml.UUID{Type: uint32(nvml.UUID_TYPE_ASCII)}
			copy(id.Value[:], s)
			return device(l.DeviceGetHandleByUUIDV(&id))
		}})
	}
	serial := func(s string) {
		out = append(out, caller[nvml.Interface]{"DeviceGetHandleBySerial(" + s + ")", func(l nvml.Interface) []reflect.Value {
			return device(l.DeviceGetHandleBySerial(s))
		}})
	}
	bus := func(s string) {
		out = append(out, caller[nvml.Interface]{"DeviceGetHandleByPciBusId(" + s + ")", func(l nvml.Interface) []reflect.Value {
			return device(l.DeviceGetHandleByPciBusId(s))
		}})
	}
	uuid("GPU-ffffffff-0000-0000-0000-000000000000")
	serial("")
	serial("1")
	for _, s := range []string{"", ":", "0000:zz:00.0", "0000:ff:1f.0", "0000:ff:20.0", "0000:07:00", "0000:07:00.0.0", "000:07:00.0", "123456789:07:00.0", "7:0.0"} {
		bus(s)
	}
	n, r := lib.DeviceGetCount()
	for i := range n {
		d, r := lib.DeviceGetHandleByIndex(i)
		if r == nvml.ERROR_GPU_IS_LOST {
			continue
		}
		if r != nvml.SUCCESS {
			t.Fatalf("DeviceGetHandleByIndex(%d) = %d", i, r)
		}
		if s, r := d.GetUUID(); r == nvml.SUCCESS {
			uuid(s)
			uuid(strings.ToUpper(s))
			uuid(s[:len(s)-1])
		}
		if s, r := d.GetSerial(); r == nvml.SUCCESS {
			serial(s)
		}
		if p, r := d.GetPciInfo(); r == nvml.SUCCESS {
			id := cString(p.BusId[:])
			for _, s := range []string{id, strings.ToLower(id), id[4:], id[9:], id[:len(id)-1] + "1", " " + id} {
				bus(s)
			}
		}
		for j := range 8 {
			if m, r := d.GetMigDeviceHandleByIndex(j); r == nvml.SUCCESS {
				s, _ := m.GetUUID()
				uuid(s)
			}
		}
	}
	if r != nvml.SUCCESS {
		t.Fatalf("DeviceGetCount() = %d", r)
	}
	return append(out, pairs(min(n, 4))...)
}

// pairs are the calls about two of the first n GPUs.
func pairs(n int) []caller[nvml.Interface] {
	var out []caller[nvml.Interface]
	for i := range n {
		for j := range n {
			about := func(name string, do func(a, b nvml.Device) (int32, nvml.Return)) {
				out = append(out, caller[nvml.Interface]{fmt.Sprintf("%s of %d and %d", name, i, j), func(l nvml.Interface) []reflect.Value {
					a, r := l.DeviceGetHandleByIndex(i)
					b, r2 := l.DeviceGetHandleByIndex(j)
					if r != nvml.SUCCESS || r2 != nvml.SUCCESS {
						return values(int32(0), max(r, r2))
					}
					v, r := do(a, b)
					return values(v, r)
				}})
			}
			about("DeviceGetTopologyCommonAncestor", func(a, b nvml.Device) (int32, nvml.Return) {
				v, r := a.GetTopologyCommonAncestor(b)
				return int32(v), r
			})
			for kind := range nvml.P2P_CAPS_INDEX_UNKNOWN + 1 {
				about(fmt.Sprintf("DeviceGetP2PStatus %d", kind), func(a, b nvml.Device) (int32, nvml.Return) {
					v, r := a.GetP2PStatus(b, kind)
					return int32(v), r
				})
			}
		}
	}
	return out
}

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

// ofHandle are calls on a handle that take a structure from an earlier call.
func ofHandle(on any) []caller[any] {
	var out []caller[any]
	add := func(name string, do func(on any) []reflect.Value) { out = append(out, caller[any]{name, do}) }
	switch h := on.(type) {
	case nvml.GpuInstance: // before Device: the stubs of both have few names in common
		for n := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
			p, r := h.GetComputeInstanceProfileInfo(n, 0)
			if r != nvml.SUCCESS {
				continue
			}
			add("GetComputeInstances", func(on any) []reflect.Value {
				v, r := on.(nvml.GpuInstance).GetComputeInstances(&p)
				return values(v, r)
			})
		}
	case nvml.Device:
		for scope := range uint32(3) {
			add(fmt.Sprintf("GetFieldValues of scope %d", scope), func(on any) []reflect.Value {
				fields := make([]nvml.FieldValue, nvml.FI_MAX+2)
				for i := range fields {
					fields[i] = nvml.FieldValue{FieldId: uint32(i), ScopeId: scope}
				}
				r := on.(nvml.Device).GetFieldValues(fields)
				return values(fields, r)
			})
		}
		for n := range nvml.GPU_INSTANCE_PROFILE_COUNT {
			p, r := h.GetGpuInstanceProfileInfo(n)
			if r != nvml.SUCCESS {
				continue
			}
			add("GetGpuInstances", func(on any) []reflect.Value {
				v, r := on.(nvml.Device).GetGpuInstances(&p)
				return values(v, r)
			})
			add("GetGpuInstancePossiblePlacements", func(on any) []reflect.Value {
				v, r := on.(nvml.Device).GetGpuInstancePossiblePlacements(&p)
				return values(v, r)
			})
			add("GetGpuInstanceRemainingCapacity", func(on any) []reflect.Value {
				v, r := on.(nvml.Device).GetGpuInstanceRemainingCapacity(&p)
				return values(v, r)
			})
		}
	}
	return out
}
