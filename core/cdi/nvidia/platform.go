package nvidia

import (
	"path"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvlib/pkg/nvlib/info"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"

	"gpurig/core/host"
)

// dxcore is where WSL mounts the library that go-nvlib looks for by dlopen.
const dxcore = "/usr/lib/wsl/lib/libdxcore.so"

// A platform answers go-nvlib's questions about the host. Two answers are ours:
// go-nvlib would load libraries of the host into this process to give them.
type platform struct {
	info.PropertyExtractor
	root host.Root
	lib  nvml.Interface
	opts Options
}

// platformInfo tells nvcdi what kind of host it is on. The NVML that we were
// handed is the host's, so there is no looking for another.
func platformInfo(root host.Root, lib nvml.Interface, devices device.Interface, opts Options) info.Interface {
	theirs := info.New(info.WithRoot(opts.DriverRoot), info.WithNvmlLib(lib), info.WithDeviceLib(devices))
	return info.New(info.WithPropertyExtractor(&platform{PropertyExtractor: theirs, root: root, lib: lib, opts: opts}))
}

// HasNvml is part of info.PropertyExtractor.
func (p *platform) HasNvml() (bool, string) {
	if r := p.lib.Init(); r != nvml.SUCCESS {
		return false, "NVML does not start: " + r.Error()
	}
	p.lib.Shutdown()
	return true, "NVML starts"
}

// HasDXCore is part of info.PropertyExtractor.
func (p *platform) HasDXCore() (bool, string) {
	at := path.Join(p.opts.DriverRoot, dxcore)
	if ok, err := host.Exists(p.root, at); err != nil || !ok {
		return false, at + " not found"
	}
	return true, at + " found"
}

// resolveMode turns "auto" into the mode that fits the host.
func resolveMode(opts Options, platform info.Interface) (nvcdi.Mode, error) {
	if opts.Mode != string(nvcdi.ModeAuto) {
		return nvcdi.Mode(opts.Mode), nil
	}
	switch platform.ResolvePlatform() {
	case info.PlatformTegra:
		return nvcdi.ModeCSV, nil
	case info.PlatformWSL:
		return "", refusal(ReasonWSL, "", "this is a Windows subsystem for Linux")
	}
	// Not known: nvcdi assumes mode nvml as well, and what is wrong with the
	// driver shows there.
	return nvcdi.ModeNvml, nil
}
