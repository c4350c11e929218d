package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArgumentsOfAPlan(t *testing.T) {
	ports, passed, err := devices([]string{"-object", "iommufd,id=iommufd0",
		"-device", "pcie-root-port,id=gpuport0,bus=pcie.0,chassis=100,slot=0,pref64-reserve=64G",
		"-device", "vfio-pci,host=0000:0a:00.0,id=gpuport0-0,bus=gpuport0,addr=0x0.0x0,multifunction=on,iommufd=iommufd0"})
	want := `{"addr":"0x0.0x0","bus":"gpuport0","driver":"vfio-user-pci","id":"gpuport0-0","multifunction":true}`
	if err != nil || len(ports) != 1 || !strings.HasSuffix(ports[0], "pref64-reserve=64G") || len(passed) != 1 || passed[0].text() != want {
		t.Errorf("%v %v %v; want %s", ports, passed, err, want)
	}
}

// Nothing that a plan's arguments say is left out unnoticed.
func TestArgumentsThatAreNotUnderstood(t *testing.T) {
	for _, tc := range [][2]string{
		{"-device", "vfio-pci,sysfsdev=/sys/bus/mdev/devices/x,id=a"},
		{"-device", "vfio-pci,host=0000:0a:00.0,id=a,x-igd-opregion=on"},
		{"-device", "virtio-net-pci"},
		{"-object", "memory-backend-ram,id=m"},
		{"-cpu", "host"},
	} {
		if _, _, err := devices(tc[:]); err == nil || !strings.Contains(err.Error(), "nothing is known of it") {
			t.Errorf("%s %s: %v", tc[0], tc[1], err)
		}
	}
}

// The kernel reads the archive by these offsets: a name and its data begin at multiples of 4.
func TestInitrd(t *testing.T) {
	probe := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(probe, []byte("hello"), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := initrd(probe)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(b), "init\x00")
	if i < 0 || i%4 != 2 || string(b[i+6:i+11]) != "hello" || string(b[i-110:i-104]) != "070701" || len(b)%4 != 0 {
		t.Errorf("%q", b)
	}
	if _, err := initrd(probe + "x"); err == nil {
		t.Error("a program that is not there")
	}
}
