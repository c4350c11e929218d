package driverfs

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/core/ldcache"
	"gpurig/fakehw/tree"
)

// The package of the vGPU manager has what packagers take out of it, and of all
// libraries NVML alone is found by its SONAME.
func TestVGPUManagersPackage(t *testing.T) {
	m := host.Model{
		Arch: "x86_64", OS: host.OS{ID: "ubuntu", VersionID: "22.04", MergedUsr: true},
		Userspace: &host.Userspace{Version: "535.113.01", LibDir: "/usr/lib/x86_64-linux-gnu", VGPU: true},
	}
	tr := install(t, m)
	var got []string
	if err := tr.Walk(func(p string, e *tree.Entry) error {
		if !e.Mode.IsDir() && (strings.Contains(p, "nvidia") || strings.Contains(p, "cuda") || strings.Contains(p, "sriov")) {
			got = append(got, p)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`
/usr/bin/nvidia-bug-report.sh /usr/bin/nvidia-debugdump /usr/bin/nvidia-modprobe /usr/bin/nvidia-smi
/usr/bin/nvidia-vgpu-mgr /usr/bin/nvidia-vgpud /usr/bin/nvidia-xid-logd
/usr/lib/firmware/nvidia/535.113.01/gsp_ga10x.bin /usr/lib/firmware/nvidia/535.113.01/gsp_tu10x.bin
/usr/lib/nvidia/sriov-manage
/usr/lib/x86_64-linux-gnu/libnvidia-ml.so /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.113.01
/usr/lib/x86_64-linux-gnu/libnvidia-vgpu.so.535.113.01 /usr/lib/x86_64-linux-gnu/libnvidia-vgxcfg.so.535.113.01
/usr/share/nvidia/vgpu/vgpuConfig.xml`)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	data, err := tr.ReadFile(ldcache.File)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ldcache.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Lookup("libnvidia-ml.so.1")) == 0 || len(c.Lookup("libcuda.so.1")) > 0 {
		t.Errorf("the loader finds NVML %v, CUDA %v", c.Lookup("libnvidia-ml.so.1"), c.Lookup("libcuda.so.1"))
	}
	if info, err := tr.Lstat("/run/nvidia-vgpu-mgr"); err != nil || info.Mode&fs.ModeDir == 0 {
		t.Errorf("the manager left no folder: %v", err)
	}
}
