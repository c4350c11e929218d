package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/passthrough"
	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/fakehw/mntns"
	"gpurig/runner/specgen"
)

// openProduct opens what --host names as planning reads it: a fake host, profile or
// recording; an empty name is this machine. close must be called. It is for
// commands that ask one machine one thing.
func openProduct(name string, o passthrough.HostOptions, faults ...string) (h *passthrough.Host, closeIt func(), err error) {
	debug.SetGCPercent(400) // such a command ends before collecting pays
	if name == "" && len(faults) > 0 {
		return nil, nil, hint(errors.New("--fault without --host: nothing is broken on a real machine"), "name a fake host")
	}
	if name == "" {
		return openReal(o)
	}
	fake, err := openHost(name, faults...)
	if err != nil {
		return nil, nil, err
	}
	t, err := fake.request.Tree()
	if err != nil {
		return nil, nil, broken(err)
	}
	lib, err := fake.request.Library(t)
	if err != nil {
		return nil, nil, broken(err)
	}
	generator := specgen.New(specgen.Options{Children: 1, CacheDir: cacheDir(), Session: mntns.Options{Single: true}})
	o.Generate = func(ctx context.Context, n nvidia.Options) (*nvidia.Result, error) {
		r := fake.request
		r.Options = n
		return generator.Generate(ctx, r)
	}
	return passthrough.New(t, lib, o), func() { generator.Close() }, nil
}

// openReal opens this machine. Its NVIDIA library is not asked where it would make a
// device node by that.
func openReal(o passthrough.HostOptions) (*passthrough.Host, func(), error) {
	root, err := osroot.New("/")
	if err != nil {
		return nil, nil, broken(err)
	}
	node, err := nodeThatNVMLWouldMake(root)
	if err != nil {
		root.Close()
		return nil, nil, broken(err)
	}
	if node == "" {
		return passthrough.New(root, nvml.New(), o), func() { root.Close() }, nil
	}
	o.Generate = func(context.Context, nvidia.Options) (*nvidia.Result, error) {
		return nil, hint(fmt.Errorf("NVIDIA's library was not asked, since it would make %s", node), "nvidia-smi, run once, makes the node")
	}
	return passthrough.New(root, nil, o), func() { root.Close() }, nil
}

// discoverable is the library as Discover reads it; nil when it does not start,
// as on a machine without NVIDIA's driver.
func discoverable(lib nvml.Interface) host.NVML {
	if lib.Init() != nvml.SUCCESS {
		return nil
	}
	return nvidia.NVML(lib)
}

// warnings writes what planning had to say, without the files and links that the
// generator did without: cdi generate lists those.
func warnings(w io.Writer, all []passthrough.Warning) {
	for _, x := range all {
		if x.Reason != nvidia.ReasonNotFound && x.Reason != nvidia.ReasonGeneratorSays {
			show.Fprintf(w, "warning: %s\n", x.String())
		}
	}
}

// warnWithheld names the devices that are not in a Spec although the host has
// them.
func warnWithheld(w io.Writer, kind string, withheld map[string]*refuse.Error) {
	for _, e := range cdi.WithheldWarnings(kind, withheld) {
		show.Fprintf(w, "warning: %s\n", e.Error())
		if e.Hint != "" {
			show.Fprintf(w, "hint: %s\n", e.Hint)
		}
	}
}

func isRoot() bool { return os.Geteuid() == 0 }
