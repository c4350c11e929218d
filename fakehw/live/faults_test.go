package live_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
)

func faults(t *testing.T, texts ...string) fault.List {
	t.Helper()
	l, err := fault.ParseList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Faults come and go while a host runs; what was changed beneath them stays, and
// a healed host is the sound one, byte for byte.
func TestFaultsComeAndGo(t *testing.T) {
	r := start(t, "dgx-a100")
	before := r.Tree().Sum()
	said := nvmllib.StateWith(r.Model(), live.NewDriver(r.Host).NVML(r.Model(), nvmlfake.Options{}))
	told := 0
	r.Watch(func(e live.Event) { told += len(e.Changes) })
	for _, f := range []string{"no-driver", "no-driver:3", "no-uvm", "no-nodes", "off-bus:0", "no-persistenced", "version-mismatch:570", "half-upgrade:570", "node:/dev/nvidia0,mode=0600"} {
		if err := r.SetFaults(faults(t, f)); err != nil {
			t.Fatal(err)
		}
		if told == 0 || r.Tree().Sum() == before {
			t.Errorf("%s: %d changes were told", f, told)
		}
		if err := r.SetFaults(nil); err != nil {
			t.Fatal(err)
		}
		if r.Tree().Sum() != before {
			t.Errorf("%s: healed, the files are others", f)
		}
		if again := nvmllib.StateWith(r.Model(), live.NewDriver(r.Host).NVML(r.Model(), nvmlfake.Options{})); string(again) != string(said) {
			t.Errorf("%s: healed, NVML is another", f)
		}
		told = 0
	}
}

// A fault holds to the board it was set on, through renumbering and while the
// board is out.
func TestAFaultHoldsToItsBoard(t *testing.T) {
	r := start(t, "dgx-a100")
	d := live.NewDriver(r.Host)
	lost := func() string {
		var keys []string
		for k := range d.NVML(r.Model(), nvmlfake.Options{}).Fail {
			keys = append(keys, k)
		}
		return strings.Join(keys, " ")
	}
	first, second := r.Model().GPUs[0].PCI.BDF.String(), r.Model().GPUs[1].PCI.BDF.String()
	if err := r.SetFaults(faults(t, "off-bus:1")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ path, data, lost string }{
		{first + "/remove", "1", "*:0"},
		{second + "/remove", "1", ""},
		{"/sys/bus/pci/rescan", "1", "*:1"},
	} {
		if no := r.Write(r.path(step.path), []byte(step.data)); no != 0 {
			t.Fatalf("%s: %v", step.path, no)
		}
		if got := lost(); got != step.lost {
			t.Errorf("after %s NVML fails %q, want %q", step.path, got, step.lost)
		}
	}
}

// What a fault keeps without a driver is neither bound nor unbound, and what
// NVML is asked of a lost GPU or of no driver is refused.
func TestWritesUnderFaults(t *testing.T) {
	r := start(t, "dgx-a100")
	d := live.NewDriver(r.Host)
	m := r.Model()
	if err := r.SetFaults(faults(t, "no-driver:1", "off-bus:2")); err != nil {
		t.Fatal(err)
	}
	unbound := m.GPUs[1].PCI.BDF.String() + "\n"
	if no := r.Write("/sys/bus/pci/drivers/nvidia/unbind", []byte(unbound)); no != syscall.ENODEV {
		t.Errorf("unbind = %v, want ENODEV", no)
	}
	if no := r.Write("/sys/bus/pci/drivers/nvidia/bind", []byte(unbound)); no != syscall.EPERM {
		t.Errorf("bind = %v, want EPERM", no)
	}
	mode := func(gpu driverctl.GPU) nvml.Return {
		return d.Control(context.Background(), driverctl.Command{Verb: driverctl.SetMIGMode, GPU: gpu, On: true}, driverctl.Caller{}).Code
	}
	if code := mode(driverctl.ByIndex(1)); code != nvml.ERROR_GPU_IS_LOST { // GPU 2 of the sound host
		t.Errorf("a lost GPU's MIG mode = %v", code)
	}
	if code := mode(driverctl.ByBDF(m.GPUs[1].PCI.BDF)); code != nvml.ERROR_NOT_FOUND {
		t.Errorf("MIG mode of a GPU without a driver = %v", code)
	}
	if code := mode(driverctl.ByIndex(2)); code != nvml.SUCCESS { // GPU 3
		t.Errorf("MIG mode of a sound GPU = %v", code)
	}
	if err := r.SetFaults(nil); err != nil {
		t.Fatal(err)
	}
	for i, g := range r.Model().GPUs {
		if (g.MIG != nil) != (i == 3) {
			t.Errorf("healed, GPU %d has MIG %v", i, g.MIG)
		}
	}
	if err := r.SetFaults(faults(t, "no-driver")); err != nil {
		t.Fatal(err)
	}
	if code := mode(driverctl.ByIndex(0)); code != nvml.ERROR_DRIVER_NOT_LOADED {
		t.Errorf("MIG mode without the driver = %v", code)
	}
}

func TestFaultsAreRefused(t *testing.T) {
	r := start(t, "dgx-a100")
	before := r.Tree().Sum()
	err := r.SetFaults(faults(t, "off-bus:9"))
	if _, ok := errors.AsType[*fault.Error](err); !ok || r.Tree().Sum() != before || len(r.Faults()) > 0 {
		t.Errorf("SetFaults = %v, the host has %v", err, r.Faults())
	}
	if _, err := live.New(load(t, "dgx-a100"), live.Options{Faults: faults(t, "off-bus:9")}); !errors.Is(err, fault.ErrImpossible) {
		t.Errorf("New = %v", err)
	}
}
