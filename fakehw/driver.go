package fakehw

import (
	"gpurig/core/host"
	"gpurig/fakehw/driverfs"
	"gpurig/fakehw/tree"
)

// installDriver puts the user-space driver's files into t.
func installDriver(t *tree.Tree, m host.Model) error { return driverfs.Install(t, m) }
