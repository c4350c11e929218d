package live_test

import (
	"syscall"
	"testing"
)

// The way in which every guide gives a GPU to vfio-pci, and back.
func TestOverrideUnbindProbe(t *testing.T) {
	r := start(t, "workstation")
	first := r.Tree().Clone()
	const gpu = "0000:0a:00.0"
	const group = "/dev/vfio/14"
	r.wants("/dev/nvidia0", "/proc/driver/nvidia/gpus/"+gpu, "!"+group)

	r.echo("vfio-pci\n", gpu+"/driver_override", 0)
	if got := r.cat(gpu + "/driver_override"); got != "vfio-pci\n" {
		t.Errorf("driver_override %q", got)
	}
	r.consistent()
	r.echo(gpu+"\n", "nvidia/unbind", 0)
	r.wants("!/dev/nvidia0", "!/proc/driver/nvidia/gpus/"+gpu, "!/sys/bus/pci/devices/"+gpu+"/driver", "!/sys/bus/pci/drivers/nvidia/"+gpu)
	if m := r.Model(); len(m.NVIDIAGPUs()) != 0 {
		t.Errorf("%d NVML devices", len(m.NVIDIAGPUs()))
	}
	r.consistent()
	r.echo(gpu, "/sys/bus/pci/drivers_probe", 0)
	r.wants(group, "/sys/bus/pci/drivers/vfio-pci/"+gpu)
	if got := r.driver(gpu); got != "vfio-pci" {
		t.Fatalf("driver %q", got)
	}
	r.consistent()

	r.echo("\n", gpu+"/driver_override", 0)
	if got := r.cat(gpu + "/driver_override"); got != "(null)\n" {
		t.Errorf("driver_override %q", got)
	}
	r.echo(gpu, "vfio-pci/unbind", 0)
	r.wants("!" + group)
	r.echo(gpu, "nvidia/bind", 0)
	r.consistent()
	if diff := unlike(first, r.Tree()); diff != "" {
		t.Errorf("not what it was:\n%s", diff)
	}
}

// What the kernel refuses, and with what.
func TestRefusedWrites(t *testing.T) {
	const gpu, audio = "0000:0a:00.0", "0000:0a:00.1"
	for _, tc := range []struct {
		name, data, path string
		want             syscall.Errno
	}{
		{"no such function", "0000:ff:00.0\n", "nvidia/bind", syscall.ENODEV},
		{"a short address", "0a:00.0", "nvidia/unbind", syscall.ENODEV},
		{"space before it", " " + gpu, "nvidia/unbind", syscall.ENODEV},
		{"two newlines", gpu + "\n\n", "nvidia/unbind", syscall.ENODEV},
		{"what another driver has", audio, "nvidia/unbind", syscall.ENODEV},
		{"bound already", gpu, "nvidia/bind", syscall.EBUSY},
		{"not in the table", audio, "nvidia/bind", syscall.ENODEV},
		{"vfio-pci without an override", gpu, "vfio-pci/bind", syscall.ENODEV},
		{"probe of nothing", "0000:ff:00.0", "/sys/bus/pci/drivers_probe", syscall.ENODEV},
		{"one id", "10de", "vfio-pci/new_id", syscall.EINVAL},
		{"ids with a colon", "10de:2684", "vfio-pci/new_id", syscall.EINVAL},
		{"no ids", "vfio", "vfio-pci/new_id", syscall.EINVAL},
		{"data that no entry has", "10de 2684 0 0 0 0 1", "vfio-pci/new_id", syscall.EINVAL},
		{"an id that is not there", "10de 2684", "vfio-pci/remove_id", syscall.ENODEV},
		{"one id to remove", "10de", "vfio-pci/remove_id", syscall.EINVAL},
		{"remove what is no number", "yes\n", gpu + "/remove", syscall.EINVAL},
		{"remove, twice newline", "1\n\n", gpu + "/remove", syscall.EINVAL},
		{"rescan of the bus", "", "/sys/bus/pci/rescan", 0},
		{"rescan, no number", "\n", "/sys/bus/pci/rescan", syscall.EINVAL},
		{"rescan of a function, no number", "-1", gpu + "/rescan", syscall.EINVAL},
		{"enable a bound function", "1", gpu + "/enable", syscall.EBUSY},
		{"enable, no number", "on", gpu + "/enable", syscall.EINVAL},
		{"reset with 0", "0", gpu + "/reset", syscall.EINVAL},
		{"a NUMA node too many", "7", gpu + "/numa_node", syscall.EINVAL},
		{"no event", "plug", gpu + "/uevent", syscall.EINVAL},
		{"read only", "0x10de", gpu + "/vendor", syscall.EACCES},
		{"configuration space", "\x00", gpu + "/config", syscall.EPERM},
		{"a window", "\x00", gpu + "/resource0", syscall.EPERM},
		{"what is gone", "1", "/sys/bus/pci/nothing", syscall.ENODEV},
		{"a folder", "1", "/sys/bus/pci/devices", syscall.EISDIR},
	} {
		t.Run(tc.name, func(t *testing.T) { start(t, "workstation").echo(tc.data, tc.path, tc.want) })
	}
}

// Who pulls a function out moves nobody's windows and interrupts.
func TestAFunctionPulledOutLeavesTheOthersWhereTheyAre(t *testing.T) {
	r := start(t, "dgx-a100")
	files := func() (out string) {
		for _, name := range []string{"resource", "irq", "config"} {
			out += r.cat("/sys/bus/pci/devices/0000:0f:00.0/" + name)
		}
		return out + r.cat("/proc/driver/nvidia/gpus/0000:0f:00.0/information")
	}
	before, own := files(), r.cat("0000:07:00.0/resource")
	r.echo("1", "0000:07:00.0/remove", 0)
	if files() != before {
		t.Error("the GPU behind it moved")
	}
	r.echo("1", "/sys/bus/pci/rescan", 0)
	if files() != before || r.cat("0000:07:00.0/resource") != own {
		t.Error("after it came back one moved")
	}
}
