package driverctl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
)

func profile(t testing.TB, name string) host.Model {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// script carries out lines, "REQUEST = REPLY", where a refusal's text is not
// compared.
func script(t *testing.T, s driverctl.State, on driverctl.Conditions, lines ...string) driverctl.State {
	t.Helper()
	for _, line := range lines {
		request, want, _ := strings.Cut(line, " = ")
		c, err := driverctl.Parse(request)
		if err != nil {
			t.Fatal(err)
		}
		before := driverctl.State{Model: s.Model.Clone(), PendingMIG: slices.Clone(s.PendingMIG), Persistence: slices.Clone(s.Persistence)}
		next, r := driverctl.Apply(s, c, on)
		if d := cmp.Diff(before, s); d != "" {
			t.Fatalf("%s changed what it was given: %s", request, d)
		}
		got := r.String()
		if r.Code != nvml.SUCCESS {
			got = fmt.Sprintf("error %d", int(r.Code))
			if d := cmp.Diff(before, next); d != "" {
				t.Errorf("%s was refused and changed: %s", request, d)
			}
			if r.Text == "" {
				t.Errorf("%s was refused without a reason", request)
			}
		}
		if got != want {
			t.Fatalf("%s = %s, want %s", request, r, want)
		}
		s = next
	}
	return s
}

func using(nodes ...string) driverctl.Conditions {
	return driverctl.Conditions{InUse: func(n string) bool { return slices.Contains(nodes, n) }}
}

// The ids are those that the MIG user guide prints for the same requests.
func TestInstancesAreWhereTheDriverPutsThem(t *testing.T) {
	empty := driverctl.State{Model: profile(t, "a100-mig-empty")}
	for _, tc := range []struct {
		name  string
		lines []string
	}{
		{"two halves", []string{"create-gi 0 9 = ok 2 4 4", "create-gi 0 9 = ok 1 0 4", "create-gi 0 9 = error 23"}},
		{"of three sizes", []string{"create-gi 0 19 = ok 13 6 1", "create-gi 0 14 = ok 5 4 2", "create-gi 0 5 = ok 1 0 4"}},
		{"seven parts", []string{"create-gi 0 19 = ok 13 6 1", "create-gi 0 19 = ok 11 4 1", "create-gi 0 19 = ok 12 5 1", "create-gi 0 19 = ok 7 0 1",
			"create-gi 0 19 = ok 8 1 1", "create-gi 0 19 = ok 9 2 1", "create-gi 0 19 = ok 10 3 1", "create-gi 0 19 = error 23"}},
		{"all of it", []string{"create-gi 0 0 = ok 0 0 8", "create-gi 0 19 = error 23"}},
		{"at a place", []string{"create-gi 0 9 0 = ok 1 0 4", "create-gi 0 9 0 = error 23", "create-gi 0 9 2 = error 2"}},
		{"the media engines are one", []string{"create-gi 0 20 = ok 13 6 1", "create-gi 0 20 = error 23", "create-gi 0 19 = ok 11 4 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) { script(t, empty, driverctl.Conditions{}, tc.lines...) })
	}
}

func TestComputeInstances(t *testing.T) {
	s := driverctl.State{Model: profile(t, "a100-mig-empty")}
	s = script(t, s, driverctl.Conditions{},
		"create-gi 0 9 0 = ok 1 0 4",
		"create-ci 0 2 default = error 6",
		"create-ci 0 1 0 = ok 0", "create-ci 0 1 default = error 23", "create-ci 0 1 3 = error 2", "create-ci 0 1 7 = error 2",
		"create-ci 0 1 1 = ok 1", "create-ci 0 1 0 = error 23",
		"destroy-ci 0 1 0 = ok", "create-ci 0 1 0 = ok 0",
		"destroy-gi 0 1 = error 19", "destroy-ci 0 1 5 = error 6")
	got := s.Model.NVIDIAGPUs()[0].MIG.Instances[0].Compute
	for i, want := range []string{"1c.3g.20gb", "2c.3g.20gb"} {
		if c := got[i]; c.ID != i || c.Index != i || c.Profile != want || !strings.HasPrefix(c.UUID, "MIG-") {
			t.Errorf("compute instance %d is %+v, want %s", i, c, want)
		}
	}
	s = script(t, s, driverctl.Conditions{}, "destroy-ci 0 1 0 = ok", "destroy-ci 0 1 1 = ok", "destroy-gi 0 1 = ok", "destroy-gi 0 1 = error 6")
	if d := cmp.Diff(profile(t, "a100-mig-empty"), s.Model); d != "" {
		t.Errorf("after all is destroyed: %s", d)
	}
}

// What Apply makes is a host like any other: built and read again, it is itself.
func TestWhatApplyMakesCanBeBuilt(t *testing.T) {
	s := script(t, driverctl.State{Model: profile(t, "dgx-a100")}, driverctl.Conditions{},
		"mig-mode 3 1 = ok 1 1 0", "create-gi 3 9 = ok 2 4 4", "create-ci 3 2 default = ok 0", "create-gi 3 19 = ok 7 0 1")
	tree, err := fakehw.Build(s.Model)
	if err != nil {
		t.Fatal(err)
	}
	lib := nvmlfake.New(s.Model, s.NVML(nvmlfake.Options{}))
	lib.Init()
	back, err := host.Discover(tree, nvidia.NVML(lib))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s.Model, back); d != "" {
		t.Error(d)
	}
	for _, p := range []string{"/dev/nvidia-caps/nvidia-cap426", "/dev/nvidia-caps/nvidia-cap427", "/dev/nvidia-caps/nvidia-cap471"} {
		if !slices.ContainsFunc(s.Model.Nodes, func(n device.Node) bool { return n.Path == p }) {
			t.Errorf("no %s", p)
		}
	}
}

// On Ampere a mode waits for a reset; while somebody uses the GPU there is none.
func TestAMIGModeWaitsForAResetOnAmpere(t *testing.T) {
	s := driverctl.State{Model: profile(t, "dgx-a100")}
	busy := using("/dev/nvidia0")
	s = script(t, s, busy, "mig-mode 0 1 = ok 0 1 19", "create-gi 0 9 = error 3", "reset 0 = error 19", "mig-mode 1 1 = ok 1 1 0")
	lib := nvmlfake.New(s.Model, s.NVML(nvmlfake.Options{}))
	lib.Init()
	d, _ := lib.DeviceGetHandleByIndex(0)
	if now, pending, r := d.GetMigMode(); now != 0 || pending != 1 || r != nvml.SUCCESS {
		t.Errorf("GetMigMode() = %d, %d, %d", now, pending, r)
	}
	if again := script(t, s, busy, "mig-mode 0 0 = ok 0 0 0"); len(again.PendingMIG) != 0 {
		t.Errorf("a mode that was taken back is pending: %v", again.PendingMIG)
	}
	s = script(t, s, driverctl.Conditions{}, "reset 0 = ok", "create-gi 0 9 = ok 2 4 4", "mig-mode 0 0 = error 19", "reset 0 = ok", "mig-mode 0 0 = ok 0 0 0", "mig-mode 1 0 = ok 0 0 0")
	if d := cmp.Diff(driverctl.State{Model: profile(t, "dgx-a100")}, s); d != "" {
		t.Errorf("after it is off again: %s", d)
	}
	script(t, driverctl.State{Model: profile(t, "dgx-h100")}, busy, "mig-mode 0 1 = error 19", "mig-mode 1 1 = ok 1 1 0")
}

func TestApplyRefuses(t *testing.T) {
	dgx, mig := profile(t, "dgx-a100"), profile(t, "a100-mig-2g-3g")
	unloaded, old := dgx.Clone(), dgx.Clone()
	unloaded.Driver = nil
	old.Userspace.Version = "550.78"
	user := driverctl.Conditions{Caller: driverctl.Caller{UID: 1000, GID: 1000}}
	granted := mig.Clone()
	for i := range granted.Nodes {
		if n := &granted.Nodes[i]; n.Path == "/dev/nvidia-caps/nvidia-cap1" {
			n.UID, n.Mode = 1000, 0o400
		}
	}
	gi := mig.NVIDIAGPUs()[0].MIG.Instances[0].ID
	for _, tc := range []struct {
		name string
		m    host.Model
		on   driverctl.Conditions
		line string
	}{
		{"no driver", unloaded, driverctl.Conditions{}, "reset 0 = error 9"},
		{"two versions", old, driverctl.Conditions{}, "reset 0 = error 18"},
		{"no such index", dgx, driverctl.Conditions{}, "mig-mode 8 1 = error 2"},
		{"no such address", dgx, driverctl.Conditions{}, "mig-mode 0000:01:00.0 1 = error 15"},
		{"a GPU without MIG", profile(t, "t4-server"), driverctl.Conditions{}, "mig-mode 0 1 = error 3"},
		{"a GPU without MIG, by its address", profile(t, "t4-server"), driverctl.Conditions{}, "create-gi 0 9 = error 3"},
		{"a GPU of the SoC", profile(t, "jetson-agx-orin"), driverctl.Conditions{}, "mig-mode 0 1 = error 3"},
		{"instances without the mode", dgx, driverctl.Conditions{}, "create-gi 0 9 = error 3"},
		{"a profile of another GPU", mig, driverctl.Conditions{}, "create-gi 0 99 = error 2"},
		{"virtual functions", dgx, driverctl.Conditions{}, "sriov 0000:07:00.0 4 = error 3"},
		{"a mode by a user", dgx, user, "mig-mode 0 1 = error 4"},
		{"a reset by a user", dgx, user, "reset 0 = error 4"},
		{"persistence by a user", dgx, user, "persistence 0 1 = error 4"},
		{"an instance by a user, for whom the node is closed", mig, user, "create-gi 0 19 = error 4"},
		{"destruction by a user", mig, user, fmt.Sprintf("destroy-gi 0 %d = error 4", gi)},
		{"destruction of a part by a user", mig, user, fmt.Sprintf("destroy-ci 0 %d 0 = error 4", gi)},
		{"an instance by a user who was given the node", granted, user, "create-gi 0 19 = ok 9 2 1"},
		{"an instance by another user", granted, driverctl.Conditions{Caller: driverctl.Caller{UID: 1001, GID: 1001}}, "create-gi 0 19 = error 4"},
		{"a part that is in use", mig, using(fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", 3+9*gi+1)), fmt.Sprintf("destroy-ci 0 %d 0 = error 19", gi)},
	} {
		t.Run(tc.name, func(t *testing.T) { script(t, driverctl.State{Model: tc.m}, tc.on, tc.line) })
	}
}

func TestPersistenceIsOfOneGPU(t *testing.T) {
	s := script(t, driverctl.State{Model: profile(t, "dgx-a100")}, driverctl.Conditions{}, "persistence 1 0 = ok", "persistence 0 1 = ok", "persistence 1 1 = ok", "persistence 1 0 = ok")
	want := []driverctl.Persistence{{GPU: bdf(t, "0000:07:00.0"), On: true}, {GPU: bdf(t, "0000:0f:00.0"), On: false}}
	if d := cmp.Diff(want, s.Persistence); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[int]bool{0: true, 1: false}, s.NVML(nvmlfake.Options{}).Persistence); d != "" {
		t.Error(d)
	}
}

func bdf(t *testing.T, s string) pci.BDF {
	t.Helper()
	at, err := pci.ParseBDF(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
