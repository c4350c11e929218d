package fakehw

import (
	"gpurig/core/host"
	"gpurig/fakehw/driverfs"
	"gpurig/fakehw/tree"
)

// installDriver adds NVIDIA's user space, and what the base system needs for it.
func installDriver(t *tree.Tree, m host.Model) error { return driverfs.Install(t, m) }
