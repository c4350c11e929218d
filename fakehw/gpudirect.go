package fakehw

import (
	"fmt"
	"strings"

	"gpurig/core/host"
)

// A GPUDirect says which drivers stand beside NVIDIA's that reach the memory of
// a GPU. The zero value is a host without them.
type GPUDirect struct {
	Storage bool `yaml:"storage"`            // nvidia-fs, with the settings in /etc/cufile.json
	Copy    bool `yaml:"copy"`               // gdrdrv
	RDMA    int  `yaml:"rdma" range:"0..32"` // ports of RDMA adapters, each a node uverbsN
}

const (
	storageNodes = 16  // nvidia-fs makes all of them at once (MAX_NVFS_DEVICES, gds-nvidia-fs nvfs-core.h)
	majorVerbs   = 231 // IB_UVERBS_MAJOR, drivers/infiniband/core/uverbs_main.c
	minorVerbs   = 192 // IB_UVERBS_BASE_MINOR
	minorRDMA    = 121 // of rdma_cm: the misc driver gives a free one
)

// WithGPUDirect returns m with the drivers that o names. Storage and Copy stand
// on NVIDIA's driver, which must be loaded. Nodes are everybody's, as the udev
// rules of rdma-core and the two drivers make them.
func WithGPUDirect(m host.Model, o GPUDirect, majors map[string]uint32) (host.Model, error) {
	out := m.Clone()
	if out.Driver == nil && (o.Storage || o.Copy) {
		return host.Model{}, impossible("GPUDirect", "NVIDIA's driver is not loaded")
	}
	if o.Storage {
		out.Driver.Modules = append(out.Driver.Modules, "nvidia_fs")
		major := addMajor(&out, "nvidia-fs", majors["nvidia-fs"])
		for i := range storageNodes {
			setNode(&out, char(fmt.Sprintf("/dev/nvidia-fs%d", i), major, uint32(i), 0o666, 0))
		}
	}
	if o.Copy {
		setNode(&out, char("/dev/gdrdrv", addMajor(&out, "gdrdrv", majors["gdrdrv"]), 0, 0o666, 0))
	}
	if o.RDMA > 0 {
		addMajor(&out, "infiniband_verbs", majorVerbs)
		addMajor(&out, "misc", majorMisc)
		setNode(&out, char("/dev/infiniband/rdma_cm", majorMisc, minorRDMA, 0o666, 0))
		for i := range o.RDMA {
			setNode(&out, char(fmt.Sprintf("/dev/infiniband/uverbs%d", i), majorVerbs, uint32(minorVerbs+i), 0o666, 0))
		}
	}
	normalize(&out)
	return out, nil
}

// dropGPUDirect removes what cannot stay without NVIDIA's driver; nodes called
// nvidia-fs go with the others of that name.
func dropGPUDirect(m *host.Model) {
	dropNodes(m, func(p string) bool { return p == "/dev/gdrdrv" })
	dropMajors(m, func(name string) bool { return name == "gdrdrv" })
}

// beside are the modules that lines of /proc/devices stand for and that are not
// among those of NVIDIA's driver.
func (b *builder) beside() []string {
	var out []string
	for _, x := range b.m.Majors {
		switch x.Name {
		case "gdrdrv":
			out = append(out, "gdrdrv")
		case "infiniband_verbs":
			out = append(out, "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "rdma_cm", "rdma_ucm")
		}
	}
	return out
}

// storage makes the settings of GPUDirect Storage, of the package gds-tools, and
// the device database that its library reads.
func (b *builder) storage() {
	b.dir("/run/udev/data")
	for _, n := range b.m.Nodes {
		if strings.HasPrefix(n.Path, "/dev/nvidia-fs") {
			b.file("/etc/cufile.json", cufile, 0o644)
			return
		}
	}
}

const cufile = `{
    "logging": {"level": "ERROR"},
    "profile": {"nvtx": false, "cufile_stats": 0},
    "properties": {
        "max_direct_io_size_kb": 16384,
        "max_device_cache_size_kb": 131072,
        "max_device_pinned_mem_size_kb": 33554432,
        "use_poll_mode": false,
        "allow_compat_mode": true,
        "rdma_dev_addr_list": []
    }
}
`
