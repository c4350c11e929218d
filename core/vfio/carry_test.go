package vfio_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"gpurig/core/refuse"
	"gpurig/core/vfio"
	"gpurig/fakehw/profiles"
)

// story is a host with what can be asked of it.
type story struct {
	name, profile string
	asks          []string
	prepare       func(*rig)
}

// stories returns each GPU of each profile alone, and what else goes.
func stories(t *testing.T) []story {
	t.Helper()
	var out []story
	for _, name := range profiles.Names() {
		m := load(t, name)
		if m.Tegra != nil {
			continue // an integrated GPU is refused
		}
		for _, g := range m.GPUs {
			if g.PCI == nil || g.PCI.IOMMUGroup < 0 || g.MIG != nil && len(g.MIG.Instances) > 0 {
				continue // MIG devices do not come back: see TestMIGDevicesDoNotComeBack
			}
			out = append(out, story{name: name + " " + g.PCI.BDF.String(), profile: name, asks: []string{"pci=" + g.PCI.BDF.String()}})
		}
	}
	return append(out, more...)
}

var more = []story{
	{name: "both GPUs of a workstation", profile: "workstation", asks: []string{"pci=0a:00.0", "pci=03:00.0"}},
	{name: "a GPU that is vfio-pci's already", profile: "workstation", asks: []string{"pci=0a:00.0"}, prepare: func(r *rig) {
		r.echo("0000:0a:00.0", "/sys/bus/pci/drivers/nvidia/unbind")
		r.echo("vfio-pci", "/sys/bus/pci/devices/0000:0a:00.0/driver_override")
		r.echo("0000:0a:00.0", "/sys/bus/pci/drivers_probe")
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
				if !errors.Is(err, syscall.EIO) || !errors.Is(err, vfio.WriteFailed) || len(refuse.As(err)) != 1 {
					t.Fatalf("Carry whose write %d fails = %v; want the one refusal, of that write", k, err)
				}
				r.same(was, fmt.Sprintf("After write %d failed,", k))
			}
		})
	}
}
