package live_test

import (
	"syscall"
	"testing"
	"time"
)

// during has f called while a write waits, and returns the write's answer.
func (r *rig) during(data, p string, f func()) syscall.Errno {
	r.t.Helper()
	real, done := r.path(p), make(chan syscall.Errno, 1)
	go func() { done <- r.Write(real, []byte(data)) }()
	// Long enough for one that does not wait: it would have answered.
	select {
	case no := <-done:
		r.t.Fatalf("echo %q > %s did not wait: %v", data, p, no)
	case <-time.After(150 * time.Millisecond):
	}
	f()
	select {
	case no := <-done:
		return no
	case <-time.After(time.Minute):
		r.t.Fatalf("echo %q > %s waits for ever", data, p)
	}
	return 0
}

// NVIDIA's driver and vfio-pci let a device go when nobody has it open: until
// then the write waits, others go on, and nothing has changed.
func TestAWriteWaitsWhileTheDeviceIsOpen(t *testing.T) {
	for _, tc := range []struct{ name, data, path, node string }{
		{"unbind", geforce, "nvidia/unbind", "/dev/nvidia0"},
		{"remove", "1\n", geforce + "/remove", "/dev/nvidia0"},
		{"unbind from vfio-pci", audio, "vfio-pci/unbind", "/dev/vfio/14"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, "workstation")
			r.echo("vfio-pci", audio+"/driver_override", 0)
			r.echo(audio, "snd_hda_intel/unbind", 0)
			r.echo(audio, "vfio-pci/bind", 0)
			before := r.Tree().Sum()
			r.Open(tc.node)
			r.Open(tc.node)
			no := r.during(tc.data, tc.path, func() {
				r.Locker().Lock()
				if r.Tree().Sum() != before {
					t.Error("the tree changed while the write waited")
				}
				r.Locker().Unlock()
				r.Close(tc.node)
				r.echo("nvidia", radeon+"/driver_override", 0)
				r.Close(tc.node)
			})
			if no != 0 || r.exists("/sys/bus/pci/drivers/nvidia/"+geforce) == (tc.node == "/dev/nvidia0") {
				t.Errorf("afterwards %v, driver of %s: %q", no, geforce, r.driver(geforce))
			}
			r.consistent()
		})
	}
}

// A holder that nobody tells of is seen too, and one that leaves with its device.
func TestAWriteWaitsForHoldersThatDoNotTell(t *testing.T) {
	r := start(t, "workstation")
	end := r.AskHolders(func(p string, _ int) bool { return p == "/dev/nvidia0" })
	if no := r.during(geforce, "nvidia/unbind", end); no != 0 {
		t.Errorf("afterwards %v", no)
	}
	r.consistent()
	end = r.AskHolders(func(p string, _ int) bool { return p == "/dev/nvidia1" })
	defer end()
	r.echo(geforce, "nvidia/bind", 0)
	r.echo(geforce, "nvidia/unbind", 0)
}

// Virtual functions do not go while somebody has one.
func TestNumVFsWaitsForVirtualFunctions(t *testing.T) {
	r := start(t, "vgpu-a40")
	r.echo("2", "0000:e8:00.0/sriov_numvfs", 0)
	r.echo(uuid, "0000:e8:00.4/mdev_supported_types/nvidia-558/create", 0)
	group := "/dev/vfio/" + lastPart(t, r, "/sys/bus/mdev/devices/"+uuid+"/iommu_group")
	r.Open(group)
	if no := r.during("0\n", "0000:e8:00.0/sriov_numvfs", func() { r.Close(group) }); no != 0 {
		t.Errorf("afterwards %v", no)
	}
	r.wants("!/sys/bus/mdev/devices/"+uuid, "!"+group)
	r.consistent()
}

// Who has a group open has it for himself: no driver of the host's gets another
// function of it (iommu_device_use_default_domain).
func TestAGroupInUseIsForItsOwnerAlone(t *testing.T) {
	r := start(t, "workstation")
	r.echo("vfio-pci", geforce+"/driver_override", 0)
	r.echo(geforce, "nvidia/unbind", 0)
	r.echo(geforce, "vfio-pci/bind", 0)
	r.echo(audio, "snd_hda_intel/unbind", 0)
	r.Open("/dev/vfio/14")
	r.echo(audio, "snd_hda_intel/bind", syscall.EBUSY)
	r.echo(audio, "/sys/bus/pci/drivers_probe", 0)
	if got := r.driver(audio); got != "" {
		t.Errorf("driver %q", got)
	}
	r.echo("vfio-pci", audio+"/driver_override", 0)
	r.echo(audio, "vfio-pci/bind", 0)
	r.Close("/dev/vfio/14")
	r.consistent()
}
