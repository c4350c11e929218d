package machine_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// Inside of a machine, another is entered; its nodes are of that one alone, and
// lead nowhere, as in the first.
func TestAMachineInAMachine(t *testing.T) {
	machinetest.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: else nodes cannot be opened in the first")
	}
	exe := self(t)
	for _, profile := range []string{"dgx-a100", "workstation"} {
		h := machinetest.Host(t, "dgx-a100")
		got := machinetest.Shell(t, h, machine.Options{}, exe+" "+enterer+" "+profile+` sh -c '
			for f in nvidiactl nvidia0 dri/card1; do cat /dev/$f; done 2>&1
			ls /dev | grep -c "^nvidia[0-9]"
			grep -c "^[0-9]* nvidia" /proc/driver/nvidia/gpus/*/information /proc/devices | tail -1'`)
		want := `cat: /dev/nvidiactl: No such device or address
cat: /dev/nvidia0: No such device or address
cat: /dev/dri/card1: No such device or address
` + map[string]string{"dgx-a100": "8\n", "workstation": "1\n"}[profile]
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s in dgx-a100:\n%s\nwant\n%s", profile, got, want)
		}
	}
}

// udevadm would know no device below a /sys that is no sysfs.
func TestUdevadmKnowsTheDevices(t *testing.T) {
	udevadm, err := exec.LookPath("udevadm")
	if err != nil {
		machinetest.Skip(t, "%v", err)
	}
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		h := machinetest.Host(t, "t4-server")
		got := machinetest.Shell(t, h, o, udevadm+" info /sys/bus/pci/devices/0000:3b:00.0")
		for _, want := range []string{"P: /devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0\n", "E: DRIVER=nvidia\n", "E: PCI_ID=10DE:1EB8\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("udevadm says %s\nwant %s", got, want)
			}
		}
		o.Env = append(os.Environ(), "SYSTEMD_DEVICE_VERIFY_SYSFS=1")
		if out, exit := machinetest.Run(t, h, o, udevadm, "info", "/sys/bus/pci/devices/0000:3b:00.0"); exit == 0 {
			t.Errorf("the user's own word is not taken: %s", out)
		}
	})
}

// What programs ask of the machine is the host's: kernel, firmware, processors, modules;
// with another host name too.
func TestTheMachineIsTheHosts(t *testing.T) {
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		h := machinetest.Host(t, "dgx-a100")
		const want = "5.15.0-1053-nvidia\n5.15.0-1053-nvidia\nDGXA100 920-23687-2530-000\n256\n48-63,176-191\n1\n"
		got := machinetest.Shell(t, h, o, `uname -r; unshare -u uname -r; cat /sys/class/dmi/id/product_name; grep -c ^processor /proc/cpuinfo
cat /sys/bus/pci/devices/0000:07:00.0/local_cpulist; grep -c ^updates/dkms/nvidia.ko: /lib/modules/$(uname -r)/modules.dep`)
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}
