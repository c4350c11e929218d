package host

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/device"
)

type nodeOf = device.Node

// maxNodeDepth is how deep below /dev a GPU's node can be: nvgpu/igpu0/channel.
const maxNodeDepth = 3

// nodes reads the device nodes that belong to GPUs. Links in /dev are not nodes
// and are left out, as is whatever else stands under such a name.
func (d *discovery) nodes() error {
	names, err := d.list("/dev")
	if err != nil {
		return err
	}
	for _, name := range names {
		if gpuNode(name) {
			d.problem("device node /dev/"+name, d.node("/dev/"+name, 1))
		}
	}
	slices.SortFunc(d.m.Nodes, func(a, b device.Node) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// gpuNode reports whether an entry of /dev is a GPU's, or a folder of such.
func gpuNode(name string) bool {
	switch name {
	case "dri", "kfd", "nvgpu", "nvmap", "nvsciipc", "vfio", "iommu", "accel", "gdrdrv", "infiniband":
		return true
	}
	if _, ok := numbered(name, "fb"); ok {
		return true
	}
	for _, prefix := range []string{"nvidia", "nvhost-", "host1x", "tegra_dc_", "v4l2-nv"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// node adds what is at p: a node, or the nodes of a folder.
func (d *discovery) node(p string, depth int) error {
	info, err := d.lstat(p)
	if err != nil {
		return fmt.Errorf("look at %s: %w", p, err)
	}
	switch {
	case info.IsDevice():
		d.m.Nodes = append(d.m.Nodes, device.Node{
			Path: p, Type: info.DeviceType(), Num: info.Num, Mode: info.Mode.Perm(), UID: info.UID, GID: info.GID,
		})
	case info.Mode.IsDir() && depth < maxNodeDepth:
		names, err := d.list(p)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := d.node(p+"/"+name, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsGPUNode reports whether Discover takes an entry of /dev, by its name alone,
// for a GPU's node or a folder of such.
func IsGPUNode(name string) bool { return gpuNode(name) }
