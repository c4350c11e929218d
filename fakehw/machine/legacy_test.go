package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/live"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/userspace"
	"gpurig/runner/peers"
)

// containerCLI adds our nvidia-container-cli, which make build makes, to a machine.
func containerCLI(t *testing.T, h *live.Host) machine.Options {
	t.Helper()
	program, err := filepath.Abs("../../bin/nvidia-container-cli")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		machinetest.Skip(t, "%v: make build makes it", err)
	}
	o := machinetest.Working(t, h, machine.Options{})
	o.Files[userspace.ContainerCLI] = userspace.ContainerCLIScript(program)
	return o
}

// smallRoot is a script that makes a root file system in $1/rootfs with a few
// programs, their libraries and nothing of a driver.
const smallRoot = `r=$1/rootfs
mkdir -p "$r/usr/bin" "$r/usr/lib64" "$r/usr/lib/x86_64-linux-gnu" "$r/etc" "$r/proc" "$r/sys" "$r/dev" "$r/run" "$r/tmp"
for l in bin lib lib64; do ln -sfn usr/$l "$r/$l"; done
for b in sh ls cat grep; do
	cp -L "$(command -v $b)" "$r/usr/bin/$b"
	for l in $(ldd "$(command -v $b)" | grep -o '/[^ ]*'); do cp -L "$l" "$r/usr/lib/x86_64-linux-gnu/"; done
done
for l in libdl.so.2 libpthread.so.0 libm.so.6; do cp -L /lib/x86_64-linux-gnu/$l "$r/usr/lib/x86_64-linux-gnu/"; done
cp -L /lib64/ld-linux-x86-64.so.2 "$r/usr/lib64/"
`

// LXC's hook nvidia, as a distribution ships it and as LXD's nvidia.runtime runs it,
// gives an unprivileged container what it asks for, or stops its start with the reason.
func TestLXCsHookGivesTheDriver(t *testing.T) {
	machinetest.RequireNodes(t)
	const hook = "/usr/share/lxc/hooks/nvidia"
	for _, p := range []string{"/usr/bin/lxc-execute", hook} {
		if _, err := os.Stat(p); err != nil {
			machinetest.Skip(t, "%v", err)
		}
	}
	const inside = `nvidia-smi -L | grep -c .; ls /dev | grep nvidia; ls /usr/lib/x86_64-linux-gnu | grep -c nvcuvid; grep -c libcuda.so.1 /etc/ld.so.cache`
	for name, tc := range map[string]struct {
		profile, env, want string
		fails              bool
	}{
		"one GPU":           {"dgx-a100", "NVIDIA_VISIBLE_DEVICES=0", "1\nnvidia0\nnvidiactl\n0\n0\n", false},
		"for computing":     {"dgx-a100", "NVIDIA_VISIBLE_DEVICES=0 NVIDIA_DRIVER_CAPABILITIES=compute,utility", "1\nnvidia-uvm\nnvidia-uvm-tools\nnvidia0\nnvidiactl\n0\n1\n", false},
		"all of the driver": {"t4-server", "NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=all", "2\nnvidia-modeset\nnvidia-uvm\nnvidia-uvm-tools\nnvidia0\nnvidia1\nnvidiactl\n3\n1\n", false},
		"a MIG device":      {"a100-mig-mixed", "NVIDIA_VISIBLE_DEVICES=0:0 NVIDIA_DRIVER_CAPABILITIES=utility", "2\nnvidia-caps\nnvidia2\nnvidiactl\n0\n0\n", false},
		"no such GPU":       {"t4-server", "NVIDIA_VISIBLE_DEVICES=7", `"7": unknown device`, true},
		"a newer CUDA":      {"t4-server", "NVIDIA_VISIBLE_DEVICES=0 NVIDIA_REQUIRE_CUDA=cuda>=99.0", "unsatisfied condition: cuda>=99.0", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := container{}.bundle(t) // for its folders
			config := "lxc.rootfs.path = dir:" + dir + "/rootfs\nlxc.net.0.type = empty\nlxc.mount.auto = proc:mixed sys:mixed\nlxc.autodev = 1\n" +
				"lxc.idmap = u 0 100000 65536\nlxc.idmap = g 0 100000 65536\nlxc.hook.mount = " + hook + "\n"
			for _, v := range strings.Fields(tc.env) {
				config += "lxc.environment = " + v + "\n"
			}
			if err := os.WriteFile(dir+"/config", []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
			h := machinetest.Host(t, tc.profile)
			got, exit := machinetest.Run(t, h, containerCLI(t, h), "sh", "-euc",
				smallRoot+`chown -R 100000:100000 "$1"; lxc-execute -P "$1" -n test -f "$1/config" -o "$1/log" -l DEBUG -- sh -c "$2" 2>/dev/null || { cat "$1/hook/nvidia.log"; exit 1; }`, "sh", dir, inside+"; true")
			if tc.fails {
				if exit == 0 || !strings.Contains(got, tc.want) {
					t.Errorf("exit code %d: %s\nwant %s", exit, got, tc.want)
				}
			} else if exit != 0 || got != tc.want {
				t.Errorf("exit code %d, in the container: %s\nwant %s", exit, got, tc.want)
			}
		})
	}
}

// docker run --gpus, of an unmodified engine and NVIDIA's unmodified hook, gives GPUs
// whose nodes the device cgroup lets the container open, and no others.
func TestDockerRunGPUs(t *testing.T) {
	machinetest.RequireNodes(t)
	for _, p := range []string{"dockerd", "docker"} {
		if _, err := exec.LookPath(p); err != nil {
			machinetest.Skip(t, "%v", err)
		}
	}
	programs := filepath.Dir(peers.Path(t, "nvidia-container-runtime-hook"))
	h := machinetest.Host(t, "dgx-a100")
	const script = smallRoot + `cp "$2"/nvidia-container-runtime-hook /usr/bin
export DOCKER_HOST="unix://$1/docker.sock"
echo '{}' > "$1/daemon.json"
dockerd --config-file "$1/daemon.json" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" -H "$DOCKER_HOST" --iptables=false --bridge=none --storage-driver vfs > "$1/log" 2>&1 &
D=$!
trap 'kill $D; wait $D' EXIT
for i in $(seq 200); do docker version >/dev/null 2>&1 && break; sleep 0.1; done
tar -C "$r" -c . | docker import - small >/dev/null
run() { docker run --rm --network none "$@" 2>&1 || true; }
run --gpus '"device=1"' small sh -c 'nvidia-smi -L; ls /dev | grep nvidia; cat /dev/nvidia1 2>&1'
run --gpus all small sh -c 'ls /dev | grep -c "nvidia[0-9]"'
run --gpus 1 -e "NVIDIA_REQUIRE_CUDA=cuda>=99" small sh -c true | grep -o "unsatisfied condition: .*99"
`
	got, exit := machinetest.Run(t, h, containerCLI(t, h), "sh", "-euc", script, "sh", t.TempDir(), programs)
	const want = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-03a2623c-0176-8648-22c4-3cc52ef9e179)\nnvidia-uvm\nnvidia-uvm-tools\nnvidia1\nnvidiactl\ncat: /dev/nvidia1: No such device or address\n8\nunsatisfied condition: cuda>=99\n"
	if exit != 0 || got != want {
		t.Errorf("exit code %d: %s\nwant %s", exit, got, want)
	}
}
