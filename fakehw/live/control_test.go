package live_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/live"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
)

func newHost(t testing.TB, profile string) *live.Host {
	t.Helper()
	p, err := profiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	h, err := live.New(m, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends the driver lines, "REQUEST = CODE".
func ask(t *testing.T, d *live.Driver, from driverctl.Caller, line string, want nvml.Return) {
	t.Helper()
	c, err := driverctl.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Control(t.Context(), c, from); r.Code != want {
		t.Fatalf("%s = %s; want code %d", line, r, want)
	}
}

func TestACommandChangesTreeAndModelBeforeItReturns(t *testing.T) {
	h := newHost(t, "dgx-a100")
	d := live.NewDriver(h)
	var seen []string
	h.Watch(func(e live.Event) {
		for _, c := range e.Changes {
			seen = append(seen, c.Path)
		}
	})
	ask(t, d, driverctl.Caller{}, "mig-mode 0 1", nvml.SUCCESS)
	ask(t, d, driverctl.Caller{}, "create-gi 0 9", nvml.SUCCESS)
	ask(t, d, driverctl.Caller{}, "create-ci 0 2 default", nvml.SUCCESS)
	m := h.Model()
	gi := m.NVIDIAGPUs()[0].MIG.Instances[0]
	node := fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 3+9*gi.ID)
	if _, err := h.Tree().Lstat(node); err != nil || !slices.Contains(seen, node) {
		t.Errorf("%s: %v; told of %d changes", node, err, len(seen))
	}
	before := h.Tree().Sum()
	ask(t, d, driverctl.Caller{UID: 1000}, "mig-mode 1 1", nvml.ERROR_NO_PERMISSION)
	ask(t, d, driverctl.Caller{}, "create-gi 0 99", nvml.ERROR_INVALID_ARGUMENT)
	if h.Tree().Sum() != before {
		t.Error("a refusal changed the tree")
	}
}

func TestADriverKeepsWhatTheModelHasNot(t *testing.T) {
	h := newHost(t, "dgx-a100")
	d := live.NewDriver(h)
	told := 0
	h.Watch(func(e live.Event) {
		if told++; told == 1 && !slices.Equal(d.NVML(e.Model, nvmlfake.Options{}).PendingMIG, []int{0}) {
			t.Error("whoever is told of a pending mode does not find it")
		}
	})
	h.Open("/dev/nvidia0")
	ask(t, d, driverctl.Caller{}, "mig-mode 0 1", nvml.SUCCESS)
	m := h.Model()
	if m.NVIDIAGPUs()[0].MIG != nil || told != 1 {
		t.Errorf("the mode of a GPU in use changed at once, or nobody was told (%d)", told)
	}
	ask(t, d, driverctl.Caller{}, "reset 0", nvml.ERROR_IN_USE)
	h.Close("/dev/nvidia0")
	ask(t, d, driverctl.Caller{}, "reset 0", nvml.SUCCESS)
	m = h.Model()
	if m.NVIDIAGPUs()[0].MIG == nil {
		t.Error("the reset left the mode as it was")
	}
	ask(t, d, driverctl.Caller{}, "persistence 1 0", nvml.SUCCESS)
	if on, set := d.NVML(h.Model(), nvmlfake.Options{}).Persistence[1]; on || !set {
		t.Error("the persistence mode was forgotten")
	}
}

func TestHoldersAreAskedUntilTheyLeave(t *testing.T) {
	h := newHost(t, "dgx-a100")
	d := live.NewDriver(h)
	end := h.AskHolders(func(path string, except int) bool { return path == "/dev/nvidia0" && except != 7 })
	ask(t, d, driverctl.Caller{}, "reset 0", nvml.ERROR_IN_USE)
	ask(t, d, driverctl.Caller{PID: 7}, "reset 0", nvml.SUCCESS)
	ask(t, d, driverctl.Caller{}, "reset 1", nvml.SUCCESS)
	end()
	ask(t, d, driverctl.Caller{}, "reset 0", nvml.SUCCESS)
}

func TestVirtualFunctionsAreMadeByTheAttribute(t *testing.T) {
	d := live.NewDriver(newHost(t, "dgx-a100"))
	ask(t, d, driverctl.Caller{}, "sriov 0000:ff:00.0 4", nvml.ERROR_GPU_IS_LOST)
	ask(t, d, driverctl.Caller{UID: 1}, "sriov 0000:07:00.0 4", nvml.ERROR_NO_PERMISSION)
}

// NVIDIA's tools make the nodes that nothing has asked for, and not those that a
// fault keeps away.
func TestNodesAreMadeWhenTheyAreAskedFor(t *testing.T) {
	r := start(t, "dgx-a100")
	d := live.NewDriver(r.Host)
	sound := r.Tree().Sum()
	if err := r.SetFaults(faults(t, "unmade")); err != nil {
		t.Fatal(err)
	}
	r.wants("!/dev/nvidia0", "!/dev/nvidiactl", "!/dev/nvidia-uvm", "!/dev/nvidia-caps/nvidia-cap1", "!/dev/nvidia-modeset", "!/sys/module/nvidia_uvm", "/sys/module/nvidia")
	nobody := driverctl.Caller{UID: 65534, GID: 65534} // nvidia-modprobe is set-user-id root
	ask(t, d, nobody, "make-nodes gpus", nvml.SUCCESS)
	r.wants("/dev/nvidia0", "/dev/nvidiactl", "!/dev/nvidia-uvm")
	ask(t, d, nobody, "make-nodes uvm", nvml.SUCCESS)
	r.wants("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/sys/module/nvidia_uvm", "!/dev/nvidia-modeset")
	ask(t, d, nobody, "make-nodes modeset", nvml.SUCCESS)
	ask(t, d, nobody, "make-nodes caps", nvml.SUCCESS)
	if len(r.Faults()) > 0 || r.Tree().Sum() != sound {
		t.Errorf("with all nodes made, the host has the faults %v and is another", r.Faults())
	}
	told := 0
	r.Watch(func(e live.Event) { told += len(e.Changes) })
	ask(t, d, nobody, "make-nodes gpus", nvml.SUCCESS)
	if told != 9 { // eight GPUs and nvidiactl, should somebody have removed one
		t.Errorf("%d nodes were told of; want 9", told)
	}
	for _, f := range []string{"no-uvm", "no-nodes:/dev/nvidia-uvm*"} {
		if err := r.SetFaults(faults(t, f)); err != nil {
			t.Fatal(err)
		}
		ask(t, d, driverctl.Caller{}, "make-nodes uvm", nvml.SUCCESS)
		r.wants("!/dev/nvidia-uvm")
	}
	if err := r.SetFaults(faults(t, "no-driver")); err != nil {
		t.Fatal(err)
	}
	ask(t, d, driverctl.Caller{}, "make-nodes gpus", nvml.ERROR_DRIVER_NOT_LOADED)
}
