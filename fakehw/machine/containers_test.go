package machine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// bundle makes a bundle for runc with this machine's /usr that runs a script with
// what the files and nodes that a CDI Spec names.
func bundle(t *testing.T, script string, user bool) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	type object = map[string]any
	mount := func(kind, from, to string, options ...string) object {
		return object{"destination": to, "type": kind, "source": from, "options": options}
	}
	namespaces := []object{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}}
	linux := object{"maskedPaths": []string{"/proc/acpi", "/proc/keys", "/sys/firmware"}, "readonlyPaths": []string{"/proc/bus", "/proc/sys"},
		"resources": object{"devices": []object{{"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "major": 195, "access": "rw"}}}}
	mounts := []object{
		mount("proc", "proc", "/proc"), mount("sysfs", "sysfs", "/sys", "nosuid", "noexec", "nodev", "ro"),
		mount("tmpfs", "tmpfs", "/dev", "mode=755"), mount("tmpfs", "tmpfs", "/tmp"),
	}
	for _, node := range []string{"/dev/nvidiactl", "/dev/nvidia0"} {
		mounts = append(mounts, mount("bind", node, node, "bind", "rw"))
	}
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"} {
		if _, err := os.Stat(p); err == nil {
			mounts = append(mounts, mount("bind", p, p, "rbind", "ro"))
		}
	}
	if user {
		namespaces = append(namespaces, object{"type": "user"})
		ids := []object{{"containerID": 0, "hostID": 100000, "size": 65536}}
		linux["uidMappings"], linux["gidMappings"] = ids, ids
	}
	linux["namespaces"] = namespaces
	caps := []string{"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_SETUID", "CAP_SETGID"}
	config := object{
		"ociVersion": "1.0.2", "root": object{"path": "rootfs"}, "linux": linux, "mounts": mounts,
		"process": object{"args": []string{"/bin/sh", "-euc", script}, "cwd": "/", "env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "user": object{"uid": 0, "gid": 0},
			"capabilities": object{"bounding": caps, "effective": caps, "permitted": caps}},
	}
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "rootfs"), 0o755)
	}
	if err == nil && user {
		err = os.Chown(filepath.Join(dir, "rootfs"), 100000, 100000)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A container that runc starts, with the files of the driver mounted into it, finds
// the GPUs, and so does one that is started in it.
func TestAContainerFindsTheHost(t *testing.T) {
	machinetest.RequireNodes(t)
	if _, err := exec.LookPath("runc"); err != nil {
		machinetest.Skip(t, "%v", err)
	}
	const script = `ls /sys/bus/pci/devices | grep -c :
nvidia-smi -L
test ! -e /run/gpurig
cat /dev/nvidia0 2>&1 || true
ls /sys/class/net
unshare -pfmn --mount-proc sh -c "head -c 12 /proc/driver/nvidia/version; nvidia-smi -L | wc -l"`
	const want = "21\nGPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-e238eea8-d874-28b7-eb56-6f955ea8eec1)\ncat: /dev/nvidia0: No such device or address\nlo\nNVRM version1\n"
	for name, user := range map[string]bool{"privileged": false, "with an id map": true} {
		t.Run(name, func(t *testing.T) {
			h := machinetest.Host(t, "dgx-a100")
			dir := bundle(t, script, user)
			id := fmt.Sprintf("gpurig-test-%d", os.Getpid())
			got, exit := machinetest.Run(t, h, machinetest.Working(t, h, machine.Options{}), "runc", "--root", t.TempDir(), "run", "-b", dir, id)
			if exit != 0 || got != want {
				t.Errorf("exit code %d, in the container: %s\nwant %s", exit, got, want)
			}
		})
	}
}
