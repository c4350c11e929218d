package machine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// mounter makes the test program one that mounts a file system on a directory with
// the calls that came after mount(2), as newer container runtimes do.
const mounter = "--mount"

func mountAnew(kind, dir string) error {
	ctx, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return fmt.Errorf("fsconfig: %w", err)
	}
	mnt, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	return unix.MoveMount(mnt, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// A mount of procfs or sysfs shows the host, in whatever namespaces it is made, and
// what is of those namespaces beside it.
func TestMountsInANamespaceShowTheHost(t *testing.T) {
	exe := self(t)
	const version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.113.01  Tue Sep 12 19:41:24 UTC 2023\n"
	for _, tc := range []struct{ name, namespaces, script, want string }{
		{"a process namespace", "-pf --mount-proc", "head -1 /proc/driver/nvidia/version; cat /proc/sys/kernel/osrelease; echo $$", version + "5.15.0-1053-nvidia\n1\n"},
		{"a user namespace", "-Urpf --mount-proc", "head -1 /proc/driver/nvidia/version; id -u", version + "0\n"},
		{"in a user namespace another", "-Urpf --mount-proc", "unshare -Urpf --mount-proc head -1 /proc/driver/nvidia/version", version},
		{"sysfs", "-Urmn", "mount -t sysfs sysfs /sys; cat /sys/bus/pci/devices/0000:07:00.0/vendor; ls /sys/class/net; ls /sys/fs/cgroup", "0x10de\nlo\n"},
		{"sysfs that is read only", "-Urmn", "mount -t sysfs -o ro sysfs /sys; echo 1500 > /sys/class/net/lo/mtu || echo refused", "refused\n"},
		{"the new calls", "-Urpfmn --mount-proc", exe + " " + mounter + " sysfs /sys; cat /sys/bus/pci/devices/0000:07:00.0/vendor; " + exe + " " + mounter + " proc /proc; head -1 /proc/driver/nvidia/version", "0x10de\n" + version},
		{"options of procfs", "-Urpfm --mount-proc", "mount -t proc -o subset=pid proc /proc; test -e /proc/driver || ls -d /proc/self; mount -t proc -o nonsense=1 proc /proc || echo refused", "/proc/self\nrefused\n"},
		{"a part of procfs elsewhere", "-Urpfm --mount-proc", "mount --bind /proc/sys /mnt; cat /mnt/kernel/osrelease", "5.15.0-1053-nvidia\n"},
		{"unmounted again", "-Urpfmn --mount-proc", "for fs in proc sysfs; do mount -t $fs x /mnt; umount /mnt; ls /mnt | grep -c bus || true; done", "0\n0\n"},
		{"unmounted in use", "-Urpfmn --mount-proc", "mount -t proc x /mnt; (cd /mnt/1; umount /mnt) || head -1 /mnt/driver/nvidia/version", version},
		{"with what it has mounted on it", "-Urpfmn --mount-proc", "mount -t sysfs x /mnt; mount -t tmpfs t /mnt/fs/cgroup; umount /mnt || ls /mnt/class/net", "lo\n"},
		{"a part made read-only", "-Urpfm --mount-proc", "mount --bind /proc/sys /proc/sys; mount -o bind,remount,ro /proc/sys; cat /proc/sys/kernel/osrelease; tail -n+2 /proc/self/mountinfo | grep -c osrelease.*nosuid || true; echo x > /proc/sys/kernel/hostname || echo refused", "5.15.0-1053-nvidia\n2\nrefused\n"},
		{"of another's process namespace", "-Urm", "mount -t proc proc /proc || echo refused", "refused\n"},
		{"of another's network", "-Urm", "mount -t sysfs sysfs /sys || echo refused", "refused\n"},
		{"without the privilege", "-Urpfm --mount-proc", "setpriv --bounding-set=-sys_admin --inh-caps=-all mount -t proc proc /mnt || echo refused", "refused\n"},
		{"on nothing", "-Urpfm --mount-proc", "mount -t proc proc /nowhere-at-all || echo refused", "refused\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			machinetest.Ways(t, func(t *testing.T, o machine.Options) {
				h := machinetest.Host(t, "dgx-a100")
				if got := machinetest.Shell(t, h, o, "unshare "+tc.namespaces+" sh -c '("+tc.script+") 2>/dev/null'"); got != tc.want {
					t.Errorf("inside: %s\nwant: %s", got, tc.want)
				}
			})
		})
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(table), "fuse.gpurig") {
		t.Errorf("outside is mounted, %v:\n%s", err, table)
	}
}
