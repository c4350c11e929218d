package nvidia_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// These refusals are found before nvcdi opens any file, so they need no host at "/".
func TestGenerateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*host.Model)
		fail   map[string]nvml.Return
		opts   nvidia.Options
		files  []string
		want   refuse.Reason
		says   string
	}{
		{name: "a host without the libraries", change: func(m *host.Model) { m.Userspace = nil }, want: nvidia.ReasonNoLibrary, says: "libnvidia-ml.so.1"},
		{name: "bug core-mesa-wayland", change: func(m *host.Model) { m.Userspace = nil }, opts: nvidia.Options{DriverRoot: "/snap/driver"}, want: nvidia.ReasonNoLibrary, says: "below the driver root /snap/driver"},
		{name: "a host without the kernel driver", change: func(m *host.Model) { m.Driver = nil }, want: nvidia.ReasonNoDriver},
		{name: "libraries upgraded under a running driver", change: func(m *host.Model) { m.Userspace.Version = "570.1" }, want: nvidia.ReasonMismatch, says: "ERROR_LIB_RM_VERSION_MISMATCH"},
		{name: "NVML that times out", fail: map[string]nvml.Return{"Init": nvml.ERROR_TIMEOUT}, want: nvidia.ReasonNVML, says: "ERROR_TIMEOUT"},
		{name: "B45: all GPUs fell off the bus", fail: map[string]nvml.Return{"*:0": nvml.ERROR_GPU_IS_LOST, "*:1": nvml.ERROR_GPU_IS_LOST, "*:2": nvml.ERROR_UNKNOWN, "*:3": nvml.ERROR_UNKNOWN},
			want: nvidia.ReasonNVML, says: "GPU 0: NVML DeviceGetHandleByIndex: the GPU has fallen off the bus: ERROR_GPU_IS_LOST"},
		{name: "B45: the only GPU beside an empty one fell off the bus", change: func(m *host.Model) { m.GPUs = m.GPUs[1:3] }, fail: map[string]nvml.Return{"*:0": nvml.ERROR_GPU_IS_LOST},
			want: nvidia.ReasonNVML, says: "GPU 0: NVML"},
		{name: "no GPU", change: func(m *host.Model) { m.GPUs = nil }, want: nvidia.ReasonNoDevices},
		{name: "bug mig-enabled-empty", change: func(m *host.Model) { m.GPUs = m.GPUs[2:3]; m.GPUs[0].Index = 0 }, want: nvidia.ReasonMIGEmpty, says: "GPU 0"},
		{name: "bug empty-tegra-spec", opts: nvidia.Options{Mode: "csv"}, want: nvidia.ReasonNoCSV, says: "devices.csv, drivers.csv, l4t.csv"},
		{name: "a CSV file that is not there", opts: nvidia.Options{Mode: "csv", CSVFiles: []string{"/a.csv"}}, want: nvidia.ReasonNoCSV, says: "/a.csv: no such file"},
		{name: "WSL", opts: nvidia.Options{Mode: "auto"}, files: []string{"/usr/lib/wsl/lib/libdxcore.so"}, want: nvidia.ReasonWSL},
		{name: "an unknown mode", opts: nvidia.Options{Mode: "nvlm"}, want: nvidia.ReasonBadOption, says: `mode: "nvlm"`},
		{name: "mode wsl", opts: nvidia.Options{Mode: "wsl"}, want: nvidia.ReasonWSL, says: "/dev/dxg"},
		{name: "an unknown naming", opts: nvidia.Options{Names: []string{"serial"}}, want: nvidia.ReasonBadOption, says: `"serial"`},
		{name: "a relative driver root", opts: nvidia.Options{DriverRoot: "run/driver"}, want: nvidia.ReasonBadOption, says: "driver root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := server()
			if tc.change != nil {
				tc.change(&m)
			}
			root := tree.New()
			for _, f := range tc.files {
				if err := root.WriteFile(f, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if tc.opts.Mode == "" {
				tc.opts.Mode = "nvml"
			}
			lib := nvmlfake.New(m, nvmlfake.Options{Fail: tc.fail})
			got, err := nvidia.Generate(t.Context(), root, lib, tc.opts)
			if got != nil || !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Generate() = %v, %v; want %s and %q", got, err, tc.want, tc.says)
			}
			if lib.Users() != 0 {
				t.Errorf("%d users of the library left behind", lib.Users())
			}
		})
	}
}

// Bug driver-upgrade-trap: NVML only says that versions differ, the refusal says
// which they are.
func TestGenerateNamesBothVersions(t *testing.T) {
	p, err := profiles.Load("t4-server")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	if m, err = fakehw.WithUserspace(m, "550.163.01"); err != nil {
		t.Fatal(err)
	}
	root, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	_, err = nvidia.Generate(t.Context(), root, nvmlfake.New(m, nvmlfake.Options{}), nvidia.Options{Mode: "nvml"})
	want := "the loaded kernel driver is 535.113.01 and the installed libraries are 550.163.01"
	if !errors.Is(err, nvidia.ReasonMismatch) || !strings.Contains(err.Error(), want) {
		t.Errorf("Generate() = %v; want %s and %q", err, nvidia.ReasonMismatch, want)
	}
}

func TestGenerateEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if _, err := nvidia.Generate(ctx, tree.New(), nvmlfake.New(server(), nvmlfake.Options{}), nvidia.Options{}); !errors.Is(err, why) {
		t.Errorf("Generate() = %v", err)
	}
}

func TestReasonsAreAllExplainedOnce(t *testing.T) {
	var seen []refuse.Reason
	for _, m := range nvidia.Reasons() {
		if m.Meaning == "" || !strings.HasSuffix(m.Meaning, ".") || slices.Contains(seen, m.Reason) {
			t.Errorf("%s: %q", m.Reason, m.Meaning)
		}
		seen = append(seen, m.Reason)
	}
	if len(seen) != 19 {
		t.Errorf("%d reasons are explained", len(seen))
	}
}

func TestModesLeaveOutWSL(t *testing.T) {
	got := strings.Join(nvidia.Modes(), " ")
	if want := "auto csv gdrcopy gds imex management mig-caps mofed nvml nvswitch"; got != want {
		t.Errorf("Modes() = %s, want %s", got, want)
	}
}
