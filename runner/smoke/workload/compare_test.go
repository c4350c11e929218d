package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/runner/smoke"
)

func TestLookNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"nvidia0", "nvidia-uvm-tools", "nvidia-caps/nvidia-cap3", "dri/card0", "dri/renderD128", "null", "nvidia-modeset"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, n := range look(dir) {
		got = append(got, n.Path+" "+n.Open)
	}
	want := "/dev/nvidiactl missing, /dev/nvidia-uvm missing, /dev/dri/renderD128 allowed, /dev/nvidia-caps/nvidia-cap3 allowed, /dev/nvidia0 allowed"
	if g := strings.Join(got, ", "); g != want {
		t.Errorf("%s; want %s", g, want)
	}
}

func TestCompare(t *testing.T) {
	const (
		gpu0 = "GPU-00000000-0000-0000-0000-000000000000"
		gpu1 = "GPU-11111111-1111-1111-1111-111111111111"
		mig0 = "MIG-00000000-0000-0000-0000-000000000000"
		mig1 = "MIG-11111111-1111-1111-1111-111111111111"
	)
	for _, tc := range []struct {
		name, visible string
		cuda, nvml    []string
		says          string // empty: they agree
	}{
		{name: "the same", cuda: []string{gpu1, gpu0}, nvml: []string{gpu0, gpu1}},
		{name: "one more of CUDA", cuda: []string{gpu0, gpu1}, nvml: []string{gpu0}, says: gpu1 + " is listed only by CUDA"},
		{name: "one more of NVML", cuda: []string{gpu0}, nvml: []string{gpu0, gpu1}, says: gpu1 + " is listed only by NVML"},
		{name: "one hidden", visible: "0", cuda: []string{gpu0}, nvml: []string{gpu0, gpu1}},
		{name: "a Tegra's, without a prefix", cuda: []string{gpu0}, nvml: []string{gpu0[4:]}},
		{name: "one MIG device of two", cuda: []string{mig0}, nvml: []string{mig0, mig1, gpu1}},
		{name: "two MIG devices at once", cuda: []string{mig0, mig1}, nvml: []string{mig0, mig1}, says: "one of 2 devices"},
		{name: "the MIG device of another", cuda: []string{mig0}, nvml: []string{mig1}, says: mig0 + " is listed only by CUDA"},
		{name: "a GPU in MIG mode without a device", cuda: []string{gpu1}, nvml: []string{smoke.MIGMode + gpu0, gpu1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.visible != "" {
				t.Setenv("CUDA_VISIBLE_DEVICES", tc.visible)
			}
			r := smoke.Result{NVML: &smoke.Listing{UUIDs: tc.nvml}}
			for _, id := range tc.cuda {
				r.Devices = append(r.Devices, smoke.Device{UUID: id, MIG: strings.HasPrefix(id, "MIG-")})
			}
			f := compare(r)
			if (f == nil) != (tc.says == "") || f != nil && (f.Cause != smoke.NVMLDiffers || !strings.Contains(f.Reason, tc.says)) {
				t.Errorf("%+v; want %q", f, tc.says)
			}
		})
	}
}
