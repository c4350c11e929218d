package fakehw_test

import (
	"errors"
	"slices"
	"testing"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
)

func TestGPUDirectGoesWithTheDriver(t *testing.T) {
	p, err := profiles.Load("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	has := func(m host.Model, p string) bool {
		return slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return n.Path == p })
	}
	after := fakehw.Unloaded(m)
	for path, stays := range map[string]bool{"/dev/nvidia-fs0": false, "/dev/gdrdrv": false, "/dev/infiniband/uverbs0": true, "/dev/infiniband/rdma_cm": true} {
		if !has(m, path) || has(after, path) != stays {
			t.Errorf("%s: there %v, without NVIDIA's driver %v, want %v", path, has(m, path), has(after, path), stays)
		}
	}
	tr, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/cufile.json", "/run/udev/data", "/sys/module/nvidia_fs/version", "/sys/module/gdrdrv/initstate", "/sys/module/nvidia/holders/gdrdrv", "/sys/module/ib_uverbs/initstate"} {
		if _, err := tr.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := fakehw.WithGPUDirect(after, fakehw.GPUDirect{Copy: true}, nil); !errors.Is(err, fakehw.ErrImpossible) {
		t.Errorf("WithGPUDirect() without NVIDIA's driver = %v, want %v", err, fakehw.ErrImpossible)
	}
}
