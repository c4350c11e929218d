package translate_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/core/policy"
	"gpurig/core/translate"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func reasons(p plan.Plan) []string {
	var out []string
	for _, n := range p.Notes {
		out = append(out, n.Reason)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// usrmerge-self-link: a plain file below a linked directory is one mount and no
// link, whichever spelling the Spec has.
func TestUsrmergeSelfLink(t *testing.T) {
	e := mounts(
		roMount("/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin", "/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin"),
		roMount("/usr/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin", "/usr/lib/firmware/nvidia/550.163.01/gsp_ga10x.bin"),
	)
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	if len(p.Mounts) != 1 || len(p.Links) != 0 {
		t.Errorf("mounts %v, links %v; want one mount and no link", p.Mounts, p.Links)
	}
}

// A host file that is itself a link is mounted at its own place, and the link is
// made again.
func TestIndirectLink(t *testing.T) {
	e := mounts(roMount(lib+"/libcuda.so.1", lib+"/libcuda.so.1"))
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	if len(p.Mounts) != 1 || p.Mounts[0].Target != lib+"/libcuda.so.550.163.01" {
		t.Errorf("mounts are %+v, want the real file", p.Mounts)
	}
	if len(p.Links) != 1 || p.Links[0].Path != lib+"/libcuda.so.1" || p.Links[0].Target != "libcuda.so.550.163.01" {
		t.Errorf("links are %+v, want libcuda.so.1", p.Links)
	}
}

// With another container path there is nothing to tell about the host's links:
// the file is mounted where the Spec says.
func TestLinkMountedElsewhere(t *testing.T) {
	e := mounts(roMount(lib+"/libcuda.so.1", "/opt/nvidia/libcuda.so.1"))
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	if len(p.Links) != 0 || p.Mounts[0].Target != "/opt/nvidia/libcuda.so.1" || p.Mounts[0].Source != lib+"/libcuda.so.550.163.01" {
		t.Errorf("plan is %+v", p)
	}
}

// nix-closure: files that live in a store behind links are found there, and the
// path of the Spec leads to them.
func TestNixStore(t *testing.T) {
	h := newHost(t)
	must(t,
		h.WriteFile("/nix/store/aaa-nvidia-x11/lib/libcuda.so.550.163.01", []byte("x"), 0o444),
		h.Symlink("/nix/store/aaa-nvidia-x11/lib/libcuda.so.1", "libcuda.so.550.163.01"),
		h.Symlink("/nix/store/bbb-graphics/lib/libcuda.so.1", "/nix/store/aaa-nvidia-x11/lib/libcuda.so.1"),
		h.Symlink("/run/opengl-driver", "/nix/store/bbb-graphics"),
	)
	e := mounts(roMount("/run/opengl-driver/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"))
	p := mustEdits(t, h, translate.Options{}, one(&e))
	if len(p.Mounts) != 1 || p.Mounts[0].Source != "/nix/store/aaa-nvidia-x11/lib/libcuda.so.550.163.01" || p.Mounts[0].Target != p.Mounts[0].Source {
		t.Errorf("mounts are %+v", p.Mounts)
	}
	if len(p.Links) != 1 || p.Links[0].Target != "../../../nix/store/aaa-nvidia-x11/lib/libcuda.so.550.163.01" {
		t.Errorf("links are %+v", p.Links)
	}
}

// B51 and root-prefix-no-boundary: a driver root is cut off by whole components,
// and links below it are its own.
func TestDriverRootB51(t *testing.T) {
	const root = "/var/lib/snapd/hostfs"
	h := newHost(t)
	must(t,
		h.Mkdir(root+"/usr/lib", 0o755),
		h.Symlink(root+"/lib", "usr/lib"),
		h.WriteFile(root+"/usr/lib/x/libcuda.so.2", []byte("x"), 0o644),
		h.Symlink(root+"/usr/lib/x/libcuda.so.1", "/lib/x/libcuda.so.2"), // absolute: of the driver root
		h.Mknod(device.Node{Path: root + "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666}),
		h.WriteFile(root+"-evil/usr/lib/x/f", []byte("x"), 0o644),
	)
	e := &specs.ContainerEdits{
		DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0", HostPath: root + "/dev/nvidia0"}},
		Mounts:      []*specs.Mount{roMount(root+"/lib/x/libcuda.so.1", "/lib/x/libcuda.so.1")},
	}
	opts := translate.Options{DriverRoot: root}
	p := mustEdits(t, h, opts, one(e))
	if m := p.Mounts[0]; m.Source != root+"/usr/lib/x/libcuda.so.2" || m.Target != "/usr/lib/x/libcuda.so.2" {
		t.Errorf("mount is %+v", m)
	}
	if l := p.Links[0]; l.Path != "/usr/lib/x/libcuda.so.1" || l.Target != "libcuda.so.2" {
		t.Errorf("link is %+v", l)
	}
	if p.Nodes[0].Source != root+"/dev/nvidia0" {
		t.Errorf("node is %+v", p.Nodes[0])
	}
	evil := mounts(roMount(root+"-evil/usr/lib/x/f", "/usr/share/f"))
	if _, err := translate.Edits(h, []cdi.Edits{one(&evil)}, opts); !errors.Is(err, translate.ReasonSourceBad) {
		t.Errorf("a sibling of the driver root is taken: %v", err)
	}
}

// relative-links-nested: every link is relative, stays in the root, and leads
// where the Spec says, also from below another prefix.
func TestLinksAreRelative(t *testing.T) {
	e := hooks(
		hook("create-symlinks", "--link", "/usr/lib/nvidia/libx.so.1::/etc/vulkan/icd.d/x", "--link=../../../../../../../up::"+lib+"/gbm/y"),
		hook("create-symlinks", "--link", "../libnvidia-allocator.so.1::"+lib+"/gbm/nvidia-drm_gbm.so"),
	)
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	want := map[string]string{
		"/etc/vulkan/icd.d/x":            "/usr/lib/nvidia/libx.so.1",
		lib + "/gbm/y":                   "/up",
		lib + "/gbm/nvidia-drm_gbm.so":   lib + "/libnvidia-allocator.so.1",
		"/no/such/link/in/the/plan/but/": "",
	}
	for _, l := range p.Links {
		if path.IsAbs(l.Target) || strings.Count(l.Target, "..") > strings.Count(l.Path, "/")-1 {
			t.Errorf("link %+v is absolute or climbs out of the root", l)
		}
		for _, prefix := range []string{"/", "/var/lib/inner/rootfs"} {
			if got := path.Join(prefix, path.Dir(l.Path), l.Target); got != path.Join(prefix, want[l.Path]) {
				t.Errorf("below %s link %s leads to %s, want %s", prefix, l.Path, got, want[l.Path])
			}
		}
	}
	if len(p.Links) != 3 {
		t.Errorf("%d links, want 3", len(p.Links))
	}
}

// B35: links below linked directories land where the directory really is, in
// any order.
func TestLinksBelowLinks(t *testing.T) {
	a := hook("create-symlinks", "--link", "x.1::/usr/lib/aarch64-linux-gnu/tegra/x", "--link", "nvidia::/usr/lib/aarch64-linux-gnu/tegra")
	e := hooks(a)
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	var got []string
	for _, l := range p.Links {
		got = append(got, l.Path+" "+l.Target)
	}
	if !slices.Equal(got, []string{"/usr/lib/aarch64-linux-gnu/nvidia/x x.1", "/usr/lib/aarch64-linux-gnu/tegra nvidia"}) {
		t.Errorf("links are %q", got)
	}
}

func TestLinkOverMount(t *testing.T) {
	e := mounts(roMount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"))
	e.Hooks = []*specs.Hook{hook("create-symlinks", "--link", "other::/usr/bin/nvidia-smi")}
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	if len(p.Links) != 0 || !slices.Contains(reasons(p), translate.ReasonOverMount) {
		t.Errorf("links %v, notes %v", p.Links, p.Notes)
	}
}

// hook-binary-name: both programs and both flag forms have the same effect.
func TestHookBinaryName(t *testing.T) {
	var first []byte
	for _, h := range []*specs.Hook{
		{HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook", Args: []string{"nvidia-cdi-hook", "create-symlinks", "--link", "a::/usr/share/b"}},
		{HookName: "createContainer", Path: "/usr/bin/nvidia-ctk", Args: []string{"nvidia-ctk", "hook", "create-symlinks", "--link", "a::/usr/share/b"}},
		{HookName: "createContainer", Path: "/usr/local/nvidia/toolkit/nvidia-ctk", Args: []string{"x", "hook", "create-symlinks", "--link=a::/usr/share/b"}},
		{HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook", Args: []string{"nvidia-cdi-hook", "create-symlinks", "--link=a::/usr/share/b", "--link", "a::/usr/share/b"}},
	} {
		e := hooks(h)
		got := toJSON(t, mustEdits(t, newHost(t), translate.Options{}, one(&e)))
		if first == nil {
			first = got
		}
		if string(got) != string(first) {
			t.Errorf("hook %v gives\n%s, want\n%s", h.Args, got, first)
		}
	}
}

// Each hook kind of the toolkit is carried out or noted, never silent.
func TestEveryHookKind(t *testing.T) {
	for kind, tc := range map[string]struct {
		args []string
		note string // empty: carried out
	}{
		"create-symlinks":                  {args: []string{"--link", "a::/usr/share/b"}},
		"update-ldcache":                   {args: []string{"--ldconfig-path", "/sbin/ldconfig", "--folder", lib}},
		"create-soname-symlinks":           {args: []string{"--folder", lib}},
		"chmod":                            {args: []string{"--mode", "755", "--path", "/dev/dri"}},
		"enable-cuda-compat":               {args: []string{"--host-driver-version=550.163.01"}, note: "needs-image-libraries"},
		"disable-device-node-modification": {note: "no-driver-parameters"},
		"update-application-profile":       {note: "no-application-profile"},
		"apply-cuda-memory-limits":         {args: []string{"--driver-root", "", "--gpu-id", "GPU-1", "--gpu-id", "GPU-2"}, note: "no-memory-limit"},
		"noop":                             {note: "does-nothing"},
	} {
		t.Run(kind, func(t *testing.T) {
			h := hook(append([]string{kind}, tc.args...)...)
			if kind == "apply-cuda-memory-limits" {
				h.HookName = "createRuntime"
			}
			e := hooks(h)
			p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
			did := len(p.Links)+len(p.LibraryDirs)+len(p.Modes) == 1
			noted := tc.note != "" && slices.Contains(reasons(p), tc.note)
			if did == noted || did != (tc.note == "") {
				t.Errorf("carried out %v, notes %v; want note %q", did, reasons(p), tc.note)
			}
		})
	}
	for _, r := range policy.Table() {
		if r.Kind == policy.KindHook && r.Hook == policy.LeftOut && r.Reason == "" {
			t.Errorf("hook %s is left out without a reason", r.Match)
		}
	}
}

func TestPolicyWidens(t *testing.T) {
	h := newHost(t)
	must(t, h.WriteFile("/srv/vendor/tool", []byte("x"), 0o755), h.Mkdir("/srv/pipe", 0o777))
	e := &specs.ContainerEdits{
		Env:         []string{"VENDOR_MODE=1"},
		DeviceNodes: []*specs.DeviceNode{{Path: "/dev/kvm"}},
		Mounts: []*specs.Mount{roMount("/srv/vendor/tool", "/usr/bin/tool"),
			{HostPath: "/srv/pipe", ContainerPath: "/srv/pipe", Options: []string{"rw", "rbind"}}},
		Hooks: []*specs.Hook{{HookName: "startContainer", Path: "/usr/bin/vendor-hook", Args: []string{"vendor-hook", "go"}}},
	}
	if _, err := translate.Edits(h, []cdi.Edits{one(e)}, translate.Options{}); err == nil {
		t.Fatal("without a policy nothing is refused")
	}
	pol := policy.Policy{
		Drivers: []string{"kvm"}, Sources: []string{"/srv/vendor"}, Writable: []string{"/srv/pipe"},
		Environment: []string{"VENDOR_MODE"}, LeaveOut: []string{"vendor-hook"},
	}
	p := mustEdits(t, h, translate.Options{Policy: pol}, one(e))
	if len(p.Nodes) != 1 || len(p.Mounts) != 2 || len(p.Env) != 1 || !slices.Contains(reasons(p), translate.ReasonByPolicy) {
		t.Errorf("plan is %+v", p)
	}
	if p.Mounts[0].Options[0] != "rw" {
		t.Errorf("options are %v, want rw", p.Mounts[0].Options)
	}
}

// mode-clone, socket-ro-mount, bind-propagation-double-mount, A26: what becomes
// of options.
func TestMountOptions(t *testing.T) {
	h := newHost(t)
	opt := func(from string, options ...string) []string {
		t.Helper()
		e := mounts(&specs.Mount{HostPath: from, ContainerPath: from, Options: options})
		return mustEdits(t, h, translate.Options{}, one(&e)).Mounts[0].Options
	}
	for _, tc := range []struct {
		name, from string
		in         []string
		want       string
	}{
		{"as the toolkit writes it", "/usr/bin/nvidia-smi", []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}, "ro nosuid nodev bind rprivate"},
		{"nothing said", "/usr/bin/nvidia-smi", nil, "ro nosuid nodev bind rprivate"},
		{"twice the same", "/usr/bin/nvidia-smi", []string{"ro", "ro", "noexec"}, "ro nosuid nodev noexec bind rprivate"},
		{"a directory", "/usr/share/nvidia", []string{"ro", "rbind", "slave"}, "ro nosuid nodev bind rslave"},
		{"a socket", "/run/nvidia-persistenced/socket", []string{"noexec"}, "rw nosuid nodev noexec bind rprivate"},
		{"a socket, read-only", "/run/nvidia-persistenced/socket", []string{"ro"}, "ro nosuid nodev bind rprivate"},
		{"links to DRM nodes need no writing", "/dev/dri/by-path", []string{"rw", "rbind"}, "ro nosuid nodev bind rprivate"},
	} {
		if got := strings.Join(opt(tc.from, tc.in...), " "); got != tc.want {
			t.Errorf("%s: options %v become %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
}

// B27: parents before children, whatever the order of the Spec.
func TestMountsAreOrderedByDepth(t *testing.T) {
	h := newHost(t)
	must(t, h.WriteFile("/usr/share/nvidia/rules/a", nil, 0o644))
	e := mounts(roMount("/usr/bin/nvidia-smi", "/opt/b/rules/a"), roMount("/usr/share/nvidia", "/opt/b"))
	p := mustEdits(t, h, translate.Options{}, one(&e))
	if p.Mounts[0].Target != "/opt/b" {
		t.Errorf("the first mount is %s, want the parent", p.Mounts[0].Target)
	}
}

// persistenced-two-gpus and all-and-duplicates: what devices share is there once
// and has both owners; Without keeps it until the last one leaves.
func TestTwoDevicesShare(t *testing.T) {
	h := newHost(t)
	p := mustEdits(t, h, translate.Options{}, commonEdits(), gpuEdits(0), gpuEdits(1), gpuEdits(1))
	seen := map[string]bool{}
	for _, m := range p.Mounts {
		if seen[m.Target] || len(m.Owners) != 2 {
			t.Errorf("mount %+v is there twice, or does not have both owners", m)
		}
		seen[m.Target] = true
	}
	if !slices.Equal(p.Devices, []string{"nvidia.com/gpu=0", "nvidia.com/gpu=1"}) {
		t.Errorf("devices are %v", p.Devices)
	}
	before := toJSON(t, p)
	left := translate.Without(p, "nvidia.com/gpu=0")
	alone := mustEdits(t, h, translate.Options{}, commonEdits(), gpuEdits(1))
	if got, want := string(toJSON(t, left)), string(toJSON(t, alone)); got != want {
		t.Errorf("sibling-cleanup-busy: without gpu 0 the plan is not that of gpu 1 alone (-want +got):\n%s", cmp.Diff(want, got))
	}
	if string(toJSON(t, p)) != string(before) {
		t.Error("Without changed its argument")
	}
	none := translate.Without(left, "nvidia.com/gpu=1")
	if string(toJSON(t, none)) != string(toJSON(t, plan.Plan{})) {
		t.Errorf("without any device there is left %+v", none)
	}
	if got := translate.Without(p, "nvidia.com/gpu=7"); string(toJSON(t, got)) != string(before) {
		t.Error("a device that is not there changes the plan")
	}
}

// The same edits in another order give the same plan, byte for byte, notes
// aside: those are in the order of the Spec.
func TestOrderOfDevicesDoesNotMatter(t *testing.T) {
	h := newHost(t)
	a := mustEdits(t, h, translate.Options{}, commonEdits(), gpuEdits(0), gpuEdits(1))
	b := mustEdits(t, h, translate.Options{}, gpuEdits(1), gpuEdits(0), commonEdits())
	a.Notes, b.Notes = nil, nil
	if string(toJSON(t, a)) != string(toJSON(t, b)) {
		t.Error("the plans differ")
	}
}

func TestRepeatable(t *testing.T) {
	h := newHost(t)
	first := toJSON(t, mustEdits(t, h, translate.Options{}, commonEdits(), gpuEdits(0), gpuEdits(1)))
	for range 20 {
		if got := toJSON(t, mustEdits(t, h, translate.Options{}, commonEdits(), gpuEdits(0), gpuEdits(1))); string(got) != string(first) {
			t.Fatal("two translations of the same edits differ")
		}
	}
}

// F19: the advice names what the host has instead.
func TestStaleVersionHint(t *testing.T) {
	for _, gone := range []string{lib + "/libcuda.so.550.54.14", "/lib/firmware/nvidia/550.54.14/gsp_ga10x.bin"} {
		e := mounts(roMount(gone, gone))
		_, err := translate.Edits(newHost(t), []cdi.Edits{one(&e)}, translate.Options{})
		r := refusal(err)
		if r == nil || !strings.Contains(r.Hint, "550.163.01") {
			t.Errorf("%s: %v, hint does not name the version that is there: %+v", gone, err, r)
		}
	}
}

// A mount of type none is a bind mount when its options say so.
func TestVendorTypeNone(t *testing.T) {
	e := mounts(&specs.Mount{HostPath: "/usr/bin/nvidia-smi", ContainerPath: "/usr/bin/nvidia-smi", Type: "none", Options: []string{"bind", "ro"}})
	mustEdits(t, newHost(t), translate.Options{}, one(&e))
}
