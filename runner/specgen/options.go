package specgen

import (
	"path"
	"slices"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
)

// usual are the library folders in which the generator looks by itself.
var usual = []string{
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/usr/lib/aarch64-linux-gnu/nvidia/current", "/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
}

// HostOptions fills in what whoever administers the host m would tell the
// generator: where the driver is, if it is not at the usual place. Options that
// are set stay as they are.
func HostOptions(m host.Model, o nvidia.Options) nvidia.Options {
	if o.Mode == "auto" {
		o.Mode = "" // the same: requests of equal meaning are equal
	}
	u := m.Userspace
	if u == nil {
		return o
	}
	if o.DriverRoot == "" && u.DriverRoot != "" {
		o.DriverRoot = u.DriverRoot
	}
	// Tegra's own folder is in the CSV files.
	if len(o.LibrarySearchPaths) == 0 && m.Tegra == nil && !slices.Contains(usual, u.LibDir) {
		o.LibrarySearchPaths = []string{path.Join("/", o.DriverRoot, u.LibDir)}
	}
	return o
}
