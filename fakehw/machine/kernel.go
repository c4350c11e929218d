package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/mountcall"
)

// A kernel is what the machine's own kernel has drivers for. Inside of a fake
// machine /proc/devices and /sys tell of that one, so they are looked at in mounts
// of our own there.
type kernel struct {
	majors []host.Major
	sys    string // where its sysfs is
	mounts []int
}

func newKernel() (*kernel, error) {
	k := &kernel{sys: "/sys"}
	proc := k.own("/proc/devices", "proc", "/proc")
	k.sys = k.own("/sys", "sysfs", "/sys")
	text, err := os.ReadFile(proc + "/devices")
	if err == nil {
		k.majors, err = host.ParseProcDevices(string(text))
	}
	if err != nil {
		k.close()
		return nil, fmt.Errorf("/proc/devices: %w", err)
	}
	return k, nil
}

// own returns the path of a new mount of a kind, attached nowhere, where what is
// there to see is FUSE's. Without the privilege for it no nodes are made either,
// and what is to be seen will do.
func (k *kernel) own(seen, kind, otherwise string) string {
	var fs unix.Statfs_t
	if unix.Statfs(seen, &fs) != nil || fs.Type != unix.FUSE_SUPER_MAGIC {
		return otherwise
	}
	fd, err := mountcall.New(kind, mountcall.Unseen|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, [2]string{"source", kind})
	if err != nil {
		return otherwise
	}
	k.mounts = append(k.mounts, fd)
	return fmt.Sprintf("/proc/self/fd/%d", fd)
}

func (k *kernel) close() {
	for _, fd := range k.mounts {
		unix.Close(fd)
	}
}

// taken returns what reports whether the machine itself has the number of a node
// now, so that opening it would reach a real driver (A41).
func (k *kernel) taken() func(nodeNumber) bool {
	devices := map[nodeNumber]bool{}
	for kind, at := range map[device.Type]string{device.Block: "block", device.Char: "char"} {
		dir, err := os.Open(k.sys + "/dev/" + at)
		if err != nil {
			continue // there are none
		}
		names, _ := dir.Readdirnames(-1)
		dir.Close()
		for _, name := range names {
			if n, err := device.ParseNum(name); err == nil { // as every name there is
				devices[nodeNumber{kind, n}] = true
			}
		}
	}
	gpus := map[nodeNumber]bool{} // majors of GPUs, with minor 0
	for _, x := range k.majors {
		if gpuMajor(x.Name) {
			gpus[nodeNumber{x.Type, device.Num{Major: x.Major}}] = true
		}
	}
	return func(n nodeNumber) bool {
		return devices[n] || len(gpus) > 0 && gpus[nodeNumber{n.kind, device.Num{Major: n.num.Major}}]
	}
}
