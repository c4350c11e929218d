package machine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/runner/peers"
)

// A container is one that a runtime of OCI bundles is to run.
type container struct {
	script string
	env    []string
	user   bool // with an id map
	// plain has nothing of the driver: the root file system is this machine's with an
	// upper layer, which layers mounts. Else /usr is the entered host's, and the nodes
	// of a GPU are bound.
	plain bool
}

// layers is a script that mounts the root file system of a plain container.
const layers = `mount -t tmpfs t "$1/layers"; mkdir "$1/layers/u" "$1/layers/w"; mount -t overlay o -o "lowerdir=/,upperdir=$1/layers/u,workdir=$1/layers/w" "$1/rootfs"; `

// bundle writes the bundle to a folder.
func (c container) bundle(t testing.TB) string {
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
	if c.plain {
		mounts = append(mounts, mount("tmpfs", "tmpfs", "/run"))
	}
	for _, node := range []string{"/dev/nvidiactl", "/dev/nvidia0"} {
		if c.plain {
			break
		}
		mounts = append(mounts, mount("bind", node, node, "bind", "rw"))
	}
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"} {
		if _, err := os.Stat(p); err == nil && !c.plain {
			mounts = append(mounts, mount("bind", p, p, "rbind", "ro"))
		}
	}
	if c.user {
		namespaces = append(namespaces, object{"type": "user"})
		ids := []object{{"containerID": 0, "hostID": 100000, "size": 65536}}
		linux["uidMappings"], linux["gidMappings"] = ids, ids
	}
	linux["namespaces"] = namespaces
	caps := []string{"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_SETUID", "CAP_SETGID"}
	config := object{
		"ociVersion": "1.0.2", "root": object{"path": "rootfs"}, "linux": linux, "mounts": mounts,
		"process": object{"args": []string{"/bin/sh", "-euc", c.script}, "cwd": "/", "env": append(c.env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"), "user": object{"uid": 0, "gid": 0},
			"capabilities": object{"bounding": caps, "effective": caps, "permitted": caps}},
	}
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644)
	}
	for _, d := range []string{"rootfs", "layers"} {
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, d), 0o755)
		}
	}
	if err == nil && c.user {
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
	const want = "115\nGPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-e238eea8-d874-28b7-eb56-6f955ea8eec1)\ncat: /dev/nvidia0: No such device or address\nlo\nNVRM version1\n"
	for name, user := range map[string]bool{"privileged": false, "with an id map": true} {
		t.Run(name, func(t *testing.T) {
			h := machinetest.Host(t, "dgx-a100")
			dir := container{script: script, user: user}.bundle(t)
			id := fmt.Sprintf("gpurig-test-%d", os.Getpid())
			got, exit := machinetest.Run(t, h, machinetest.Working(t, h, machine.Options{}), "runc", "--root", t.TempDir(), "run", "-b", dir, id)
			if exit != 0 || got != want {
				t.Errorf("exit code %d, in the container: %s\nwant %s", exit, got, want)
			}
		})
	}
}

// NVIDIA's runtime, unmodified and with its default hooks, gives a container the
// GPUs in each of its modes, also in the one that runs nvidia-container-cli.
func TestNVIDIAsRuntimeFindsTheHost(t *testing.T) {
	machinetest.RequireNodes(t)
	if _, err := exec.LookPath("runc"); err != nil {
		machinetest.Skip(t, "%v", err)
	}
	programs := filepath.Dir(peers.Path(t, "nvidia-container-runtime"))
	const (
		dgx  = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-e238eea8-d874-28b7-eb56-6f955ea8eec1)\nModifyDeviceFiles: 0\n"
		orin = "GPU 0: Orin (nvgpu) (UUID: 20d87f82-200a-32e3-ab10-6b4c4eab9eca)\nModifyDeviceFiles: 1\n"
	)
	for _, tc := range []struct {
		profile, mode, want string
		exit                int
	}{
		{"dgx-a100", "auto", dgx, 0},
		{"dgx-a100", "cdi", dgx, 0},
		{"dgx-a100", "jit-cdi", dgx, 0},
		{"dgx-a100", "legacy", "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-e238eea8-d874-28b7-eb56-6f955ea8eec1)\nModifyDeviceFiles: 1\n", 0},
		{"jetson-agx-orin", "auto", orin, 0},
		{"jetson-agx-orin", "csv", orin, 0},
	} {
		t.Run(tc.profile+" "+tc.mode, func(t *testing.T) {
			h := machinetest.Host(t, tc.profile)
			c := container{plain: true, env: []string{"NVIDIA_VISIBLE_DEVICES=0"}, script: "nvidia-smi -L; grep ModifyDevice /proc/driver/nvidia/params"}
			script := `cp "$2"/nvidia-* /usr/bin; mkdir -p /etc/nvidia-container-runtime /etc/cdi
printf '[nvidia-container-runtime]\nmode = "%s"\n' "$3" > /etc/nvidia-container-runtime/config.toml
[ "$3" != cdi ] || nvidia-ctk --quiet cdi generate --output /etc/cdi/nvidia.yaml
` + layers + `R="nvidia-container-runtime --root $1/state"; $R create -b "$1" "$4"; $R start "$4"
while $R state "$4" | grep -q '"running"'; do sleep 0.1; done; $R delete "$4"`
			got, exit := machinetest.Run(t, h, containerCLI(t, h), "sh", "-euc", script, "sh", c.bundle(t), programs, tc.mode, fmt.Sprintf("gpurig-test-%d", os.Getpid()))
			if exit != tc.exit || !strings.Contains(got, tc.want) {
				t.Errorf("exit code %d, it says: %s\nwant %d, %s", exit, got, tc.exit, tc.want)
			}
		})
	}
}

// A container of LXC, with what it does to /proc and /sys by itself.
func TestLXCFindsTheHost(t *testing.T) {
	machinetest.RequireNodes(t)
	if _, err := exec.LookPath("lxc-execute"); err != nil {
		machinetest.Skip(t, "%v", err)
	}
	const (
		script = "ls /sys/bus/pci/devices | grep -c :; cat /proc/sys/kernel/osrelease; nvidia-smi -L; ls /sys/class/net; echo 1500 > /sys/class/net/lo/mtu || echo read-only; echo 1 > /sys/bus/pci/rescan || echo read-only"
		want   = "115\n5.15.0-1053-nvidia\nGPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-e238eea8-d874-28b7-eb56-6f955ea8eec1)\nlo\n"
	)
	for _, tc := range []struct{ auto, idmap, want string }{
		{"proc:mixed sys:mixed", "", want + "read-only\n"},
		{"proc:mixed sys:mixed", "0 100000 65536", want + "read-only\n"},
		{"proc:rw sys:ro", "0 100000 65536", want + "read-only\nread-only\n"},
	} {
		t.Run(tc.auto+" "+tc.idmap, func(t *testing.T) {
			dir := container{}.bundle(t) // for its folders
			config := "lxc.rootfs.path = dir:" + dir + "/rootfs\nlxc.net.0.type = empty\nlxc.mount.auto = " + tc.auto + "\nlxc.mount.entry = /usr usr none rbind,ro 0 0\n"
			for _, node := range []string{"nvidiactl", "nvidia0"} {
				config += "lxc.mount.entry = /dev/" + node + " dev/" + node + " none bind,create=file 0 0\n"
			}
			own := ""
			if tc.idmap != "" {
				config += "lxc.idmap = u " + tc.idmap + "\nlxc.idmap = g " + tc.idmap + "\n"
				own = `chown 100000:100000 "$1/rootfs"; `
			}
			if err := os.WriteFile(dir+"/config", []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
			h := machinetest.Host(t, "dgx-a100")
			got, exit := machinetest.Run(t, h, machinetest.Working(t, h, machine.Options{}), "sh", "-euc",
				layers+own+`lxc-execute -P "$1" -n test -f "$1/config" -o "$1/log" -- sh -c "$2" 2>/dev/null || cat "$1/log"`, "sh", dir, script)
			if exit != 0 || got != tc.want {
				t.Errorf("exit code %d, in the container: %s\nwant %s", exit, got, tc.want)
			}
		})
	}
}
