package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nativeScript has LXD start a container with a GPU device of its own, and lists
// the nodes that are in it then, or what LXD says instead. It gets a folder, and the
// options of the device. The container is privileged: the kernel lets no id-mapped
// one mount a /proc while files of the fake machine cover some of the real one.
const nativeScript = `
dir=$1; shift
export LXD_DIR=$dir/lxd HOME=$dir
mkdir -p "$LXD_DIR" "$dir/image/rootfs/bin"
for d in dev proc sys etc sbin; do mkdir "$dir/image/rootfs/$d"; done
cp /bin/busybox "$dir/image/rootfs/bin/"
printf 'architecture: x86_64\ncreation_date: 1\n' > "$dir/image/metadata.yaml"
tar -C "$dir/image" -cf "$dir/image.tar" metadata.yaml rootfs
cd /
unshare --net lxd --logfile "$dir/log" > "$dir/said" 2>&1 &
{
	lxd waitready --timeout=50
	lxc storage create pool dir
	lxc image import "$dir/image.tar" --alias image
	lxc init image c1 -s pool -c security.privileged=true -c raw.lxc='lxc.init.cmd = /bin/busybox sleep 1000'
	lxc config device add c1 gpu0 gpu "$@"
} > "$dir/setup" 2>&1 < /dev/null || { cat "$dir/setup"; exit 2; }
lxc start c1 < /dev/null 2>&1 || exit 0
exec lxc exec c1 -- /bin/busybox find /dev -name 'nvidia*' -o -name 'card*' -o -name 'render*'`

var (
	nodePath    = regexp.MustCompile(`(?m)^ +path: "(/dev/(?:nvidia|dri/).*)"$`)
	ansiControl = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\r`)
)

// native starts a container with LXD's own GPU device, and returns its nodes, or
// LXD's words.
func native(t *testing.T, name string, options ...string) (nodes []string, said string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpurig-lxd-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // for the container's root
		t.Fatal(err)
	}
	r := enter(t, name, append([]string{"sh", "-euc", nativeScript, "sh", dir}, options...)...)
	if r.exit != 0 {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("exit %d: %s%s\n%s", r.exit, r.out, r.err, log)
	}
	for line := range strings.Lines(ansiControl.ReplaceAllString(r.out, "")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/dev/") {
			nodes = append(nodes, line)
		} else {
			said += line + "\n"
		}
	}
	slices.Sort(nodes)
	return nodes, said
}

// requireLXD50 skips where LXD is another than what is told here of.
func requireLXD50(t *testing.T) {
	t.Helper()
	requireNodes(t)
	requireProgram(t, "lxc", "lxd-client")
	out, err := exec.Command(requireProgram(t, "lxd", "lxd"), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if v := strings.TrimSpace(string(out)); !strings.HasPrefix(v, "5.0.") {
		missing(t, "what is told here is of LXD 5.0, and this is "+v)
	}
}

// LXD's own GPU device gives a container the nodes of our plan, and what is listed
// here: each such line is something that an engineer of LXD would want to know.
// Libraries are not compared: LXD 5.0.2 has NVIDIA's runtime put them in, or nobody.
func TestLXDGPUDeviceGivesTheNodesOfThePlan(t *testing.T) {
	requireLXD50(t)
	// Whatever /dev/nvidia-* there is goes to each container with an NVIDIA GPU.
	fabric := []string{"/dev/nvidia-nvlink", "/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitch1", "/dev/nvidia-nvswitch2",
		"/dev/nvidia-nvswitch3", "/dev/nvidia-nvswitch4", "/dev/nvidia-nvswitch5", "/dev/nvidia-nvswitchctl"}
	for _, c := range []struct {
		name, host string
		lxd, ours  []string // options
		more, less []string // what LXD 5.0.2 gives beyond the plan, and what not
	}{
		{"by address", "dgx-a100", []string{"gputype=physical", "pci=0000:0f:00.0"}, []string{"--pci", "0000:0f:00.0"}, fabric, nil},
		{"one of two vendors by address", "workstation", []string{"pci=0000:0a:00.0"}, []string{"--pci", "0000:0a:00.0"}, nil, nil},
		// With a DRM id LXD does not look which NVIDIA GPU it is: all of them are passed.
		{"by DRM id", "dgx-a100", []string{"id=2"}, []string{"--id", "2"}, append([]string{
			"/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia3", "/dev/nvidia4", "/dev/nvidia5", "/dev/nvidia6", "/dev/nvidia7"}, fabric...), nil},
		// … even where the id is that of an AMD GPU, whose /dev/kfd LXD does not know.
		{"AMD by DRM id", "workstation", []string{"id=0"}, []string{"--id", "0"}, []string{
			"/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0", "/dev/nvidiactl"}, nil},
		// Without the extension gpu_cdi a CDI name is an id that fits no DRM card, and no error.
		{"by CDI name", "workstation", []string{"id=nvidia.com/gpu=0"}, []string{"--id", "nvidia.com/gpu=0"}, nil, []string{"/dev/dri/card1", "/dev/dri/renderD129"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, said := native(t, c.host, c.lxd...)
			made := gpurig(t, append([]string{"translate", "--host", c.host, "--to", "lxd", "--hook-path", "/hook", "--hook-file", "/file"}, c.ours...)...)
			if made.exit != 0 {
				t.Fatalf("translate: %s", made.err)
			}
			want := c.more
			for _, m := range nodePath.FindAllStringSubmatch(made.out, -1) {
				if !slices.Contains(c.less, m[1]) {
					want = append(slices.Clip(want), m[1])
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("nodes of LXD's own device:\n%s\nwant those of the plan, and what LXD does in its own way:\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), said)
			}
		})
	}
}

// What LXD 5.0.2 says of devices that it cannot pass by itself, word for word.
func TestLXDGPUDeviceThatLXDRefuses(t *testing.T) {
	requireLXD50(t)
	for _, c := range []struct {
		name, host string
		options    []string
		want       string
	}{
		{"MIG without NVIDIA's runtime", "a100-mig-2g-3g", []string{"gputype=mig", "pci=0000:65:00.0", "mig.uuid=MIG-f6e2059a-5ad8-55ca-8ab7-f7a0c0ccaeb1"},
			"nvidia.runtime must be set to true for MIG GPUs to work"},
		{"no such GPU", "workstation", []string{"pci=0000:7f:00.0"}, "Invalid PCI address (no device found): 0000:7f:00.0"},
		{"no GPU of that vendor", "workstation", []string{"vendorid=8086"}, "Failed to detect requested GPU device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes, said := native(t, c.host, c.options...)
			if len(nodes) > 0 || !strings.Contains(said, c.want) {
				t.Errorf("nodes %q, LXD says %q; want none, and %q", nodes, said, c.want)
			}
		})
	}
}
