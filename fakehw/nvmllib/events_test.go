package nvmllib_test

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
)

// Whoever waits for Xids is told those that come while it waits, once each and in no
// order, and not those from before.
func TestEventSets(t *testing.T) {
	m := profile(t, "dgx-a100")
	state := func(x ...nvmlfake.Xid) []byte { return nvmllib.StateWith(m, nvmlfake.Options{Xids: x}) }
	file := onHost(t, state(nvmlfake.Xid{GPU: 1, Code: 63}))
	lib := nvml.New(nvml.WithLibraryPath(library(t)))
	if r := lib.Init(); r != nvml.SUCCESS {
		t.Fatal(r)
	}
	defer lib.Shutdown()
	set, r := lib.EventSetCreate()
	if r != nvml.SUCCESS {
		t.Fatal(r)
	}
	for i := range 8 {
		d, _ := lib.DeviceGetHandleByIndex(i)
		types, r := d.GetSupportedEventTypes()
		if want := uint64(nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeSingleBitEccError); r != nvml.SUCCESS || types&want != want {
			t.Fatalf("GPU %d supports %#x, %v", i, types, r)
		}
		if r := d.RegisterEvents(types, set); r != nvml.SUCCESS {
			t.Fatalf("GPU %d: %v", i, r)
		}
		if r := d.RegisterEvents(1<<40, set); r != nvml.ERROR_NOT_SUPPORTED {
			t.Errorf("an event that there is not: %v", r)
		}
	}
	wait := func(ms uint32) (gpu, code int, r nvml.Return) {
		e, r := set.Wait(ms)
		if r != nvml.SUCCESS {
			return -1, 0, r
		}
		gpu, _ = e.Device.GetIndex()
		if e.EventType != nvml.EventTypeXidCriticalError || e.GpuInstanceId != 0xffffffff || e.ComputeInstanceId != 0xffffffff {
			t.Errorf("event %+v", e)
		}
		return gpu, int(e.EventData), r
	}
	for _, ms := range []uint32{0, 30} {
		if gpu, code, r := wait(ms); r != nvml.ERROR_TIMEOUT {
			t.Errorf("before anything happened: %d, %d, %v", gpu, code, r)
		}
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		replace(t, file, state(nvmlfake.Xid{GPU: 1, Code: 63}, nvmlfake.Xid{GPU: 3, Code: 79}, nvmlfake.Xid{GPU: 1, Code: 48}))
	}()
	got := map[[2]int]bool{}
	for range 2 {
		gpu, code, r := wait(60_000)
		if r != nvml.SUCCESS {
			t.Fatal(r)
		}
		got[[2]int{gpu, code}] = true
	}
	if !got[[2]int{1, 48}] || !got[[2]int{3, 79}] {
		t.Errorf("events are %v", got)
	}
	replace(t, file, state())
	wait(0)
	replace(t, file, state(nvmlfake.Xid{GPU: 3, Code: 79}))
	if gpu, code, r := wait(0); gpu != 3 || code != 79 || r != nvml.SUCCESS {
		t.Errorf("healed, and again: %d, %d, %v", gpu, code, r)
	}
	if r := set.Free(); r != nvml.SUCCESS {
		t.Error(r)
	}
	if _, _, r := wait(0); r != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("a set that was freed: %v", r)
	}
}
