package translate_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/core/policy"
	"gpurig/core/refuse"
	"gpurig/core/translate"
	"gpurig/fakehw/tree"
)

// A refusal case changes host, options or edits in one way.
type refusalCase struct {
	name  string
	edits specs.ContainerEdits
	opts  translate.Options
	host  func(*tree.Tree) error
	want  refuse.Reason
	says  string // part of the message
}

func nodes(n ...*specs.DeviceNode) specs.ContainerEdits {
	return specs.ContainerEdits{DeviceNodes: n}
}
func mounts(m ...*specs.Mount) specs.ContainerEdits { return specs.ContainerEdits{Mounts: m} }
func hooks(h ...*specs.Hook) specs.ContainerEdits   { return specs.ContainerEdits{Hooks: h} }
func env(e ...string) specs.ContainerEdits          { return specs.ContainerEdits{Env: e} }

func nodeWith(change func(*specs.DeviceNode)) specs.ContainerEdits {
	n := &specs.DeviceNode{Path: "/dev/nvidia0"}
	change(n)
	return nodes(n)
}

func mountWith(options ...string) specs.ContainerEdits {
	return mounts(&specs.Mount{HostPath: "/usr/bin/nvidia-smi", ContainerPath: "/usr/bin/nvidia-smi", Options: options})
}

func (tc refusalCase) run(t *testing.T) {
	h := newHost(t)
	if tc.host != nil {
		if err := tc.host(h); err != nil {
			t.Fatal(err)
		}
	}
	p, err := translate.Edits(h, editsOf(tc.edits), tc.opts)
	if !errors.Is(err, tc.want) {
		t.Fatalf("Edits = %v, want a refusal with reason %s", err, tc.want)
	}
	if !strings.Contains(err.Error(), tc.says) {
		t.Errorf("the message %q does not say %q", err, tc.says)
	}
	if len(p.Nodes)+len(p.Mounts)+len(p.Links)+len(p.Env)+len(p.Notes) > 0 {
		t.Errorf("a refusal came with a plan: %+v", p)
	}
	for _, e := range refuse.As(err) {
		if strings.ContainsAny(e.Error(), "\n\x1b\x00") || e.Where == "" {
			t.Errorf("refusal %q has no place or is not one clean line", e)
		}
	}
}

func TestNodeRefusals(t *testing.T) {
	for _, tc := range []refusalCase{
		{name: "A28 the Spec's number is the host's memory", edits: nodeWith(func(n *specs.DeviceNode) { n.Major, n.Minor = 1, 1 }), want: translate.ReasonNodeNum, says: "1:1 in the Spec, and /dev/nvidia0 is 195:0"},
		{name: "A28 the host's node is a link to memory", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia7"}),
			host: func(h *tree.Tree) error { return h.Symlink("/dev/nvidia7", "mem") }, want: translate.ReasonNodeType, says: "link to /dev/mem"},
		{name: "A29 memory", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia0", HostPath: "/dev/mem"}), want: translate.ReasonDriver, says: `"mem"`},
		{name: "A29 kvm, which shares the major of misc devices", edits: nodes(&specs.DeviceNode{Path: "/dev/kvm"}), want: translate.ReasonDriver, says: `"kvm"`},
		{name: "A29 a disk", edits: nodes(&specs.DeviceNode{Path: "/dev/sda"}), want: translate.ReasonNodeType, says: "block device"},
		{name: "A29 a frame buffer of a PC", edits: nodes(&specs.DeviceNode{Path: "/dev/fb0"}), want: translate.ReasonDriver, says: `"fb"`},
		{name: "A29 a number that no driver has", edits: nodes(&specs.DeviceNode{Path: "/dev/odd"}), host: func(h *tree.Tree) error {
			return h.Mknod(device.Node{Path: "/dev/odd", Type: device.Char, Num: device.Num{Major: 250, Minor: 1}, Mode: 0o666})
		}, want: translate.ReasonDriver, says: "no driver"},
		{name: "A35 the control node of VFIO", edits: nodes(&specs.DeviceNode{Path: "/dev/vfio/vfio"}), host: func(h *tree.Tree) error {
			return errors.Join(h.WriteFile("/proc/misc", []byte("196 vfio\n"), 0o444),
				h.Mknod(device.Node{Path: "/dev/vfio/vfio", Type: device.Char, Num: device.Num{Major: 10, Minor: 196}, Mode: 0o666}))
		}, want: translate.ReasonDriver, says: `"vfio"`},
		{name: "A35 a VFIO group, which is wider than the GPU", edits: nodes(&specs.DeviceNode{Path: "/dev/vfio/12"}), host: func(h *tree.Tree) error {
			return errors.Join(h.WriteFile("/proc/devices", []byte("Character devices:\n243 vfio\n"), 0o444),
				h.Mknod(device.Node{Path: "/dev/vfio/12", Type: device.Char, Num: device.Num{Major: 243, Minor: 0}, Mode: 0o600}))
		}, want: translate.ReasonDriver, says: `"vfio"`},
		{name: "F20 two GPUs have exchanged their minors", edits: nodes(gpuNode("/dev/nvidia0", 195, 0, 0o666, 0)), host: func(h *tree.Tree) error {
			return errors.Join(h.Remove("/dev/nvidia0"), h.Mknod(device.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195, Minor: 1}, Mode: 0o666}))
		}, want: translate.ReasonNodeNum, says: "195:1"},
		{name: "drivers cannot be read", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia0"}), host: func(h *tree.Tree) error { return h.Remove("/proc/devices") }, want: translate.ReasonDriverTab, says: "/proc/devices"},
		{name: "B22 negative", edits: nodeWith(func(n *specs.DeviceNode) { n.Major = -1 }), want: translate.ReasonNodeNum, says: "impossible"},
		{name: "B22 too large", edits: nodeWith(func(n *specs.DeviceNode) { n.Major = 4096 }), want: translate.ReasonNodeNum, says: "impossible"},
		{name: "B22 wraps", edits: nodeWith(func(n *specs.DeviceNode) { n.Major, n.Minor = 195, 1<<32 }), want: translate.ReasonNodeNum, says: "impossible"},
		{name: "B23 half a number", edits: nodeWith(func(n *specs.DeviceNode) { n.Minor = 3 }), want: translate.ReasonNodeNum, says: "no major"},
		{name: "B23 minor 0 is a real minor", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia1", Major: 195}), want: translate.ReasonNodeNum, says: "195:0 in the Spec"},
		{name: "dynamic-major-after-reboot", edits: nodes(gpuNode("/dev/nvidia-uvm", 510, 0, 0o666, 0)), want: translate.ReasonNodeNum, says: "508:0"},
		{name: "B24 a block device", edits: nodeWith(func(n *specs.DeviceNode) { n.Type = "b" }), want: translate.ReasonNodeType, says: `"b"`},
		{name: "B24 a type in capitals", edits: nodeWith(func(n *specs.DeviceNode) { n.Type = "C" }), want: translate.ReasonNodeType},
		{name: "B24 permissions twice", edits: nodeWith(func(n *specs.DeviceNode) { n.Permissions = "rrr" }), want: translate.ReasonNodePerm, says: `"rrr"`},
		{name: "B24 permission x", edits: nodeWith(func(n *specs.DeviceNode) { n.Permissions = "rwx" }), want: translate.ReasonNodePerm},
		{name: "B24 permissions with a blank", edits: nodeWith(func(n *specs.DeviceNode) { n.Permissions = " rw" }), want: translate.ReasonNodePerm},
		{name: "octal-vs-decimal: mode beyond 0777", edits: nodeWith(func(n *specs.DeviceNode) { n.FileMode = ptr(fs.FileMode(0o1232)) }), want: translate.ReasonNodeMode, says: "01232"},
		{name: "B26 F20 no such node, or no more", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia9"}), want: translate.ReasonNodeGone, says: "/dev/nvidia9"},
		{name: "caps-dir-as-device", edits: nodes(&specs.DeviceNode{Path: "/dev/dri"}), want: translate.ReasonNodeType, says: "a directory"},
		{name: "B26 a regular file", edits: nodes(&specs.DeviceNode{Path: "/dev/x", HostPath: "/etc/shadow"}), want: translate.ReasonNodeType, says: "regular file"},
		{name: "B21 null", edits: nodes(nil), want: translate.ReasonNull, says: "deviceNodes[0]"},
		{name: "B27 two numbers at one path", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia0"}, &specs.DeviceNode{Path: "/dev/nvidia0", HostPath: "/dev/nvidia1"}), want: translate.ReasonConflict, says: "195:1"},
		{name: "B27 two modes at one path", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia0"}, &specs.DeviceNode{Path: "/dev/nvidia0", FileMode: ptr(fs.FileMode(0o600))}), want: translate.ReasonConflict, says: "0600"},
		{name: "a node below a node", edits: nodes(&specs.DeviceNode{Path: "/dev/nvidia0"}, &specs.DeviceNode{Path: "/dev/nvidia0/x", HostPath: "/dev/nvidia1"}), want: translate.ReasonInTheWay, says: "device node"},
		{name: "an owner outside the id map", edits: nodeWith(func(n *specs.DeviceNode) { n.GID = ptr(uint32(70000)) }),
			opts: translate.Options{IDMap: []plan.IDMap{{Host: 100000, Count: 65536}}}, want: translate.ReasonUnmapped, says: "70000"},
	} {
		t.Run(tc.name, tc.run)
	}
	for _, bad := range []string{"/etc/passwd", "nvidia0", "/dev/../etc/x", "/dev//x", "/dev/x/", "/dev/shm/x", "/dev", "/dev/null", "/dev/pts/0", "/dev/console", "/dev/tty1", "/dev/.lxd-mounts", "", "/dev/" + strings.Repeat("n", 256)} {
		refusalCase{
			edits: nodes(&specs.DeviceNode{Path: bad, HostPath: "/dev/nvidia0"}), want: translate.ReasonNodePath,
		}.named(t, "B25 path "+fmt.Sprintf("%.40q", bad))
	}
}

func (tc refusalCase) named(t *testing.T, name string) {
	t.Helper()
	t.Run(name, tc.run)
}

// A sticky folder is not everybody's: the twin of A20's open one. On a file the bit
// means nothing.
func TestAStickyFolderIsTrusted(t *testing.T) {
	for _, tc := range []struct {
		folder, file fs.FileMode
		want         error
	}{
		{fs.ModeSticky | 0o777, 0o644, nil},
		{0o777, 0o644, translate.ReasonUntrusted},
		{0o755, fs.ModeSticky | 0o666, translate.ReasonUntrusted},
	} {
		h := newHost(t)
		if err := errors.Join(h.WriteFile("/usr/share/open/f", nil, tc.file), h.Chmod("/usr/share/open", tc.folder)); err != nil {
			t.Fatal(err)
		}
		if _, err := translate.Edits(h, editsOf(mounts(roMount("/usr/share/open/f", "/usr/share/f"))), translate.Options{}); !errors.Is(err, tc.want) {
			t.Errorf("a file %v in a folder %v: %v; want %v", tc.file, tc.folder, err, tc.want)
		}
	}
}

func TestMountRefusals(t *testing.T) {
	at := func(host, container string) specs.ContainerEdits { return mounts(roMount(host, container)) }
	const smi = "/usr/bin/nvidia-smi"
	for _, tc := range []refusalCase{
		{name: "A20 a path through another process", edits: at("/proc/1/root/etc/shadow", "/usr/share/x"), host: func(h *tree.Tree) error { return h.WriteFile("/proc/1/root/etc/shadow", nil, 0) }, want: translate.ReasonSourceBad},
		{name: "A20 a file that everybody can replace", edits: at("/usr/share/open/f", "/usr/share/f"), host: func(h *tree.Tree) error {
			return errors.Join(h.WriteFile("/usr/share/open/f", nil, 0o644), h.Chmod("/usr/share/open", 0o777))
		}, want: translate.ReasonUntrusted, says: "/usr/share/open"},
		{name: "A25 a word inside a word", edits: mountWith("norelative", "ro"), want: translate.ReasonMountOpt, says: "norelative"},
		{name: "A25 idmap=", edits: mountWith("idmap=/etc/shadow"), want: translate.ReasonMountOpt},
		{name: "A26 something is mounted below", edits: at("/usr/share/nvidia", "/usr/share/nvidia"), host: func(h *tree.Tree) error {
			return h.WriteFile("/proc/self/mountinfo", []byte("30 1 0:1 / / rw - ext4 x rw\n31 30 0:2 / /usr/share/nvidia/rules rw - tmpfs x rw\n"), 0o444)
		}, want: translate.ReasonSubmounts, says: "/usr/share/nvidia/rules"},
		{name: "A31 through a link of the host", edits: at("/usr/share/innocent", "/usr/share/innocent"), host: func(h *tree.Tree) error { return h.Symlink("/usr/share/innocent", "/etc/shadow") }, want: translate.ReasonSourceBad, says: "/etc/shadow"},
		{name: "A31 a whole library directory", edits: at("/usr/lib", "/usr/share/x"), want: translate.ReasonSourceBad},
		{name: "B31 ro and rw", edits: mountWith("ro", "rw"), want: translate.ReasonMountOpt, says: "ro and rw"},
		{name: "B31 private and rslave", edits: mountWith("private", "rslave"), want: translate.ReasonMountOpt, says: "contradict"},
		{name: "B31 an empty option", edits: mountWith("bind", "", "ro"), want: translate.ReasonMountOpt},
		{name: "B31 two options in one", edits: mountWith("ro,rw"), want: translate.ReasonMountOpt},
		{name: "B31 suid", edits: mountWith("suid"), want: translate.ReasonMountOpt},
		{name: "B31 dev", edits: mountWith("dev"), want: translate.ReasonMountOpt},
		{name: "B31 a folder of an overlay", edits: mountWith("upperdir=/x"), want: translate.ReasonMountOpt},
		{name: "B31 a size", edits: mountWith("size=1%"), want: translate.ReasonMountOpt},
		{name: "B31 a blank in one", edits: mountWith("ro rw"), want: translate.ReasonMountOpt},
		{name: "B31 10,000", edits: mountWith(strings.Split(strings.Repeat("ro ", 9999), " ")...), want: translate.ReasonMountOpt, says: "10000 options"},
		{name: "B31 shared", edits: mountWith("rshared"), want: translate.ReasonMountOpt},
		{name: "B31 too many", edits: mountWith(strings.Split(strings.Repeat("ro ", 17), " ")...), want: translate.ReasonMountOpt, says: "18 options"},
		{name: "libnvidia-container 152: a writable host file", edits: mountWith("rw", "bind"), want: translate.ReasonSourceRW},
		{name: "F19 stale-version-link", edits: mounts(roMount(lib+"/libcuda.so.550.54.14", lib+"/libcuda.so.550.54.14"), roMount("/lib/firmware/nvidia/550.54.14/gsp_ga10x.bin", "/lib/firmware/nvidia/550.54.14/gsp_ga10x.bin")),
			want: translate.ReasonMissing, says: "2 files that the Spec mounts: \"/lib/firmware"},
		{name: "B29 a pipe", edits: at("/usr/lib/fifo", "/usr/share/x"), want: translate.ReasonSource, says: "named pipe"},
		{name: "B29 relative", edits: at("usr/bin/nvidia-smi", smi), want: translate.ReasonSource, says: "not absolute"},
		{name: "B29 a comment", edits: at("#x", smi), want: translate.ReasonSource},
		{name: "B29 a pattern is a name", edits: at("/usr/bin/*", smi), want: translate.ReasonMissing},
		{name: "B27 two sources for one target", edits: mounts(roMount(smi, smi), roMount("/usr/share/vulkan/icd.d/nvidia_icd.json", smi)), want: translate.ReasonConflict},
		{name: "B27 two options for one target", edits: mounts(roMount(smi, smi), &specs.Mount{HostPath: smi, ContainerPath: smi, Options: []string{"ro", "noexec"}}), want: translate.ReasonConflict, says: "noexec"},
		{name: "B27 below a file", edits: mounts(roMount(smi, "/opt/x"), roMount(smi, "/opt/x/y")), want: translate.ReasonInTheWay, says: "mounted file"},
		{name: "B27 inside a directory that has no such file", edits: mounts(roMount("/usr/share/nvidia", "/opt/nvidia"), roMount(smi, "/opt/nvidia/smi")), want: translate.ReasonNoPoint},
		{name: "B21 null", edits: mounts(nil), want: translate.ReasonNull},
	} {
		t.Run(tc.name, tc.run)
	}
	for _, typ := range []string{"tmpfs", "proc", "sysfs", "overlay", "nfs", "cgroup2", "none", "BIND"} {
		refusalCase{edits: mounts(&specs.Mount{HostPath: smi, ContainerPath: smi, Options: []string{"ro"}, Type: typ}), want: translate.ReasonMountType}.named(t, "B32 type "+typ)
	}
	for _, bad := range []string{"", ".", "/", "..", "/..", "/../../etc/x", "//x", "x/./y", "/x/", "/" + strings.Repeat("a", 256), "/" + strings.Repeat("a/", 2100) + "b"} {
		refusalCase{edits: at(smi, bad), want: translate.ReasonTarget}.named(t, fmt.Sprintf("B28 target %.20q", bad))
	}
	for _, bad := range []string{"/proc", "/sys/x", "/dev", "/etc/passwd", "/sbin/init", "/usr/lib", "/usr/sbin/init", "/etc/ld.so.preload", "/dev/null", "/dev/pts"} {
		refusalCase{edits: at(smi, bad), want: translate.ReasonTargetBad}.named(t, "A31 target "+bad)
	}
	for _, bad := range []string{"/etc", "/root", "/sys", "/proc", "/dev", "/"} {
		refusalCase{edits: at(bad, "/usr/share/x"), host: func(h *tree.Tree) error {
			return errors.Join(h.Mkdir("/root", 0o700), h.Mkdir("/sys", 0o755))
		}, want: sourceReason(bad)}.named(t, "A31 source "+bad)
	}
}

func sourceReason(p string) refuse.Reason {
	if p == "/" {
		return translate.ReasonSource
	}
	return translate.ReasonSourceBad
}

func TestHookRefusals(t *testing.T) {
	with := func(change func(*specs.Hook)) specs.ContainerEdits {
		h := hook("create-symlinks", "--link", "a::/usr/share/b")
		change(h)
		return hooks(h)
	}
	link := func(l ...string) specs.ContainerEdits {
		args := []string{"create-symlinks"}
		for _, x := range l {
			args = append(args, "--link", x)
		}
		return hooks(hook(args...))
	}
	for _, tc := range []refusalCase{
		{name: "A34 a program of nobody's", edits: with(func(h *specs.Hook) { h.Path = "/tmp/x" }), want: translate.ReasonHook, says: `"/tmp/x"`},
		{name: "A34 a kind further back", edits: with(func(h *specs.Hook) {
			h.Args = []string{"a", "create-symlinks", "--link", "x::/usr/share/y", "update-ldcache", "--folder", "/z"}
		}), want: translate.ReasonHookFlag, says: "update-ldcache"},
		{name: "A34 --container-spec", edits: hooks(hook("create-symlinks", "--container-spec", "/x", "--link", "a::/b")), want: translate.ReasonHookFlag, says: "container-spec"},
		{name: "A34 --no-pivot", edits: hooks(hook("update-ldcache", "--no-pivot", "--folder", "/z")), want: translate.ReasonHookFlag},
		{name: "A34 two dashes", edits: hooks(hook("update-ldcache", "--", "--folder", "/z")), want: translate.ReasonHookFlag},
		{name: "A34 NUL", edits: hooks(hook("update-ldcache", "--folder", "/z\x00")), want: translate.ReasonText},
		{name: "A34 LD_PRELOAD for the hook", edits: with(func(h *specs.Hook) { h.Env = []string{"LD_PRELOAD=/x"} }), want: translate.ReasonHookEnv, says: "LD_PRELOAD"},
		{name: "unknown-hook-flags: an unknown hook", edits: hooks(hook("warm-the-seats")), want: translate.ReasonHook, says: "warm-the-seats"},
		{name: "unknown-hook-flags: an unknown hook with flags", edits: hooks(hook("warm-the-seats", "--to", "30")), want: translate.ReasonHook},
		{name: "unknown-hook-flags: too few arguments", edits: hooks(hook("create-symlinks")), want: translate.ReasonHookFlag, says: "--link"},
		{name: "unknown-hook-flags: a note's hook with a wrong flag", edits: hooks(hook("enable-cuda-compat", "--root", "/")), want: translate.ReasonHookFlag},
		{name: "no kind", edits: with(func(h *specs.Hook) { h.Args = []string{"nvidia-cdi-hook"} }), want: translate.ReasonHook},
		{name: "no kind after hook", edits: with(func(h *specs.Hook) { h.Args = []string{"nvidia-ctk", "hook"} }), want: translate.ReasonHook},
		{name: "link-args-duplicated", edits: hooks(hook("create-symlinks", "--link", "--link", "a::/b")), want: translate.ReasonHookFlag, says: "no value"},
		{name: "a flag that ends the list", edits: hooks(hook("create-symlinks", "--link")), want: translate.ReasonHookFlag},
		{name: "B37 prestart", edits: with(func(h *specs.Hook) { h.HookName = "prestart" }), want: translate.ReasonHookStage, says: `"prestart"`},
		{name: "B37 poststop", edits: with(func(h *specs.Hook) { h.HookName = "poststop" }), want: translate.ReasonHookStage},
		{name: "B37 a stage that is none", edits: with(func(h *specs.Hook) { h.HookName = "sometimes" }), want: translate.ReasonHookStage},
		{name: "a memory limit that nobody would keep", edits: env("NVIDIA_GPU_MEMORY_LIMIT=4096"), want: translate.ReasonEnvBad, says: "NVIDIA_GPU_MEMORY_LIMIT"},
		{name: "a negative timeout", edits: with(func(h *specs.Hook) { h.Timeout = ptr(-1) }), want: translate.ReasonHookFlag},
		{name: "B21 null", edits: hooks(nil), want: translate.ReasonNull},
		{name: "B34 no colons", edits: link("a"), want: translate.ReasonLink},
		{name: "B34 three parts", edits: link("a::b::c"), want: translate.ReasonLink},
		{name: "B34 no target", edits: link("::/b"), want: translate.ReasonLink},
		{name: "B34 no link", edits: link("a::"), want: translate.ReasonLink},
		{name: "B34 a relative place", edits: link("a::b"), want: translate.ReasonLink},
		{name: "B34 a place that ends in a slash", edits: link("a::/usr/share/b/"), want: translate.ReasonLink},
		{name: "B34 a long name", edits: link("a::/usr/share/" + strings.Repeat("b", 256)), want: translate.ReasonLink},
		{name: "B34 a long target", edits: link(strings.Repeat("b", 4096) + "::/usr/share/b"), want: translate.ReasonLink},
		{name: "B34 two targets for one link, in both forms of the flag", edits: hooks(hook("create-symlinks", "--link", "a::/usr/share/b", "--link=c::/usr/share/b")), want: translate.ReasonConflict},
		{name: "B34 two targets for one link", edits: link("a::/usr/share/b", "c::/usr/share/b"), want: translate.ReasonConflict},
		{name: "B34 two spellings of one place", edits: link("a::/lib/x/b", "c::/usr/lib/x/b"), want: translate.ReasonConflict},
		{name: "B34 a comma", edits: link("a::/usr/share/b,c::/usr/share/d"), want: translate.ReasonHookFlag},
		{name: "B35 a loop of two", edits: link("/usr/share/b::/usr/share/a", "/usr/share/a::/usr/share/b"), want: translate.ReasonLinkLoop},
		{name: "B35 usrmerge-self-link: a link to itself", edits: link("/lib/x/b::/usr/lib/x/b"), want: translate.ReasonLinkLoop},
		{name: "B35 a link over a device node", edits: specs.ContainerEdits{DeviceNodes: nodes(&specs.DeviceNode{Path: "/dev/nvidia0"}).DeviceNodes, Hooks: link("x::/dev/nvidia0").Hooks}, want: translate.ReasonConflict},
		{name: "A31 a link over the accounts", edits: link("x::/etc/passwd"), want: translate.ReasonTargetBad},
		{name: "A19 a link over /dev/null", edits: link("x::/dev/null"), want: translate.ReasonTargetBad},
		{name: "too many links", edits: link(manyLinks(10_001)...), want: translate.ReasonTooMany},
		{name: "A22 set-id", edits: hooks(hook("chmod", "--mode", "4755", "--path", "/dev/dri")), want: translate.ReasonHookFlag, says: "4755"},
		{name: "A22 no octal", edits: hooks(hook("chmod", "--mode", "755x", "--path", "/dev/dri")), want: translate.ReasonHookFlag},
		{name: "A22 a negative mode", edits: hooks(hook("chmod", "--mode", "-1", "--path", "/dev/dri")), want: translate.ReasonHookFlag},
		{name: "A22 the root", edits: hooks(hook("chmod", "--mode", "755", "--path", "/")), want: translate.ReasonChmod},
		{name: "A22 /etc", edits: hooks(hook("chmod", "--mode", "755", "--path", "/etc")), want: translate.ReasonChmod},
		{name: "A22 out of /dev", edits: hooks(hook("chmod", "--mode", "755", "--path", "/dev/..")), want: translate.ReasonChmod},
		{name: "A22 /dev/null", edits: hooks(hook("chmod", "--mode", "000", "--path", "/dev/null")), want: translate.ReasonTargetBad},
		{name: "two modes for one path", edits: hooks(hook("chmod", "--mode", "755", "--path", "/dev/dri"), hook("chmod", "--mode", "700", "--path", "/dev/dri")), want: translate.ReasonConflict},
	} {
		t.Run(tc.name, tc.run)
	}
	for _, bad := range []string{"lib", "/", "/a:b", "/a=b", "/a#b", "/a b", "include /x", "/a/", "/a/../b", "/a\tb"} {
		want := translate.ReasonFolder
		if strings.Contains(bad, "\t") {
			want = translate.ReasonText
		}
		refusalCase{edits: hooks(hook("update-ldcache", "--folder", bad)), want: want}.named(t, fmt.Sprintf("B36 folder %q", bad))
	}
	var folders []string
	for i := range 257 {
		folders = append(folders, "--folder", fmt.Sprintf("/usr/lib/%d", i))
	}
	refusalCase{edits: hooks(hook(append([]string{"update-ldcache"}, folders...)...)), want: translate.ReasonTooMany}.named(t, "B36 too many folders")
}

func manyLinks(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("a::/usr/share/l%d", i))
	}
	return out
}

func TestOtherRefusals(t *testing.T) {
	for _, tc := range []refusalCase{
		{name: "B37 intelRdt", edits: specs.ContainerEdits{IntelRdt: &specs.IntelRdt{ClosID: "x"}}, want: translate.ReasonIntel},
		{name: "B37 netDevices", edits: specs.ContainerEdits{NetDevices: []*specs.LinuxNetDevice{{HostInterfaceName: "eth0", Name: "eth1"}}}, want: translate.ReasonNetwork, says: "eth0"},
		{name: "B37 root's group", edits: specs.ContainerEdits{AdditionalGIDs: []uint32{0}}, want: translate.ReasonGroup},
		{name: "a group outside the id map", edits: specs.ContainerEdits{AdditionalGIDs: []uint32{70000}}, opts: translate.Options{IDMap: []plan.IDMap{{Host: 1, Count: 10}}}, want: translate.ReasonUnmapped},
		{name: "B33 no value", edits: env("PATH"), want: translate.ReasonEnv},
		{name: "B33 no name", edits: env("=x"), want: translate.ReasonEnv},
		{name: "B33 a name with a blank", edits: env("NVIDIA X=1"), want: translate.ReasonEnv},
		{name: "B33 two values", edits: env("NVIDIA_X=1", "NVIDIA_X=2"), want: translate.ReasonConflict},
		{name: "B33 a long value", edits: env("NVIDIA_X=" + strings.Repeat("x", 4097)), want: translate.ReasonEnv},
		{name: "B33 a megabyte", edits: env("NVIDIA_X=" + strings.Repeat("x", 1<<20)), want: translate.ReasonEnv},
		{name: "B33 lower case", edits: env("nvidia_x=1"), want: translate.ReasonEnvBad, says: "nvidia_x"},
		{name: "B33 LXC's own", edits: env("LXC_ROOTFS_MOUNT=/"), want: translate.ReasonEnvBad, says: "LXC_ROOTFS_MOUNT"},
		{name: "A8 LD_PRELOAD", edits: env("LD_PRELOAD=/x"), want: translate.ReasonEnvBad, says: "LD_PRELOAD"},
		{name: "A8 GODEBUG", edits: env("GODEBUG=x"), want: translate.ReasonEnvBad},
		{name: "A8 a name that nothing allows", edits: env("MY_DEVICE=x"), want: translate.ReasonEnvBad, says: "MY_DEVICE"},
		{name: "the user's mode beyond 0777", opts: translate.Options{Mode: ptr(fs.FileMode(0o4755))}, want: translate.ReasonOption, says: "mode"},
		{name: "the user's uid outside the id map", opts: translate.Options{UID: ptr(uint32(70000)), IDMap: []plan.IDMap{{Host: 1, Count: 10}}}, want: translate.ReasonOption, says: "70000"},
		{name: "an id map beyond all ids", opts: translate.Options{IDMap: []plan.IDMap{{Host: 1<<32 - 1, Count: 10}}}, want: translate.ReasonOption},
	} {
		t.Run(tc.name, tc.run)
	}
	if _, err := translate.Edits(newHost(t), nil, translate.Options{Policy: policy.Policy{Sources: []string{"/"}}}); !errors.Is(err, translate.ReasonOption) {
		t.Errorf("a policy that allows everything is taken: %v", err)
	}
}

// A23: a line break in any text of a Spec is refused, and the place is named.
func TestLineBreaksA23(t *testing.T) {
	const evil = "x\nlxc.hook.pre-start = /bin/touch owned"
	for name, e := range map[string]specs.ContainerEdits{
		"env":           env("NVIDIA_X=" + evil),
		"path":          nodes(&specs.DeviceNode{Path: "/dev/" + evil}),
		"hostPath":      nodes(&specs.DeviceNode{Path: "/dev/nvidia0", HostPath: "/dev/" + evil}),
		"mount source":  mounts(roMount("/usr/"+evil, "/x")),
		"mount target":  mounts(roMount("/usr/bin/nvidia-smi", "/usr/"+evil)),
		"link":          hooks(hook("create-symlinks", "--link", "a::/"+evil)),
		"folder":        hooks(hook("update-ldcache", "--folder", "/"+evil)),
		"hook name":     hooks(&specs.Hook{HookName: evil, Path: "/x"}),
		"hook env":      hooks(&specs.Hook{HookName: "createContainer", Path: "/x", Env: []string{"NVIDIA_CTK_X=" + evil}}),
		"mount option":  mountWith(evil),
		"mount type":    mounts(&specs.Mount{HostPath: "/usr/bin/nvidia-smi", ContainerPath: "/usr/bin/nvidia-smi", Type: evil}),
		"permissions":   nodeWith(func(n *specs.DeviceNode) { n.Permissions = evil }),
		"node type":     nodeWith(func(n *specs.DeviceNode) { n.Type = evil }),
		"A37 U+202E":    mounts(roMount("/usr/bin/nvidia-smi", "/usr/share/\u202ex")),
		"B18 not UTF-8": mounts(roMount("/usr/bin/nvidia-smi", "/usr/share/\xff")),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := translate.Edits(newHost(t), editsOf(e), translate.Options{})
			if err == nil || strings.ContainsAny(err.Error(), "\n\xff\u202e") {
				t.Errorf("Edits = %q, want a refusal on one clean line", err)
			}
		})
	}
}

// House style: every problem at once.
func TestAllRefusalsAtOnce(t *testing.T) {
	e := specs.ContainerEdits{
		Env:         []string{"LD_PRELOAD=/x", "PATH=/"},
		DeviceNodes: []*specs.DeviceNode{{Path: "/dev/sda"}},
		Mounts:      []*specs.Mount{roMount("/etc/shadow", "/usr/share/x"), roMount("/usr/lib/none", "/usr/lib/none")},
		Hooks:       []*specs.Hook{hook("other")},
		IntelRdt:    &specs.IntelRdt{},
	}
	_, err := translate.Edits(newHost(t), editsOf(e), translate.Options{})
	if got := len(refuse.As(err)); got != 7 {
		t.Errorf("%d refusals, want 7: %v", got, err)
	}
}

// Each reason is listed once with a sentence, and the hint never hides in the
// message.
func TestReasonsAreListed(t *testing.T) {
	seen := map[refuse.Reason]bool{}
	for _, m := range append(translate.Reasons(), translate.NoteReasons()...) {
		// With strict a note becomes a refusal of the same name.
		if seen[m.Reason] && m.Reason != translate.ReasonNoAccess || !strings.HasSuffix(m.Meaning, ".") || strings.ContainsAny(string(m.Reason), " _A") {
			t.Errorf("reason %+v is there twice, or is no word with a sentence", m)
		}
		seen[m.Reason] = true
	}
}
