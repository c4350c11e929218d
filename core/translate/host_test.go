package translate_test

import (
	"encoding/json"
	"io/fs"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/core/translate"
	"gpurig/fakehw/tree"
)

const lib = "/usr/lib/x86_64-linux-gnu"

// newHost returns a host with two GPUs, a merged /usr and driver 550.163.01.
func newHost(t testing.TB) *tree.Tree {
	t.Helper()
	h := tree.New()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(p, data string) { t.Helper(); do(h.WriteFile(p, []byte(data), 0o644)) }
	node := func(p string, major, minor uint32, mode fs.FileMode, gid uint32) {
		t.Helper()
		do(h.Mknod(device.Node{Path: p, Type: device.Char, Num: device.Num{Major: major, Minor: minor}, Mode: mode, GID: gid}))
	}
	do(h.Mkdir("/usr/lib", 0o755))
	do(h.Symlink("/lib", "usr/lib"))
	do(h.Mkdir("/run", 0o755))
	do(h.Mkdir("/var", 0o755))
	do(h.Symlink("/var/run", "/run"))
	file("/proc/devices", "Character devices:\n  1 mem\n 10 misc\n 29 fb\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n226 drm\n508 nvidia-uvm\n511 nvidia-caps\n\nBlock devices:\n  7 loop\n  8 sd\n")
	file("/proc/misc", "232 kvm\n 60 nvmap\n")
	node("/dev/nvidia0", 195, 0, 0o666, 0)
	node("/dev/nvidia1", 195, 1, 0o666, 0)
	node("/dev/nvidiactl", 195, 255, 0o666, 0)
	node("/dev/nvidia-modeset", 195, 254, 0o666, 0)
	node("/dev/nvidia-uvm", 508, 0, 0o666, 0)
	node("/dev/nvidia-uvm-tools", 508, 1, 0o666, 0)
	node("/dev/dri/card0", 226, 0, 0o660, 44)
	node("/dev/dri/card1", 226, 1, 0o660, 44)
	node("/dev/dri/renderD128", 226, 128, 0o660, 105)
	node("/dev/dri/renderD129", 226, 129, 0o660, 105)
	node("/dev/mem", 1, 1, 0o640, 15)
	node("/dev/null", 1, 3, 0o666, 0)
	node("/dev/kvm", 10, 232, 0o660, 0)
	node("/dev/nvmap", 10, 60, 0o660, 44)
	node("/dev/fb0", 29, 0, 0o660, 44)
	do(h.Mknod(device.Node{Path: "/dev/sda", Type: device.Block, Num: device.Num{Major: 8}, Mode: 0o660}))
	do(h.Symlink("/dev/dri/by-path/pci-0000:41:00.0-card", "../card1"))
	for _, f := range []string{"libcuda.so.550.163.01", "libnvidia-ml.so.550.163.01", "libnvidia-ptxjitcompiler.so.550.163.01"} {
		file(lib+"/"+f, f)
	}
	do(h.Symlink(lib+"/libcuda.so.1", "libcuda.so.550.163.01"))
	do(h.Symlink(lib+"/libcuda.so", "libcuda.so.1"))
	file("/usr/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin", "gsp")
	file("/usr/bin/nvidia-smi", "smi")
	file("/usr/share/vulkan/icd.d/nvidia_icd.json", "{}")
	file("/etc/shadow", "x")
	do(h.Mkdir("/usr/share/nvidia/rules", 0o755))
	do(h.Socket("/run/nvidia-persistenced/socket", 0o777))
	do(h.Fifo("/usr/lib/fifo", 0o644))
	return h
}

func ptr[T any](v T) *T { return &v }

func roMount(from, to string) *specs.Mount {
	return &specs.Mount{HostPath: from, ContainerPath: to, Options: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}}
}

func hook(args ...string) *specs.Hook {
	return &specs.Hook{
		HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook",
		Args: append([]string{"nvidia-cdi-hook"}, args...), Env: []string{"NVIDIA_CTK_DEBUG=false"},
	}
}

// gpuNode is a node as the toolkit writes it: minor 0 left out, permissions rwm.
func gpuNode(p string, major, minor int64, mode fs.FileMode, gid uint32) *specs.DeviceNode {
	n := &specs.DeviceNode{Path: p, Major: major, Minor: minor, FileMode: &mode, Permissions: "rwm"}
	if gid != 0 {
		n.GID = &gid
	}
	return n
}

// gpuEdits are the edits that the toolkit writes for GPU n of newHost.
func gpuEdits(n int64) cdi.Edits {
	card := string(rune('0' + n))
	bus := []string{"07", "41"}[n]
	return cdi.Edits{Device: "nvidia.com/gpu=" + card, Kind: "nvidia.com/gpu", Spec: "generated", Edits: &specs.ContainerEdits{
		DeviceNodes: []*specs.DeviceNode{
			gpuNode("/dev/nvidia"+card, 195, n, 0o666, 0),
			gpuNode("/dev/dri/card"+card, 226, n, 0o660, 44),
			gpuNode("/dev/dri/renderD"+[]string{"128", "129"}[n], 226, 128+n, 0o660, 105),
		},
		AdditionalGIDs: []uint32{44, 105},
		Hooks: []*specs.Hook{hook("create-symlinks",
			"--link", "../card"+card+"::/dev/dri/by-path/pci-0000:"+bus+":00.0-card",
			"--link=../renderD"+[]string{"128", "129"}[n]+"::/dev/dri/by-path/pci-0000:"+bus+":00.0-render")},
	}}
}

// commonEdits are those that every device of the Spec needs.
func commonEdits() cdi.Edits {
	return cdi.Edits{Kind: "nvidia.com/gpu", Spec: "generated", Edits: &specs.ContainerEdits{
		Env: []string{"NVIDIA_CTK_LIBCUDA_DIR=" + lib, "NVIDIA_VISIBLE_DEVICES=void"},
		DeviceNodes: []*specs.DeviceNode{
			gpuNode("/dev/nvidia-modeset", 195, 254, 0o666, 0),
			gpuNode("/dev/nvidia-uvm", 508, 0, 0o666, 0),
			gpuNode("/dev/nvidia-uvm-tools", 508, 1, 0o666, 0),
			gpuNode("/dev/nvidiactl", 195, 255, 0o666, 0),
		},
		Hooks: []*specs.Hook{
			hook("create-symlinks", "--link", "libcuda.so.1::"+lib+"/libcuda.so", "--link", "libcuda.so.550.163.01::"+lib+"/libcuda.so.1"),
			hook("enable-cuda-compat", "--host-driver-version=550.163.01"),
			hook("update-ldcache", "--folder", lib),
			hook("disable-device-node-modification"),
			hook("update-application-profile"),
		},
		Mounts: []*specs.Mount{
			roMount(lib+"/libcuda.so.550.163.01", lib+"/libcuda.so.550.163.01"),
			roMount(lib+"/libnvidia-ml.so.550.163.01", lib+"/libnvidia-ml.so.550.163.01"),
			roMount("/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin", "/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin"),
			roMount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),
			{HostPath: "/run/nvidia-persistenced/socket", ContainerPath: "/run/nvidia-persistenced/socket", Options: []string{"nosuid", "nodev", "rbind", "rprivate", "noexec"}},
		},
	}}
}

func mustEdits(t testing.TB, h *tree.Tree, opts translate.Options, edits ...cdi.Edits) plan.Plan {
	t.Helper()
	p, err := translate.Edits(h, edits, opts)
	if err != nil {
		t.Fatalf("Edits: %v", err)
	}
	return p
}

// one wraps edits as those of device 0.
func one(e *specs.ContainerEdits) cdi.Edits {
	return cdi.Edits{Device: "nvidia.com/gpu=0", Kind: "nvidia.com/gpu", Edits: e}
}

func toJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func editsOf(e specs.ContainerEdits) []cdi.Edits { return []cdi.Edits{one(&e)} }

func refusal(err error) *refuse.Error {
	if all := refuse.As(err); len(all) > 0 {
		return all[0]
	}
	return nil
}
