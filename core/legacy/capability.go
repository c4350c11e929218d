package legacy

import (
	"path"
	"slices"
	"strings"

	"gpurig/core/refuse"
)

// A Capability is what a container is to do with the driver, and names a set of its
// files and control nodes.
type Capability string

// The driver capabilities of NVIDIA_DRIVER_CAPABILITIES. Display has all of
// Graphics, and Video the libraries of Compute, which its own load.
const (
	Compute  Capability = "compute"
	Utility  Capability = "utility"
	Video    Capability = "video"
	Graphics Capability = "graphics"
	Display  Capability = "display"
	NGX      Capability = "ngx"
	Compat32 Capability = "compat32" // 32-bit libraries, of which generated Specs have none
)

// Capabilities are all of them.
var Capabilities = []Capability{Compute, Utility, Video, Graphics, Display, NGX, Compat32}

// ParseCapabilities reads the value of NVIDIA_DRIVER_CAPABILITIES or of
// nvidia.driver.capabilities: names with commas or blanks between, or "all".
func ParseCapabilities(text string) ([]Capability, error) {
	var out []Capability
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch c := Capability(name); {
		case name == "all":
			return slices.Clone(Capabilities), nil
		case !slices.Contains(Capabilities, c):
			return nil, refuse.New(ReasonCapability, "", "unknown driver capability %q", name).
				WithHint("The capabilities are compute, utility, video, graphics, display, ngx and compat32, or all.")
		case !slices.Contains(out, c):
			out = append(out, c)
		}
	}
	return out, nil
}

// Has reports whether the container is to have any of these.
func (r Request) Has(any ...Capability) bool {
	return slices.ContainsFunc(any, func(c Capability) bool { return slices.Contains(r.Capabilities, c) })
}

// brings says which files a capability brings: libraries by the beginning of their
// name, programs by their name. Other files of the driver are for graphics.
//
// Source: the lists of src/nvc_info.c of libnvidia-container 1.17.
var brings = []struct {
	names []string
	by    []Capability
}{
	{strings.Fields("libnvidia-ml.so libnvidia-cfg.so libnvidia-nscq.so nvidia-smi nvidia-debugdump nvidia-persistenced"), []Capability{Utility}},
	{strings.Fields(`libcuda.so libcudadebugger.so libnvidia-opencl.so libnvidia-ptxjitcompiler.so libnvidia-fatbinaryloader.so libnvidia-compiler.so
		libnvidia-pkcs11 libnvidia-nvvm nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-mps nvidia.icd`), []Capability{Compute, Video}},
	{strings.Fields("libnvidia-gpucomp.so libnvidia-allocator.so"), []Capability{Compute, Video, Graphics, Display}},
	{strings.Fields("libvdpau_nvidia.so libnvidia-encode.so libnvidia-opticalflow.so libnvcuvid.so"), []Capability{Video}},
	{strings.Fields("libnvidia-ngx.so nvidia-ngx-updater"), []Capability{NGX}},
}

// hasFile reports whether the container gets a file of the driver.
func (r Request) hasFile(target string) bool {
	name := path.Base(target)
	switch {
	case strings.Contains(target, "/firmware/"):
		return !slices.Contains(r.Omit, Firmware)
	case strings.Contains(target, "/nvidia-persistenced/"):
		return !slices.Contains(r.Omit, Persistenced)
	case strings.Contains(target, "/nvidia-fabricmanager/"):
		return !slices.Contains(r.Omit, FabricManager)
	}
	for _, b := range brings {
		if slices.ContainsFunc(b.names, func(n string) bool { return strings.HasPrefix(name, n) }) {
			return r.Has(b.by...)
		}
	}
	return r.Has(Graphics, Display)
}

// hasNode reports whether the container gets a node of the driver.
func (r Request) hasNode(node string) bool {
	switch name := path.Base(node); {
	case strings.HasPrefix(node, "/dev/dri/"): // which this way never gave
		return false
	case strings.HasPrefix(name, "nvidia-uvm"):
		return r.Has(Compute, Video)
	case name == "nvidia-modeset":
		return r.Has(Graphics, Display)
	}
	return true
}
