package capture

import (
	"slices"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// machineOf records a fake host, changed by change, and replays it.
func machineOf(t *testing.T, m host.Model, change func(*tree.Tree) error) Machine {
	t.Helper()
	fake := built(t, m)
	if change != nil {
		if err := change(fake); err != nil {
			t.Fatal(err)
		}
	}
	out, err := Replay(record(t, fake, nvmlOf(m)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sentences(t *testing.T, a, b Machine) []string {
	t.Helper()
	diffs, err := Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range diffs {
		out = append(out, d.Area+": "+d.Sentence("a", "b"))
	}
	return out
}

// A host is like itself, also when it goes by other UUIDs, and like no other.
func TestProfilesDifferFromEachOther(t *testing.T) {
	var all []Machine
	for _, name := range profiles.Names() {
		all = append(all, machineOf(t, profile(t, name), nil))
	}
	for i := range all {
		if got := sentences(t, all[i], all[i]); len(got) > 0 {
			t.Errorf("%s and itself: %q", profiles.Names()[i], got)
		}
		if i > 0 && len(sentences(t, all[i-1], all[i])) == 0 {
			t.Errorf("%s and %s are the same", profiles.Names()[i-1], profiles.Names()[i])
		}
	}
}

// Each difference is told in one sentence that names the thing and both values.
func TestDifferencesInWords(t *testing.T) {
	const lib = "/usr/lib/x86_64-linux-gnu/"
	must := func(m host.Model, err error) host.Model {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	plain := profile(t, "t4-server")
	mig := profile(t, "a100-mig-2g-3g")
	for _, tc := range []struct {
		name   string
		a, b   host.Model
		change func(*tree.Tree) error
		want   []string // that must be among the sentences
		alone  bool     // and nothing else is
	}{
		{name: "a node's major", a: plain, b: must(fakehw.WithMajors(plain, map[string]uint32{"nvidia-uvm": 234})), alone: true, want: []string{
			"majors: nvidia-uvm (c): number: a has 239, b has 234",
			"nodes: /dev/nvidia-uvm: number: a has c 239:0, b has c 234:0",
			"nodes: /dev/nvidia-uvm-tools: number: a has c 239:1, b has c 234:1",
		}},
		{name: "a node's mode and owner", a: plain, b: must(fakehw.WithNode(plain, device.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o660, GID: 44})), alone: true,
			want: []string{"nodes: /dev/nvidia0: mode: a has 0666, b has 0660", "nodes: /dev/nvidia0: owner: a has 0:0, b has 0:44"}},
		{name: "a node that is missing", a: plain, b: must(fakehw.WithoutNode(plain, "/dev/nvidia1")), want: []string{"nodes: /dev/nvidia1: a has c 195:1, b has none"}},
		{name: "a GPU that is missing", a: plain, b: must(fakehw.WithoutGPU(plain, 1)), want: []string{"gpus: 0000:af:00.0: a has Tesla T4, b has none"}},
		{name: "swapped minors", a: plain, b: must(fakehw.WithMinors(plain, map[int]int{0: 1, 1: 0})),
			want: []string{"gpus: 0000:3b:00.0: minor: a has 0, b has 1", "gpus: 0000:af:00.0: minor: a has 1, b has 0"}},
		{name: "a driver, its files told once", a: plain, b: must(fakehw.WithDriver(plain, "535.183.01")), want: []string{
			"driver: version: a has 535.113.01, b has 535.183.01", "libraries: version: a has 535.113.01, b has 535.183.01",
		}},
		{name: "half an upgrade", a: plain, b: must(fakehw.WithUserspace(plain, "550")), want: []string{"libraries: version: a has 535.113.01, b has 550.163.01"}},
		{name: "MIG off", a: mig, b: must(fakehw.WithMIG(mig, 0, nil, true)), want: []string{
			"gpus: 0000:65:00.0: MIG mode: a has on, b has none", "mig: 0000:65:00.0 GI 2: a has 3g.20gb, b has none",
		}},
		{name: "a library that is missing", a: plain, b: plain, change: func(f *tree.Tree) error { return f.Remove(lib + "libnvidia-ptxjitcompiler.so.535.113.01") },
			want: []string{"libraries: (library folder)/libnvidia-ptxjitcompiler.so.(version): a has the library, b has none"}},
		{name: "a link that leads elsewhere", a: plain, b: plain, change: func(f *tree.Tree) error { return f.Symlink(lib+"libcuda.so", "/opt/libcuda.so") }, alone: true,
			want: []string{"links: (library folder)/libcuda.so: target: a has libcuda.so.1, b has /opt/libcuda.so"}},
		{name: "a parameter of the driver", a: plain, b: plain, change: func(f *tree.Tree) error {
			return f.WriteFile("/sys/module/nvidia_drm/parameters/modeset", []byte("N\n"), 0o444)
		},
			want: []string{"files: /sys/module/nvidia_drm/parameters/modeset: content: a has \"Y\", b has \"N\""}},
		{name: "a tool's mode", a: plain, b: plain, change: func(f *tree.Tree) error { return f.Chmod("/usr/bin/nvidia-smi", 0o700) }, alone: true,
			want: []string{"files: /usr/bin/nvidia-smi: mode: a has 0755, b has 0700"}},
		{name: "a configuration", a: plain, b: plain, change: func(f *tree.Tree) error {
			return f.WriteFile("/etc/nvidia-container-runtime/config.toml", []byte("x = 1\n"), 0o644)
		}, alone: true,
			want: []string{"files: /etc/nvidia-container-runtime/config.toml: b has the file, a has none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := sentences(t, machineOf(t, tc.a, nil), machineOf(t, tc.b, tc.change))
			for _, w := range tc.want {
				if !slices.Contains(got, w) {
					t.Errorf("no sentence %q in\n%s", w, strings.Join(got, "\n"))
				}
			}
			if tc.alone && len(got) != len(tc.want) {
				t.Errorf("%d sentences, want %d:\n%s", len(got), len(tc.want), strings.Join(got, "\n"))
			}
		})
	}
}
