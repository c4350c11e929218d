package live_test

import (
	"strings"
	"syscall"
	"testing"
)

const (
	geforce = "0000:0a:00.0" // of the workstation
	audio   = "0000:0a:00.1"
	radeon  = "0000:03:00.0"
)

// A name is kept up to its first newline, whoever it is of; none clears it
// (driver_set_override).
func TestDriverOverrideTakesWhatTheKernelTakes(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"echo", "vfio-pci\n", "vfio-pci\n"},
		{"echo -n", "vfio-pci", "vfio-pci\n"},
		{"nobody's name", "none\n", "none\n"},
		{"space is part of it", " vfio-pci \n", " vfio-pci \n"},
		{"a second line", "vfio-pci\nnvidia\n", "vfio-pci\n"},
		{"what Python writes", "vfio-pci\x00\x00", "vfio-pci\n"},
		{"a newline clears it", "\n", "(null)\n"},
		{"a NUL clears it", "\x00", "(null)\n"},
		{"nothing changes nothing", "", "snd_hda_intel\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, "workstation")
			r.echo("snd_hda_intel\n", geforce+"/driver_override", 0)
			r.echo(tc.data, geforce+"/driver_override", 0)
			if got := r.cat(geforce + "/driver_override"); got != tc.want {
				t.Errorf("driver_override %q; want %q", got, tc.want)
			}
		})
	}
	r := start(t, "workstation")
	r.echo(strings.Repeat("v", 4094), geforce+"/driver_override", 0)
	r.echo(strings.Repeat("v", 4095), geforce+"/driver_override", syscall.EINVAL)
}

// An override is for its driver alone, even one that cannot have the function.
func TestAnOverrideKeepsOthersAway(t *testing.T) {
	r := start(t, "workstation")
	r.echo(geforce, "nvidia/unbind", 0)
	r.echo("nobody", geforce+"/driver_override", 0)
	r.echo(geforce, "/sys/bus/pci/drivers_probe", 0)
	r.echo(geforce, "nvidia/bind", syscall.ENODEV)
	r.echo("amdgpu", geforce+"/driver_override", 0)
	r.echo(geforce, "amdgpu/bind", syscall.ENODEV) // its probe finds out
	if got := r.driver(geforce); got != "" {
		t.Errorf("driver %q", got)
	}
	r.echo("\n", geforce+"/driver_override", 0)
	r.echo(geforce, "/sys/bus/pci/drivers_probe", 0)
	if got := r.driver(geforce); got != "nvidia" {
		t.Errorf("driver %q; want nvidia", got)
	}
}

// new_id makes a driver take what is free, remove_id ends that for the next one.
func TestNewIDAndRemoveID(t *testing.T) {
	r := start(t, "workstation")
	r.echo("10de 2684", "vfio-pci/new_id", 0) // the GPU is nvidia's: nothing happens
	if got := r.driver(geforce); got != "nvidia" {
		t.Fatalf("driver %q; want nvidia", got)
	}
	r.echo("0x10de 0x2684\n", "vfio-pci/new_id", syscall.EEXIST)
	r.echo("10de 2684", "vfio-pci/remove_id", 0)
	r.echo("10de 2684", "vfio-pci/remove_id", syscall.ENODEV)
	r.echo(geforce, "nvidia/unbind", 0)
	r.echo("10de 2684 10de 0 30000 ffff00", "vfio-pci/new_id", 0) // another subsystem
	if got := r.driver(geforce); got != "" {
		t.Fatalf("driver %q; want none", got)
	}
	r.echo("10de 2684 ffffffff ffffffff 30200 ffff00", "vfio-pci/new_id", 0) // another class
	if got := r.driver(geforce); got != "" {
		t.Fatalf("driver %q; want none", got)
	}
	r.echo("  10de 2684\n", "vfio-pci/new_id", 0)
	if got := r.driver(geforce); got != "vfio-pci" {
		t.Fatalf("driver %q; want vfio-pci", got)
	}
	r.wants("/dev/vfio/14")
	r.consistent()
	r.echo("10de 2684", "vfio-pci/remove_id", 0)
	if got := r.driver(geforce); got != "vfio-pci" {
		t.Errorf("driver %q; what it holds it keeps", got)
	}
}

// A function that is pulled out takes its own things along, and comes back with
// a rescan as it was when it was plugged in.
func TestRemoveAndRescan(t *testing.T) {
	r := start(t, "workstation")
	first := r.Tree().Clone()
	r.echo("0\n", geforce+"/remove", 0)
	r.wants("/dev/nvidia0")
	r.echo("vfio-pci\n", geforce+"/driver_override", 0)
	gone := r.path(geforce + "/enable")
	r.echo("1\n", geforce+"/remove", 0)
	r.wants("!/sys/bus/pci/devices/"+geforce, "!/dev/nvidia0", "!/dev/dri/card1", "/sys/bus/pci/devices/"+audio, "!/proc/driver/nvidia/gpus/"+geforce)
	r.echo("1\n", gone, syscall.ENODEV)
	r.echo(geforce, "nvidia/bind", syscall.ENODEV)
	r.consistent()
	r.echo("1\n", radeon+"/rescan", 0) // another bus
	r.wants("!/sys/bus/pci/devices/" + geforce)
	r.echo("1\n", audio+"/rescan", 0)
	r.consistent()
	if diff := unlike(first, r.Tree()); diff != "" {
		t.Errorf("not what it was:\n%s", diff)
	}
	for _, f := range []string{geforce, audio, radeon} {
		r.echo("1", f+"/remove", 0)
		r.consistent()
	}
	r.echo("0", "/sys/bus/pci/rescan", 0)
	r.wants("!/sys/bus/pci/devices/" + audio)
	r.echo("0\n", "/sys/bus/pci/drivers_autoprobe", 0) // is not asked when functions are found
	r.echo("0x1\n", "/sys/bus/pci/rescan", 0)
	r.echo("yes", "/sys/bus/pci/drivers_autoprobe", 0)
	r.consistent()
	if diff := unlike(first, r.Tree()); diff != "" {
		t.Errorf("not what it was:\n%s", diff)
	}
}

// The kernel counts how often a function is enabled.
func TestEnableCounts(t *testing.T) {
	r := start(t, "workstation")
	r.echo(geforce, "nvidia/unbind", 0)
	want := func(n string) {
		t.Helper()
		if got := r.cat(geforce + "/enable"); got != n+"\n" {
			t.Errorf("enable %q; want %s", got, n)
		}
	}
	want("0")
	r.echo("0", geforce+"/enable", syscall.EIO)
	r.echo("1", geforce+"/enable", 0)
	r.echo("010", geforce+"/enable", 0)
	want("2")
	r.echo("0\n", geforce+"/enable", 0)
	want("1")
	r.echo(geforce, "nvidia/bind", 0)
	want("2")
	r.consistent()
	r.echo("1", geforce+"/remove", 0)
	r.echo("1", "/sys/bus/pci/rescan", 0)
	want("1")
	r.echo("1\n", geforce+"/reset", 0)
	r.echo("-1", geforce+"/numa_node", 0)
	r.echo("change\n", geforce+"/uevent", 0)
	r.echo("add 2a4b1c7e-0000-0000-0000-000000000000", "nvidia/uevent", 0)
}

// Without an IOMMU vfio-pci cannot have a function.
func TestVFIONeedsAGroup(t *testing.T) {
	r := start(t, "t4-server")
	const gpu = "0000:3b:00.0"
	r.echo("vfio-pci", gpu+"/driver_override", 0)
	r.echo(gpu, "nvidia/unbind", 0)
	r.echo(gpu, "vfio-pci/bind", syscall.EINVAL)
	r.echo(gpu, "/sys/bus/pci/drivers_probe", 0)
	r.wants("!/sys/bus/pci/devices/" + gpu + "/driver")
	r.consistent()
}

// The node of a group is there while one of its functions has a vfio driver.
func TestTheGroupNodeLeavesWithTheLast(t *testing.T) {
	r := start(t, "workstation")
	for _, f := range []string{geforce, audio} {
		r.echo("vfio-pci", f+"/driver_override", 0)
		r.echo(f, f+"/driver/unbind", 0)
		r.echo(f, "/sys/bus/pci/drivers_probe", 0)
		r.consistent()
	}
	r.echo(audio, "vfio-pci/unbind", 0)
	r.wants("/dev/vfio/14")
	r.echo(geforce, "vfio-pci/unbind", 0)
	r.wants("!/dev/vfio/14")
	r.consistent()
}

// MIG mode stays with an Ampere board and goes with a Hopper one; instances go
// with every driver.
func TestMIGInstancesDoNotOutliveTheDriver(t *testing.T) {
	r := start(t, "a100-mig-2g-3g")
	m := r.Model()
	gpu := m.GPUs[0].PCI.BDF.String()
	r.wants("/dev/nvidia-caps/nvidia-cap30", "/proc/driver/nvidia/capabilities/gpu0/mig/gi3/access")
	r.echo(gpu, "nvidia/unbind", 0)
	r.wants("!/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap1")
	r.consistent()
	r.echo(gpu, "nvidia/bind", 0)
	r.wants("!/dev/nvidia-caps/nvidia-cap30", "/proc/driver/nvidia/capabilities/gpu0/mig")
	if after := r.Model(); after.GPUs[0].MIG == nil || len(after.GPUs[0].MIG.Instances) != 0 || after.GPUs[0].UUID != m.GPUs[0].UUID {
		t.Errorf("after: %+v", after.GPUs[0])
	}
	r.consistent()
}
