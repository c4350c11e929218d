package passthrough

import (
	"context"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/memo"
)

// HostOptions adjust how a host is read. The zero value finds the driver by
// itself, at the usual places and where the host's dynamic loader would.
type HostOptions struct {
	DriverRoot         string   // where the driver's files are; empty: where they are found, "/" first
	DevRoot            string   // where /dev is; empty: "/"
	LibrarySearchPaths []string // folders of the driver's libraries, in the place of the usual ones
	CSVFiles           []string // Tegra's lists; empty: those of NVIDIA's container runtime
	HookPath           string   // of hooks in generated Specs; empty: nvidia.DefaultHookPath
	SpecDirs           []string // folders with CDI Specs, in rising priority; empty: cdi.DefaultDirs
	DeviceNaming       []string // kinds of device names in generated Specs, of nvidia.NameStrategies; empty: all

	// Generate makes the Spec of NVIDIA's devices, in a process of its own say, which
	// can be ended when the library hangs. Nil: nvidia.Generate, in this process.
	Generate func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error)
}

// A Host is one state of a machine, as planning reads it: its files, and what
// NVIDIA's library says. It keeps what it has read: open another when the machine
// has changed. Its methods may be called from several goroutines.
type Host struct {
	root     host.Root
	lib      nvml.Interface
	opts     HostOptions
	model    func() (host.Model, error)
	onDisk   func() specsOnDisk
	specs    memo.Map[string, *nvidia.Result] // by mode
	generate sync.Mutex                       // held while the library makes a Spec
}

type specsOnDisk struct {
	sources  cdi.Specs
	problems []cdi.Problem
}

// New returns the host whose files root shows and whose NVML is lib; a nil lib
// says that there is none, or that it must not be asked. Nothing is read yet.
func New(root host.Root, lib nvml.Interface, o HostOptions) *Host {
	if len(o.SpecDirs) == 0 {
		o.SpecDirs = cdi.DefaultDirs()
	}
	h := &Host{root: root, lib: lib, opts: o}
	h.model = sync.OnceValues(func() (host.Model, error) { return host.Discover(root, h.library()) })
	h.onDisk = sync.OnceValue(func() specsOnDisk {
		sources, problems := cdi.ReadDirs(root, o.SpecDirs)
		return specsOnDisk{sources, problems}
	})
	return h
}

// Root returns the host's files.
func (h *Host) Root() host.Root { return h.root }

// Model returns what the host has, as host.Discover finds it.
func (h *Host) Model() (host.Model, error) { return h.model() }

// library is NVML as host.Discover asks it; nil where it does not start, as on a
// host without NVIDIA's driver.
func (h *Host) library() host.NVML {
	if h.lib == nil || h.lib.Init() != nvml.SUCCESS {
		return nil
	}
	h.lib.Shutdown()
	return nvidia.NVML(h.lib)
}

// Generate makes a Spec of NVIDIA's devices. What o leaves empty is as the host's
// options have it.
func (h *Host) Generate(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
	fill := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	list := func(s *[]string, v []string) {
		if len(*s) == 0 {
			*s = v
		}
	}
	fill(&o.DriverRoot, h.opts.DriverRoot)
	fill(&o.DevRoot, h.opts.DevRoot)
	fill(&o.HookPath, h.opts.HookPath)
	list(&o.LibrarySearchPaths, h.opts.LibrarySearchPaths)
	list(&o.CSVFiles, h.opts.CSVFiles)
	list(&o.Names, h.opts.DeviceNaming)
	if h.opts.Generate != nil {
		return h.opts.Generate(ctx, o)
	}
	h.generate.Lock() // NVML counts its starts for the whole process
	defer h.generate.Unlock()
	return nvidia.Generate(ctx, h.root, h.lib, o)
}
