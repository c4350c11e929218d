package machine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/nvmllib"
)

// build runs a compiler and returns what it made.
func build(t testing.TB, name string, env []string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command(name, args...)
	for i, a := range cmd.Args {
		if a == "OUT" {
			cmd.Args[i] = out
		}
	}
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		machinetest.Skip(t, "%q: %v\n%s", cmd.Args, err, text)
	}
	return out
}

// A static program in Go that asks NVML: it loads the library by itself, which needs
// the C library that it was linked with, as on any machine.
func TestAStaticProgramAsksNVML(t *testing.T) {
	machinetest.Require(t)
	program := build(t, "go", []string{"CGO_ENABLED=1"}, "build", "-ldflags", "-linkmode external -extldflags -static", "-o", "OUT", "./testdata/staticnvml")
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		for profile, want := range map[string]string{
			"dgx-a100":        "7 NVIDIA A100-SXM4-40GB\n",
			"a100-mig-2g-3g":  "0 NVIDIA A100-PCIE-40GB\n",
			"jetson-agx-orin": "0 Orin (nvgpu)\n",
			"igx-orin":        "0 Orin (nvgpu)\n1 NVIDIA RTX A6000\n",
			"vgpu-a40":        "0 NVIDIA A40\n1 NVIDIA A40\n",
			"workstation":     "0 NVIDIA GeForce RTX 4090\n",
			"no-driver":       "libnvidia-ml.so.1: cannot open shared object file: No such file or directory\n",
		} {
			h := machinetest.Host(t, profile)
			got, exit := machinetest.Run(t, h, machinetest.Working(t, h, o), program)
			if !strings.HasSuffix(got, want) || (exit != 0) != (profile == "no-driver") {
				t.Errorf("%s: exit code %d\n%s\nwant %q", profile, exit, got, want)
			}
		}
	})
}

// A program in C that is linked with the library, a static one in Go that looks
// at files alone, and one in Go that opens the library itself.
func TestProgramsListTheGPUs(t *testing.T) {
	machinetest.Require(t)
	lib, err := nvmllib.Build(t.Context(), "")
	if err != nil {
		machinetest.Skip(t, "%v", err)
	}
	inC := build(t, "cc", nil, "-o", "OUT", "../nvmllib/testdata/list.c", lib)
	static := build(t, "go", []string{"CGO_ENABLED=0"}, "build", "-o", "OUT", "./testdata/sysfs")
	inGo := build(t, "go", []string{"CGO_ENABLED=1"}, "build", "-o", "OUT", "./testdata/gonvml")
	machinetest.Ways(t, func(t *testing.T, o machine.Options) {
		for _, tc := range []struct{ profile, program, want string }{
			{"dgx-a100", inC, "driver 535.113.01, 8 GPUs"},
			{"dgx-a100", static, "0000:07:00.0 nvidia 0 195 0 <nil>\n0000:0f:00.0 nvidia 1 195 1 <nil>\n"},
			{"dgx-a100", inGo, "Success\nNVIDIA A100-SXM4-40GB 0000:07:00\nNVIDIA A100-SXM4-40GB 0000:0f:00\n"},
			{"a100-mig-2g-3g", inC, "1 GPUs"},
			{"a100-mig-2g-3g", inC, "\n  0 NVIDIA A100-PCIE-40GB MIG 3g.20gb, 0 MIG-"},
			{"a100-mig-2g-3g", static, "0000:65:00.0 nvidia 0 195 0 <nil>\n"},
			{"a100-mig-2g-3g", inGo, "Success\nNVIDIA A100-PCIE-40GB 0000:65:00\n"},
			{"jetson-agx-orin", inC, "1 GPUs"},
			{"jetson-agx-orin", static, ""}, // its GPU is on no bus
			{"jetson-agx-orin", inGo, "Success\nOrin (nvgpu) 0000:00:00\n"},
			{"igx-orin", inC, "2 GPUs"},
			{"igx-orin", static, "0005:09:00.0 nvidia 1 195 1 <nil>\n"},
			{"igx-orin", inGo, "Success\nOrin (nvgpu) 0000:00:00\nNVIDIA RTX A6000 0005:09:00\n"},
			{"vgpu-a40", inC, "2 GPUs"},
			{"vgpu-a40", static, "0000:3b:00.0 nvidia 0 195 0 <nil>\n0000:e8:00.0 nvidia 1 195 1 <nil>\n"},
			{"vgpu-a40", inGo, "Success\nNVIDIA A40 0000:3b:00\nNVIDIA A40 0000:e8:00\n"},
			{"workstation", inC, "1 GPUs"},
			{"workstation", static, "0000:0a:00.0 nvidia 0 195 0 <nil>\n"},
			{"workstation", inGo, "Success\nNVIDIA GeForce RTX 4090 0000:0a:00\n"},
			{"nixos-4090", inGo, "Success\nNVIDIA GeForce RTX 4090 "},
			{"snap-t4", inC, "1 GPUs"},
			{"no-driver", static, " . -1 0 0 no such file or directory\n"},
		} {
			h := machinetest.Host(t, tc.profile)
			got, exit := machinetest.Run(t, h, machinetest.Working(t, h, o), tc.program)
			if exit != 0 || !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("%s, %s: exit code %d\n%s\nwant %q", tc.profile, filepath.Base(filepath.Dir(tc.program)), exit, got, tc.want)
			}
		}
	})
}
