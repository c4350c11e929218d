package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/cdi/amd"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/runner/specgen"
)

// A machine is what --host names: a fake host, or the one we run on.
type machine struct {
	name  string
	model host.Model
	root  host.Root
	// spec makes the CDI Spec of NVIDIA's devices.
	spec func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error)
}

// openMachine opens the fake host of that name or profile file; an empty name
// is this machine. close must be called.
func openMachine(name string) (m machine, closeIt func(), err error) {
	if name == "" {
		return openReal()
	}
	_, model, err := loadHost(name)
	if err != nil {
		return machine{}, nil, err
	}
	request := specgen.Request{Model: model}
	t, err := request.Tree()
	if err != nil {
		return machine{}, nil, broken(err)
	}
	generator := specgen.New(specgen.Options{Children: 1})
	spec := func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
		r := request
		r.Options = specgen.HostOptions(model, o)
		return generator.Generate(ctx, r)
	}
	return machine{name: name, model: model, root: t, spec: spec}, func() { generator.Close() }, nil
}

func openReal() (machine, func(), error) {
	root, err := osroot.New("/")
	if err != nil {
		return machine{}, nil, broken(err)
	}
	lib := nvml.New()
	model, err := host.Discover(root, discoverable(lib))
	if err != nil {
		root.Close()
		return machine{}, nil, fmt.Errorf("this machine: %w", err)
	}
	spec := func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
		return nvidia.Generate(ctx, root, lib, o)
	}
	return machine{name: "this machine", model: model, root: root, spec: spec}, func() { root.Close() }, nil
}

// discoverable is the library as Discover reads it; nil when it does not start,
// as on a machine without NVIDIA's driver.
func discoverable(lib nvml.Interface) host.NVML {
	if lib.Init() != nvml.SUCCESS {
		return nil
	}
	return nvidia.NVML(lib)
}

// sources are all Specs that a device name can come from: those on the host's
// disk and those that are generated for it.
func (m machine) sources(ctx context.Context, warn io.Writer) ([]cdi.Source, error) {
	sources, problems := cdi.ReadDirs(m.root, cdi.DefaultDirs())
	for _, p := range problems {
		fmt.Fprintf(warn, "warning: %s\n", printable(p.String()))
	}
	add := func(s *specs.Spec) {
		if s != nil {
			sources = append(sources, cdi.FromHost(s))
		}
	}
	if m.model.Driver != nil || m.model.Tegra != nil {
		res, err := m.spec(ctx, nvidia.Options{})
		if err != nil {
			return nil, err
		}
		add(res.Spec)
	}
	s, err := amd.Generate(m.root, m.model)
	if err != nil {
		return nil, err
	}
	add(s)
	return sources, nil
}

func isRoot() bool { return os.Geteuid() == 0 }
