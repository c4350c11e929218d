package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/passthrough"
)

// driverFlags are the flags of addDriver.
var driverFlags = []string{"driver-root", "dev-root", "library-search-path", "csv-file", "nvidia-cdi-hook-path", "spec-dir", "names"}

// addDriver gives a command the flags that say how its host is read, by the names
// that NVIDIA's own tool has for them.
func addDriver(cmd *cobra.Command, o *passthrough.HostOptions) {
	fl := cmd.Flags()
	fl.StringVar(&o.DriverRoot, "driver-root", "", "`DIR` where the driver's files are (default where they are found, / first)")
	fl.StringVar(&o.DevRoot, "dev-root", "", "`DIR` that has /dev (default /)")
	fl.StringSliceVar(&o.LibrarySearchPaths, "library-search-path", nil, "`DIR,...` where the driver's libraries are (default where they are found)")
	fl.StringSliceVar(&o.CSVFiles, "csv-file", nil, "`FILE,...` that list what containers need of a Tegra (default those of NVIDIA's container runtime)")
	fl.StringVar(&o.HookPath, "nvidia-cdi-hook-path", "", "`PROGRAM` that hooks of generated Specs run (default "+nvidia.DefaultHookPath+")")
	fl.StringSliceVar(&o.SpecDirs, "spec-dir", nil, "`DIR,...` with CDI Specs, the last comes first (default "+strings.Join(cdi.DefaultDirs(), ",")+")")
	fl.StringSliceVar(&o.DeviceNaming, "names", nil, "`KIND,...` of device names in generated Specs: "+strings.Join(nvidia.NameStrategies(), ", ")+" (default all)")
}
