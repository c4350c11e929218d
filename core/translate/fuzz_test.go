package translate_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
	"gpurig/core/refuse"
	"gpurig/core/translate"
	"gpurig/fakehw/tree"
)

// checkPlan is what must hold for any edits: a plan that the emitter and the
// hook take, or refusals on clean lines, and never both.
func checkPlan(t *testing.T, h *tree.Tree, e *specs.ContainerEdits) {
	t.Helper()
	p, err := translate.Edits(h, []cdi.Edits{one(e)}, translate.Options{})
	if err != nil {
		if len(p.Nodes)+len(p.Mounts)+len(p.Links)+len(p.Env) > 0 {
			t.Fatalf("a plan along with %v", err)
		}
		for _, r := range refuse.As(err) {
			if strings.ContainsFunc(r.Error(), func(c rune) bool { return c < 0x20 || c == 0x7f || c == '\u2028' }) {
				t.Fatalf("refusal %q is not one clean line", r)
			}
		}
		if len(refuse.As(err)) == 0 {
			t.Fatalf("error %v is no refusal", err)
		}
		return
	}
	for _, l := range p.Links {
		up := 0
		for rest := l.Target + "/"; strings.HasPrefix(rest, "../"); rest = rest[3:] {
			up++
		}
		if path.IsAbs(l.Target) || up > strings.Count(path.Dir(l.Path), "/") {
			t.Fatalf("link %+v leaves the root", l)
		}
	}
	c, err := lxc.Emit(p, lxc.Options{HookPath: "/cdi-hook", HookFile: "/hook.json", NodesDir: "/nodes"})
	if err != nil {
		if errors.Is(err, lxc.ReasonLong) || errors.Is(err, lxc.ReasonLine) && len(p.Env) > 0 {
			return // longer than liblxc reads, or a value with blanks at its end
		}
		t.Fatalf("the emitter does not take the plan: %v", err)
	}
	if _, err := c.Hook.Marshal(); err != nil {
		t.Fatalf("the hook would not take its file: %v", err)
	}
}

func FuzzHookArgs(f *testing.F) {
	for _, s := range []string{
		"create-symlinks\n--link\na::/usr/share/b",
		"hook\ncreate-symlinks\n--link=../a::/lib/b\n--link\n/x::/y",
		"update-ldcache\n--folder\n/usr/lib/x\n--ldconfig-path=/sbin/ldconfig",
		"chmod\n--mode\n755\n--path\n/dev/dri",
		"create-symlinks\n--link\n/b::/a\n--link\n/a::/b",
		"create-symlinks\n--link\na::/x/../b\n--\n--link",
		"enable-cuda-compat\n--host-driver-version=550",
		"create-symlinks\n--link\na", "create-symlinks\n--link\na::b::c", "create-symlinks\n--link\n::b", "create-symlinks\n--link\na::",
		"create-symlinks\n--link=a::/b\n--link\na::/b", "create-symlinks\n--link\na::/b/\n--link\nx::/y\nupdate-ldcache\n--folder\n/z",
		"update-ldcache\n--folder\n/\n--folder\ninclude /x\n--folder\n/a:b\n--folder\n/a=b\n--folder\n#x\n--folder\n/usr/lib/", "chmod\n--mode\n4755\n--path\n/", "--", "x\x00",
	} {
		f.Add(s)
	}
	h := newHost(f)
	f.Fuzz(func(t *testing.T, text string) {
		e := hooks(&specs.Hook{HookName: "createContainer", Path: "/usr/bin/nvidia-ctk", Args: append([]string{"nvidia-ctk"}, strings.Split(text, "\n")...)})
		checkPlan(t, h, &e)
	})
}

func FuzzMount(f *testing.F) {
	f.Add("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", "ro,rbind", "")
	f.Add("/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin", "/opt/a b", "ro", "bind")
	f.Add("/run/nvidia-persistenced/socket", "/run/x", "noexec,slave", "none")
	f.Add(lib+"/libcuda.so.1", lib+"/libcuda.so.1", "", "")
	f.Add("/usr/lib/../lib/x", "//", "idmap=/x", "tmpfs")
	for _, to := range []string{"", ".", "/", "..", "/..", "/../../etc/x", "//x", "x/./y", "/x/", "/proc", "/etc/passwd", "/" + strings.Repeat("y", 256)} { // B28
		f.Add("/usr/bin/nvidia-smi", to, "ro,bind", "")
	}
	for _, from := range []string{"x", "#x", "*", "/none", "/", "/proc/1/root/etc/shadow", "/usr/..", "/usr/./bin//nvidia-smi"} { // B29, A31
		f.Add(from, "/usr/bin/nvidia-smi", "ro,bind", "")
	}
	for _, options := range []string{"ro,rw", "bind,,ro", "suid", "dev", "rshared", "upperdir=/x", "size=1%", "norelative,ro", "x-optional,ro", "idmap=/etc/shadow"} { // B31, A25
		f.Add("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", options, "")
	}
	for _, typ := range []string{"tmpfs", "proc", "sysfs", "overlay", "nfs", "cgroup2", "none"} { // B32
		f.Add("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", "", typ)
	}
	h := newHost(f)
	f.Fuzz(func(t *testing.T, from, to, options, typ string) {
		e := mounts(&specs.Mount{HostPath: from, ContainerPath: to, Options: strings.Split(options, ","), Type: typ})
		checkPlan(t, h, &e)
	})
}

func FuzzNode(f *testing.F) {
	f.Add("/dev/nvidia0", "", "c", "rwm", int64(195), int64(0))
	f.Add("/dev/x/y", "/dev/nvidia1", "u", "none", int64(0), int64(0))
	f.Add("/dev/../etc", "/dev/mem", "b", "rrr", int64(-1), int64(1<<40))
	for _, at := range []string{"/etc/passwd", "nvidia0", "/dev/../etc/x", "/dev//x", "/dev/x/", "/dev/shm/x", "/dev", "/dev/null"} { // B25
		f.Add(at, "/dev/nvidia0", "c", "rw", int64(195), int64(0))
	}
	for _, n := range [][2]int64{{-1, 0}, {4096, 0}, {1 << 31, 0}, {195, 1 << 20}, {195, 99999999999}, {0, 0}, {1, 1}, {8, 0}, {10, 232}} { // B22, B23, A28
		f.Add("/dev/nvidia0", "/dev/nvidia0", "c", "rw", n[0], n[1])
	}
	for _, typ := range []string{"", "u", "C", "cc", "b", "p"} { // B24
		f.Add("/dev/nvidia0", "/dev/nvidia0", typ, " rw", int64(195), int64(0))
	}
	h := newHost(f)
	f.Fuzz(func(t *testing.T, at, from, typ, permissions string, major, minor int64) {
		e := nodes(&specs.DeviceNode{Path: at, HostPath: from, Type: typ, Permissions: permissions, Major: major, Minor: minor})
		checkPlan(t, h, &e)
	})
}

func FuzzEnv(f *testing.F) {
	for _, s := range []string{"NVIDIA_X=1", "NVIDIA_X", "=x", "LD_PRELOAD=/x", "CUDA_X= a b ", "NVIDIA_X=\n", "nvidia_x=1", "NVIDIA X=1", "LXC_ROOTFS_MOUNT=/", "PATH", "NVIDIA_X=" + strings.Repeat("x", 4097)} {
		f.Add(s)
	}
	h := newHost(f)
	f.Fuzz(func(t *testing.T, s string) {
		e := env(s)
		checkPlan(t, h, &e)
	})
}

// The texts of the host are parsed too: whatever /proc/devices, /proc/misc and
// mountinfo say, there is a plan or a refusal.
func FuzzProcTexts(f *testing.F) {
	f.Add("Character devices:\n195 nvidia\n\nBlock devices:\n  8 sd\n", " 60 nvmap\n", "31 30 0:2 / /usr/share/nvidia/a\\040b rw - tmpfs x rw\n")
	f.Add("Character devices:\n195\n", "x", "")
	f.Add("", "-1 a", "a b c d e")
	f.Fuzz(func(t *testing.T, devices, misc, mountinfo string) {
		h := newHost(t)
		must(t, h.WriteFile("/proc/devices", []byte(devices), 0o444), h.WriteFile("/proc/misc", []byte(misc), 0o444), h.WriteFile("/proc/self/mountinfo", []byte(mountinfo), 0o444))
		e := nodes(&specs.DeviceNode{Path: "/dev/nvidia0"}, &specs.DeviceNode{Path: "/dev/nvmap"})
		e.Mounts = []*specs.Mount{roMount("/usr/share/nvidia", "/opt/nvidia")}
		checkPlan(t, h, &e)
	})
}

// What translate lets through, the hook file takes: both check paths by rules of
// their own.
func TestLimitsAgreeWithTheHookFile(t *testing.T) {
	long := "/usr/share/" + strings.Repeat(strings.Repeat("a", 250)+"/", 15) + strings.Repeat("b", 255)
	e := hooks(hook("create-symlinks", "--link", "x::"+long), hook("update-ldcache", "--folder", "/usr/lib/"+strings.Repeat("c", 255)))
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	if why := hookspec.PathProblem(p.Links[0].Path); why != "" {
		t.Error(why)
	}
	checkPlan(t, newHost(t), &e)
}
