package live_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

// A program that knows no tree writes through links, and hears the kernel's numbers.
func TestSys(t *testing.T) {
	r := start(t, "vgpu-a40")
	sys := r.Sys()
	const gpu = "/sys/bus/pci/devices/0000:3b:00.0"
	for _, tc := range []struct {
		path, text string
		want       error
	}{
		{gpu + "/driver_override", "vfio-pci\n", nil},
		{gpu + "/driver/unbind", "0000:3b:00.0\n", nil},
		{gpu + "/driver/unbind", "0000:3b:00.0\n", fs.ErrNotExist}, // it has no driver now
		{"/sys/bus/pci/drivers/vfio-pci/bind", "0000:3b:00.0", nil},
		{"/sys/bus/pci/drivers/vfio-pci/bind", "0000:3b:00.0", syscall.EBUSY},
		{gpu + "/vendor", "1", syscall.EACCES},
	} {
		if err := sys.Write(tc.path, []byte(tc.text)); !errors.Is(err, tc.want) {
			t.Errorf("Write(%s, %q) = %v; want %v", tc.path, tc.text, err, tc.want)
		}
	}
	if to, err := sys.Readlink(gpu + "/driver"); err != nil || to[len(to)-len("vfio-pci"):] != "vfio-pci" {
		t.Errorf("driver -> %q, %v; want vfio-pci", to, err)
	}
	if info, err := sys.Lstat("/dev/vfio/42"); err != nil || !info.IsDevice() {
		t.Errorf("the group's node: %+v, %v", info, err)
	}
	if text, err := sys.ReadFile(gpu + "/driver_override"); err != nil || string(text) != "vfio-pci\n" {
		t.Errorf("driver_override = %q, %v", text, err)
	}
	if names, err := sys.ReadDir("/dev/vfio"); err != nil || len(names) < 2 {
		t.Errorf("/dev/vfio has %q, %v", names, err)
	}
}
