package vfio_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/core/request"
	corevfio "gpurig/core/vfio"
	"gpurig/fakehw/live"
	fakemachine "gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/mntns"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/vfio"
)

func TestMain(m *testing.M) {
	mntns.Init()
	fakemachine.Init()
	vfio.Init()
	os.Exit(m.Run())
}

// hostOf is a live host as a session gives it to targets. entered counts how often it
// is entered.
func hostOf(l *live.Host, entered *int) target.Host {
	return target.Host{Root: l.Sys(), Sys: l.Sys(), Enter: func(ctx context.Context, command []string, in, out, errs *os.File) error {
		*entered++
		_, err := fakemachine.Enter(ctx, l, fakemachine.Options{Command: command, Stdin: in, Stdout: out, Stderr: errs})
		return err
	}}
}

func open(t *testing.T) *vfio.Target {
	t.Helper()
	machinetest.RequireNodes(t)
	v, err := vfio.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return v
}

func machineOf(t *testing.T, v *vfio.Target, name string) target.VM {
	t.Helper()
	m, err := v.VM(t.Context(), target.Config{Name: name, Alone: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// give plans a mediated device for the machine.
func give(t *testing.T, l *live.Host, m target.VM, name string) {
	t.Helper()
	req := request.Request{Type: request.MDev, MDev: "nvidia-560", VM: true}
	p, err := corevfio.Make(l.Sys(), l.Model(), []corevfio.Ask{{Name: "gpu0", Request: req}}, corevfio.Options{Instance: name})
	if err != nil {
		t.Fatal(err)
	}
	m.Give(p)
}

// What machines do is done on the entered host, by system calls there: the host sees
// the writes and who has a node open, and all machines of a scenario are on one host.
func TestMachinesOnAnEnteredHost(t *testing.T) {
	v, ctx, entered := open(t), t.Context(), 0
	l := machinetest.Host(t, "vgpu-a40")
	h := hostOf(l, &entered)
	if err := l.Sys().Write("/sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", []byte("4")); err != nil {
		t.Fatal(err)
	}
	one, two := machineOf(t, v, "vm1"), machineOf(t, v, "vm2")
	was, err := one.LookAtHost(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]target.VM{"vm1": one, "vm2": two} {
		give(t, l, m, name)
		if err := m.Start(ctx, h, plan.Plan{}); err != nil {
			t.Fatal(err)
		}
	}
	mdevs := l.Model().MDevs
	if len(mdevs) != 2 || entered != 1 {
		t.Fatalf("%d mediated devices, entered %d times; want 2 and once", len(mdevs), entered)
	}
	for _, m := range []target.VM{one, two} {
		o, err := m.Observe(ctx, observe.Request{})
		if err != nil || len(o.Nodes) != 2 || o.Nodes[0].Open != observe.Allowed || o.Nodes[1].Open != observe.Allowed {
			t.Errorf("nodes %+v, %v", o.Nodes, err)
		}
	}
	remove := "/sys/bus/mdev/devices/" + mdevs[0].UUID + "/remove"
	if err := l.Sys().Write(remove, []byte("1")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removed while a machine has it open: %v; want EBUSY", err)
	}
	for _, m := range []target.VM{one, two} {
		if err := m.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	now, err := two.LookAtHost(ctx, h)
	if diffs, n := observe.CompareHosts(was, now); err != nil || len(diffs) > 0 || n < 50 {
		t.Errorf("after both stopped the host differs in %d of %d: %v, %v", len(diffs), n, diffs, err)
	}
	if err := errors.Join(one.Remove(ctx), two.Remove(ctx), two.Remove(ctx)); err != nil || entered != 1 {
		t.Errorf("removed: %v, entered %d times", err, entered)
	}
}

// After a boot there is another host to be let into.
func TestAnotherHostAfterABoot(t *testing.T) {
	v, ctx, entered := open(t), t.Context(), 0
	m := machineOf(t, v, "vm1")
	first, second := machinetest.Host(t, "vgpu-a40"), machinetest.Host(t, "vgpu-l40s")
	for _, l := range []*live.Host{first, second, second} {
		h, err := m.LookAtHost(ctx, hostOf(l, &entered))
		if want := l.Model().GPUs[0].PCI.BDF; err != nil || h.Function(want) == nil {
			t.Errorf("%+v, %v; want %s", h.Functions, err, want)
		}
	}
	if entered != 2 {
		t.Errorf("entered %d times; want twice", entered)
	}
	if err := m.Remove(ctx); err != nil {
		t.Error(err)
	}
}

// The kernel's numbers come through, for files too.
func TestErrorsOfTheEnteredHost(t *testing.T) {
	v, ctx, entered := open(t), t.Context(), 0
	l := machinetest.Host(t, "workstation")
	m := machineOf(t, v, "vm1")
	req := request.Request{Type: request.Physical, PCI: &pci.BDF{Bus: 0x0a}, VM: true}
	p, err := corevfio.Make(l.Sys(), l.Model(), []corevfio.Ask{{Name: "gpu0", Request: req}}, corevfio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Give(p)
	if err := l.Sys().Write("/sys/bus/pci/devices/0000:0a:00.0/remove", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx, hostOf(l, &entered), plan.Plan{}); err == nil || errors.Is(err, target.ErrBroken) {
		t.Errorf("start with a GPU that was pulled out: %v", err)
	}
	err = vfio.OnHost(ctx, m, hostOf(l, &entered), func(s target.Sys) error { return s.Write("/sys/bus/pci/drivers/nvidia/unbind", []byte("0000:0a:00.0")) })
	if !errors.Is(err, syscall.ENODEV) {
		t.Errorf("unbind what is gone: %v; want ENODEV", err)
	}
	err = vfio.OnHost(ctx, m, hostOf(l, &entered), func(s target.Sys) error { _, err := s.Open("/dev/vfio/99"); return err })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what is not there: %v; want %v", err, fs.ErrNotExist)
	}
	if err := m.Remove(ctx); err != nil {
		t.Error(err)
	}
}

// An agent that is lost is broken, and no fault of the product.
func TestALostHostIsBroken(t *testing.T) {
	v, ctx := open(t), t.Context()
	l := machinetest.Host(t, "workstation")
	m := machineOf(t, v, "vm1")
	h := hostOf(l, new(int))
	h.Enter = func(context.Context, []string, *os.File, *os.File, *os.File) error {
		return errors.New("no such machine")
	}
	if _, err := m.LookAtHost(ctx, h); !errors.Is(err, target.ErrBroken) {
		t.Errorf("%v; want %v", err, target.ErrBroken)
	}
	if _, err := m.LookAtHost(ctx, target.Host{}); !errors.Is(err, target.ErrBroken) {
		t.Errorf("no host: %v; want %v", err, target.ErrBroken)
	}
	if _, err := v.VM(ctx, target.Config{Name: "vm1"}); err == nil {
		t.Error("a machine was made that has no word for its host")
	}
}
