package nvmllib_test

import (
	"context"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/driverctl/driverctltest"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
)

// A liveHost changes as it is asked to, and keeps the library's state file up to
// date.
type liveHost struct {
	t     testing.TB
	file  string
	mu    sync.Mutex
	state driverctl.State
	on    driverctl.Conditions
}

func (l *liveHost) Control(_ context.Context, c driverctl.Command, from driverctl.Caller) driverctl.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	on := l.on
	on.Caller.PID = from.PID
	next, r := driverctl.Apply(l.state, c, on)
	l.state = next
	replace(l.t, l.file, nvmllib.StateWith(next.Model, next.NVML(nvmlfake.Options{})))
	return r
}

// alive makes a live host and lets the library and its channel find it.
func alive(t testing.TB, m host.Model) *liveHost {
	t.Helper()
	h := &liveHost{t: t, state: driverctl.State{Model: m}, file: onHost(t, nvmllib.State(m))}
	t.Setenv(driverctl.Env, driverctltest.Serve(t, h))
	return h
}

// must ends the test on any code but SUCCESS.
func must(t testing.TB, what string, r nvml.Return) {
	t.Helper()
	if r != nvml.SUCCESS {
		t.Fatalf("%s = %d", what, r)
	}
}

// The walk of the MIG guide, through go-nvml: the mode, two instances, their
// compute instances, and all of it back. Each call finds the one before done.
func TestAProgramPartitionsAGPU(t *testing.T) {
	lib := nvml.New(nvml.WithLibraryPath(library(t)))
	h := alive(t, profile(t, "dgx-a100"))
	must(t, "Init", lib.Init())
	defer lib.Shutdown()
	gpu, r := lib.DeviceGetHandleByIndex(2)
	must(t, "DeviceGetHandleByIndex", r)
	if _, r := gpu.CreateGpuInstance(&nvml.GpuInstanceProfileInfo{Id: 9}); r != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("an instance without the mode: %d", r)
	}
	status, r := gpu.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	must(t, "SetMigMode", r)
	if now, pending, r := gpu.GetMigMode(); status != nvml.SUCCESS || now != 1 || pending != 1 || r != nvml.SUCCESS {
		t.Errorf("the mode is %d, %d (status %d, %d)", now, pending, status, r)
	}
	p, r := gpu.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_3_SLICE)
	must(t, "GetGpuInstanceProfileInfo", r)
	first, r := gpu.CreateGpuInstance(&p)
	must(t, "CreateGpuInstance", r)
	if n, r := gpu.GetGpuInstanceRemainingCapacity(&p); n != 1 || r != nvml.SUCCESS {
		t.Errorf("room for %d more, %d", n, r)
	}
	second, r := gpu.CreateGpuInstanceWithPlacement(&p, &nvml.GpuInstancePlacement{Start: 0, Size: 4})
	must(t, "CreateGpuInstanceWithPlacement", r)
	for i, want := range []nvml.GpuInstancePlacement{{Start: 4, Size: 4}, {Start: 0, Size: 4}} {
		if info, r := []nvml.GpuInstance{first, second}[i].GetInfo(); r != nvml.SUCCESS || info.Placement != want || info.ProfileId != 9 {
			t.Errorf("instance %d is %+v, %d", i, info, r)
		}
	}
	if _, r := gpu.CreateGpuInstance(&p); r != nvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("a third: %d", r)
	}
	whole, r := first.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	must(t, "GetComputeInstanceProfileInfo", r)
	ci, r := first.CreateComputeInstance(&whole)
	must(t, "CreateComputeInstance", r)
	if _, r := first.CreateComputeInstance(&whole); r != nvml.ERROR_INSUFFICIENT_RESOURCES {
		t.Errorf("a second compute instance that has all: %d", r)
	}
	mig, r := gpu.GetMigDeviceHandleByIndex(0)
	must(t, "GetMigDeviceHandleByIndex", r)
	if a, r := mig.GetAttributes(); r != nvml.SUCCESS || a.MultiprocessorCount != 42 || a.SharedCopyEngineCount != 3 || a.SharedDecoderCount != 2 {
		t.Errorf("its share is %+v, %d", a, r)
	}
	if len(h.state.Model.NVIDIAGPUs()[2].MIG.Instances) != 2 {
		t.Errorf("the host has %+v", h.state.Model.NVIDIAGPUs()[2].MIG)
	}
	if r := first.Destroy(); r != nvml.ERROR_IN_USE {
		t.Errorf("an instance with a compute instance: %d", r)
	}
	must(t, "ComputeInstance.Destroy", ci.Destroy())
	if _, r := mig.GetUUID(); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("the MIG device after it: %d", r)
	}
	must(t, "GpuInstance.Destroy", first.Destroy())
	must(t, "GpuInstance.Destroy", second.Destroy())
	if r := second.Destroy(); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("an instance that is gone: %d", r)
	}
	if _, r := gpu.SetMigMode(nvml.DEVICE_MIG_DISABLE); r != nvml.SUCCESS {
		t.Errorf("SetMigMode(0) = %d", r)
	}
}

// A mode that waits for a reset says why; users who are not root change nothing.
func TestARefusalReachesTheCaller(t *testing.T) {
	lib := nvml.New(nvml.WithLibraryPath(library(t)))
	h := alive(t, profile(t, "dgx-a100"))
	must(t, "Init", lib.Init())
	defer lib.Shutdown()
	gpu, _ := lib.DeviceGetHandleByIndex(0)
	h.on.InUse = func(node string) bool { return node == "/dev/nvidia0" }
	status, r := gpu.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	if now, pending, _ := gpu.GetMigMode(); r != nvml.SUCCESS || status != nvml.ERROR_IN_USE || now != 0 || pending != 1 {
		t.Errorf("SetMigMode(1) in use = %d, %d, then %d, %d", status, r, now, pending)
	}
	h.on.Caller = driverctl.Caller{UID: 1000, GID: 1000}
	if _, r := gpu.SetMigMode(nvml.DEVICE_MIG_DISABLE); r != nvml.ERROR_NO_PERMISSION {
		t.Errorf("SetMigMode(0) by a user = %d", r)
	}
	if r := gpu.SetPersistenceMode(nvml.FEATURE_DISABLED); r != nvml.ERROR_NO_PERMISSION {
		t.Errorf("SetPersistenceMode(0) by a user = %d", r)
	}
	h.on.Caller = driverctl.Caller{}
	must(t, "SetPersistenceMode", gpu.SetPersistenceMode(nvml.FEATURE_DISABLED))
	other, _ := lib.DeviceGetHandleByIndex(1)
	if mode, _ := gpu.GetPersistenceMode(); mode != nvml.FEATURE_DISABLED {
		t.Errorf("the persistence mode is %d", mode)
	}
	if mode, _ := other.GetPersistenceMode(); mode != nvml.FEATURE_ENABLED {
		t.Errorf("that of another GPU is %d", mode)
	}
}

// Two programs, here two threads of one, never get the same part.
func TestTwoAtOnceGetTwoParts(t *testing.T) {
	lib := nvml.New(nvml.WithLibraryPath(library(t)))
	h := alive(t, profile(t, "a100-mig-empty"))
	must(t, "Init", lib.Init())
	defer lib.Shutdown()
	gpu, _ := lib.DeviceGetHandleByIndex(0)
	p, r := gpu.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	must(t, "GetGpuInstanceProfileInfo", r)
	var all sync.WaitGroup
	ids := make(chan uint32, 16)
	for range 2 {
		all.Go(func() {
			for range 4 {
				if gi, r := gpu.CreateGpuInstance(&p); r == nvml.SUCCESS {
					info, _ := gi.GetInfo()
					ids <- info.Id
				} else if r != nvml.ERROR_INSUFFICIENT_RESOURCES {
					t.Errorf("CreateGpuInstance() = %d", r)
				}
			}
		})
	}
	all.Wait()
	close(ids)
	seen := map[uint32]bool{}
	for id := range ids {
		if seen[id] {
			t.Errorf("instance %d twice", id)
		}
		seen[id] = true
	}
	if len(seen) != 7 || len(h.state.Model.NVIDIAGPUs()[0].MIG.Instances) != 7 {
		t.Errorf("%d instances, the host has %d", len(seen), len(h.state.Model.NVIDIAGPUs()[0].MIG.Instances))
	}
}
