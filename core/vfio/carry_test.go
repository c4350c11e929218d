package vfio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/refuse"
	"gpurig/core/vfio"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
)

// story is a host with what can be asked of it.
type story struct {
	name, profile string
	asks          []string
	prepare       func(*rig)
}

// stories returns each GPU of each profile alone, or with those that share its group,
// and what else goes.
func stories(t *testing.T) []story {
	t.Helper()
	var out []story
	for _, name := range profiles.Names() {
		m := load(t, name)
		if m.Tegra != nil {
			continue // an integrated GPU is refused
		}
		for i, g := range m.GPUs {
			if g.PCI == nil || g.PCI.IOMMUGroup < 0 || g.MIG != nil && len(g.MIG.Instances) > 0 {
				continue // MIG devices do not come back: see TestMIGDevicesDoNotComeBack
			}
			s := story{name: name + " " + g.PCI.BDF.String(), profile: name}
			shared := false // a group that is in the list already
			for j, o := range m.GPUs {
				if o.PCI != nil && o.PCI.IOMMUGroup == g.PCI.IOMMUGroup {
					s.asks = append(s.asks, "pci="+o.PCI.BDF.String())
					shared = shared || j < i
				}
			}
			if !shared {
				out = append(out, s)
			}
		}
	}
	return append(out, more...)
}

// one is the story of a single GPU with its sound.
var one = story{name: "the GeForce of a workstation", profile: "workstation", asks: []string{"pci=0a:00.0"}}

var more = []story{
	one,
	{name: "three GPUs", profile: "dgx-a100", asks: []string{"pci=0f:00.0", "pci=07:00.0", "pci=bd:00.0"}},
	{name: "three GPUs in another order", profile: "dgx-a100", asks: []string{"pci=bd:00.0", "pci=0f:00.0", "pci=07:00.0"}},
	{name: "both GPUs of a workstation", profile: "workstation", asks: []string{"pci=0a:00.0", "pci=03:00.0"}},
	{name: "a GPU that is vfio-pci's already", profile: "workstation", asks: []string{"pci=0a:00.0"}, prepare: func(r *rig) {
		r.echo("0000:0a:00.0", "/sys/bus/pci/drivers/nvidia/unbind")
		r.echo("vfio-pci", "/sys/bus/pci/devices/0000:0a:00.0/driver_override")
		r.echo("0000:0a:00.0", "/sys/bus/pci/drivers_probe")
	}},
	{name: "a GPU of the host's driver that is marked for VFIO already", profile: "workstation", asks: []string{"pci=0a:00.0"}, prepare: func(r *rig) {
		r.echo("vfio-pci", "/sys/bus/pci/devices/0000:0a:00.0/driver_override")
	}},
	{name: "sound that is marked for another driver than it has", profile: "workstation", asks: []string{"pci=0a:00.0"}, prepare: func(r *rig) {
		r.echo("pci-stub", "/sys/bus/pci/devices/0000:0a:00.1/driver_override")
	}},
	{name: "a GPU without a driver, with an override of the administrator's", profile: "workstation", asks: []string{"pci=0a:00.0"}, prepare: func(r *rig) {
		r.echo("0000:0a:00.0", "/sys/bus/pci/drivers/nvidia/unbind")
		r.echo("nvidia", "/sys/bus/pci/devices/0000:0a:00.0/driver_override")
	}},
	{name: "a mediated device", profile: "vgpu-a40", asks: []string{"gputype=mdev mdev=nvidia-558"}, prepare: a40VFs},
	{name: "mediated devices and a whole GPU", profile: "vgpu-a40", prepare: a40VFs,
		asks: []string{"gputype=mdev mdev=A40-2Q", "pci=3b:00.0", "gputype=mdev mdev=nvidia-558"}},
	{name: "vendor vGPUs", profile: "vgpu-l40s", asks: []string{"gputype=mdev mdev=1148", "gputype=mdev mdev=L40S-2Q"}, prepare: l40sVFs},
	{name: "virtual functions that are on", profile: "vgpu-a40", asks: []string{"gputype=sriov", "gputype=sriov"}, prepare: a40VFs},
	{name: "virtual functions that are off", profile: "vgpu-a40", asks: []string{"gputype=sriov", "gputype=sriov"}},
	{name: "virtual functions beside a whole GPU", profile: "vgpu-a40", asks: []string{"gputype=sriov", "pci=3b:00.0"}},
}

func a40VFs(r *rig)  { r.echo("4", "/sys/bus/pci/devices/0000:e8:00.0/sriov_numvfs") }
func l40sVFs(r *rig) { r.echo("4", "/sys/bus/pci/devices/0000:61:00.0/sriov_numvfs") }

func (s story) start(t *testing.T) *rig {
	t.Helper()
	r := start(t, load(t, s.profile))
	if s.prepare != nil {
		s.prepare(r)
	}
	return r
}

// What a machine was given comes back as it was: drivers, overrides, nodes, numbers.
func TestReturnLeavesTheHostAsItWas(t *testing.T) {
	all := stories(t)
	if len(all) < 20 {
		t.Fatalf("%d stories; the profiles have more GPUs", len(all))
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := s.start(t)
			was := r.discover()
			p := r.carry(s.asks...)
			for _, d := range p.Devices {
				if n, err := d.Nodes(r); err != nil || vfio.KindOf(n.Device) == vfio.NoVFIO || vfio.KindOf(n.Control) != vfio.ControlNode {
					t.Errorf("Nodes of %v = %v, %v", d, n, err)
				}
			}
			r.giveBack(p)
			r.same(was, "After Return")
			n := len(r.writes)
			r.giveBack(p)
			if len(r.writes) != n {
				t.Errorf("the second Return wrote %q", r.writes[n:])
			}
		})
	}
}

// Whichever write fails, the host is as it was.
func TestCarryThatFailsLeavesNothing(t *testing.T) {
	for _, s := range stories(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, err := s.start(t).plan(s.asks...)
			if err != nil {
				t.Fatal(err)
			}
			for k := range p.Writes {
				r := s.start(t)
				was := r.discover()
				r.fails = map[int]error{k: fmt.Errorf("write: %w", syscall.EIO)}
				err := vfio.Carry(context.Background(), r, p)
				if !errors.Is(err, syscall.EIO) || !errors.Is(err, vfio.ReasonWriteFailed) || len(refuse.As(err)) != 1 {
					t.Fatalf("Carry whose write %d fails = %v; want the one refusal, of that write", k, err)
				}
				r.same(was, fmt.Sprintf("After write %d failed,", k))
			}
		})
	}
}

// A program that dies between two writes leaves a plan that Return can take back.
func TestReturnAfterACrash(t *testing.T) {
	for _, s := range more {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p, err := s.start(t).plan(s.asks...)
			if err != nil {
				t.Fatal(err)
			}
			for k := range len(p.Writes) + 1 {
				r := s.start(t)
				was := r.discover()
				for _, w := range p.Writes[:k] {
					if err := r.Write(w.Path, []byte(w.Text+"\n")); err != nil {
						t.Fatal(err)
					}
				}
				r.giveBack(p)
				r.same(was, fmt.Sprintf("After a crash behind write %d", k))
			}
		})
	}
}

// After a reboot nothing is as Carry left it, so nothing is taken back.
func TestReturnAfterAReboot(t *testing.T) {
	for _, s := range more {
		p := s.start(t).carry(s.asks...)
		r := s.start(t)
		r.giveBack(p)
		if len(r.writes) > 0 {
			t.Errorf("%s: writes %q", s.name, r.writes)
		}
	}
}

// After a reboot a GPU may be another machine's: a plan of the boot before leaves it
// alone.
func TestAPlanEndsWithTheBoot(t *testing.T) {
	const before, now = "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-666666666666"
	r := one.start(t)
	r.boot = before
	p := r.carry(one.asks...)
	r = one.start(t)
	r.boot = now
	other := r.carry(one.asks...)
	n := len(r.writes)
	r.giveBack(p)
	if len(r.writes) > n || r.function(geforce).Driver != "vfio-pci" {
		t.Errorf("what another machine has was taken by %q", r.writes[n:])
	}
	if err := vfio.Carry(context.Background(), r, p); !errors.Is(err, vfio.ReasonHostChanged) || len(r.writes) > n {
		t.Errorf("Carry of the plan of another boot = %v", err)
	}
	r.giveBack(other)
	r.boot = before // the control
	if err := vfio.Carry(context.Background(), r, p); err != nil {
		t.Error(err)
	}
}

// Return goes on where a driver does not come back, says what to do, and ends the
// work when it is called again.
func TestReturnGoesOn(t *testing.T) {
	r := one.start(t)
	was := r.discover()
	p := r.carry(one.asks...)
	last := 2*len(p.Writes) - 1
	r.fails = map[int]error{last - 1: fmt.Errorf("open: %w", syscall.ENOENT)}
	err := vfio.Return(context.Background(), r, p)
	all := refuse.As(err)
	if len(all) != 1 || !errors.Is(err, syscall.ENOENT) || !strings.Contains(all[0].Hint, "Load the driver snd_hda_intel again") {
		t.Fatalf("Return = %v; want the one write that failed, and what to do", err)
	}
	if d := r.function(geforce).Driver; d != "nvidia" {
		t.Errorf("after the failure nothing more was given back: driver %q", d)
	}
	r.giveBack(p)
	r.same(was, "After the second Return")
}

// The control of the tests above: a write that the host swallows is noticed, in both
// directions, and so is a plan that lacks one of its undoings.
func TestWhatHadNoEffectIsReported(t *testing.T) {
	s := one
	p, err := s.start(t).plan(s.asks...)
	if err != nil {
		t.Fatal(err)
	}
	for k := range p.Writes {
		r := s.start(t)
		was := r.discover()
		r.swallows = map[int]bool{k: true}
		if err := vfio.Carry(context.Background(), r, p); !errors.Is(err, vfio.ReasonNotTaken) {
			t.Errorf("Carry whose write %d has no effect = %v", k, err)
		}
		r.same(was, "After it")

		r = s.start(t)
		if err := vfio.Carry(context.Background(), r, p); err != nil {
			t.Fatal(err)
		}
		r.swallows = map[int]bool{len(p.Writes) + k: true}
		if err := vfio.Return(context.Background(), r, p); !errors.Is(err, vfio.ReasonNotTaken) {
			t.Errorf("Return whose write %d has no effect = %v", k, err)
		}
		r.giveBack(p)
		r.same(was, "After the second Return")

		short := p
		short.Undo = append(append([]vfio.Write{}, p.Undo[:k]...), p.Undo[k+1:]...)
		r = s.start(t)
		if err := vfio.Carry(context.Background(), r, short); !errors.Is(err, vfio.ReasonBadPlan) || len(r.writes) > 0 {
			t.Errorf("Carry of a plan without undoing %d = %v, writes %q", k, err, r.writes)
		}
	}
}

// What the host takes for itself while a plan is carried out ends it: here a function
// of the group that had no driver when the plan was made.
func TestCarryLooksAtTheGroupAgain(t *testing.T) {
	const usb = "0000:0b:00.0"
	m, err := fakehw.WithPCIDriver(beside(t, usb, 0x0c0330, ""), "xhci_hcd", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, m)
	p, err := r.plan("pci=0a:00.0")
	if err != nil {
		t.Fatal(err)
	}
	r.echo(usb, "/sys/bus/pci/drivers/xhci_hcd/bind")
	was := r.discover()
	refused(t, vfio.Carry(context.Background(), r, p), vfio.ReasonNotViable, usb)
	r.same(was, "After it")
}

func TestCarryEndsWithItsContext(t *testing.T) {
	s := one
	r := s.start(t)
	was := r.discover()
	p, err := r.plan(s.asks...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.after = func(n int) {
		if n == 2 {
			cancel()
		}
	}
	if err := vfio.Carry(ctx, r, p); !errors.Is(err, context.Canceled) {
		t.Errorf("Carry = %v", err)
	}
	r.same(was, "After the context ended")
}

// A plan is kept as JSON, and is the same for the same host.
func TestAPlanIsAValue(t *testing.T) {
	for _, s := range more {
		r := s.start(t)
		p, err := r.plan(s.asks...)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.plan(s.asks...)
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Errorf("%s: two plans differ: %v\n%s", s.name, err, diff)
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back vfio.Plan
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s: JSON changes it:\n%s", s.name, diff)
		}
	}
}
