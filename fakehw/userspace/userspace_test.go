package userspace_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/userspace"
)

func TestMain(m *testing.M) {
	machine.Init()
	os.Exit(m.Run())
}

func TestWithoutACompilerThereIsAWarningAndAMachine(t *testing.T) {
	t.Setenv("CC", "/no/such/compiler")
	h := machinetest.Host(t, "dgx-a100")
	var o machine.Options
	var warn strings.Builder
	if err := userspace.Add(t.Context(), h, &o, userspace.Options{Warn: &warn}); err != nil {
		t.Fatal(err)
	}
	if w := warn.String(); strings.Count(w, "\n") != 1 || !strings.Contains(w, "no C compiler") {
		t.Errorf("the warning is %q", w)
	}
	if len(o.Files) != 0 || len(o.Serve) != 1 || len(o.Live) != 1 {
		t.Errorf("the machine gets %d files, %d sockets, %d live files", len(o.Files), len(o.Serve), len(o.Live))
	}
	machinetest.Require(t)
	machinetest.Shell(t, h, o, "test -S /run/gpurig/control && test -s /run/gpurig/nvml.state")
}

func TestWhichFilesAreReplaced(t *testing.T) {
	for profile, want := range map[string]string{
		"dgx-a100":        "/usr/lib/x86_64-linux-gnu/libcuda.so.535.113.01 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.113.01",
		"jetson-agx-orin": "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1 /usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1",
		"no-driver":       "",
	} {
		h := machinetest.Host(t, profile)
		o := machinetest.Working(t, h, machine.Options{})
		var got []string
		for p := range o.Files {
			if strings.Contains(p, ".so") {
				got = append(got, p)
			}
		}
		slices.Sort(got)
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: %s; want %s", profile, g, want)
		}
	}
}
