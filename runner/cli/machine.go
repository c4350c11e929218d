package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/refuse"
	"gpurig/core/show"
	"gpurig/fakehw/mntns"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/verdict"
)

// A machine is what --host names: a fake host, or the one we run on.
type machine struct {
	name  string
	model host.Model // of this machine: not known before know is called
	root  host.Root
	// discover finds the model of this machine.
	discover func() (host.Model, error)
	// spec makes the CDI Spec of NVIDIA's devices.
	spec func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error)
}

// openMachine opens the fake host of that name, profile or recording; an empty name
// is this machine. close must be called. It is for commands that ask one machine
// one thing.
func openMachine(name string, faults ...string) (m machine, closeIt func(), err error) {
	debug.SetGCPercent(400) // such a command ends before collecting pays
	if name == "" && len(faults) > 0 {
		return machine{}, nil, hint(errors.New("--fault without --host: nothing is broken on a real machine"), "name a fake host")
	}
	if name == "" {
		return openReal()
	}
	h, err := openHost(name, faults...)
	if err != nil {
		return machine{}, nil, err
	}
	request, model := h.request, h.model
	generator := specgen.New(specgen.Options{Children: 1, CacheDir: cacheDir(), Session: mntns.Options{Single: true}})
	spec := func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
		r := request
		r.Options = specgen.HostOptions(model, o)
		return generator.Generate(ctx, r)
	}
	root := &files{build: sync.OnceValues(func() (host.Root, error) {
		t, err := request.Tree()
		if err != nil {
			return nil, broken(err)
		}
		return t, nil
	})}
	return machine{name: name, model: model, root: root, spec: spec}, func() { generator.Close() }, nil
}

// files is a host.Root that is built when it is first looked at: whoever wants
// the Spec alone needs none in this process.
type files struct{ build func() (host.Root, error) }

// Lstat is part of host.Root.
func (f *files) Lstat(p string) (host.Info, error) { return on(f, p, host.Root.Lstat) }

// Readlink is part of host.Root.
func (f *files) Readlink(p string) (string, error) { return on(f, p, host.Root.Readlink) }

// ReadFile is part of host.Root.
func (f *files) ReadFile(p string) ([]byte, error) { return on(f, p, host.Root.ReadFile) }

// ReadDir is part of host.Root.
func (f *files) ReadDir(p string) ([]string, error) { return on(f, p, host.Root.ReadDir) }

func on[T any](f *files, p string, call func(host.Root, string) (T, error)) (T, error) {
	r, err := f.build()
	if err != nil {
		var none T
		return none, err
	}
	return call(r, p)
}

func openReal() (machine, func(), error) {
	root, err := osroot.New("/")
	if err != nil {
		return machine{}, nil, broken(err)
	}
	node, err := nodeThatNVMLWouldMake(root)
	if err != nil {
		root.Close()
		return machine{}, nil, broken(err)
	}
	lib := nvml.New()
	discover := func() (host.Model, error) {
		if node != "" {
			return host.Discover(root, nil)
		}
		return host.Discover(root, discoverable(lib))
	}
	spec := func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
		if node != "" {
			return nil, hint(fmt.Errorf("NVIDIA's library was not asked, since it would make %s", node), "nvidia-smi, run once, makes the node")
		}
		return nvidia.Generate(ctx, root, lib, o)
	}
	return machine{name: "this machine", discover: discover, root: root, spec: spec}, func() { root.Close() }, nil
}

// know finds out what this machine has. Making its Spec takes no model.
func (m *machine) know() (err error) {
	if m.discover != nil {
		if m.model, err = m.discover(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// discoverable is the library as Discover reads it; nil when it does not start,
// as on a machine without NVIDIA's driver.
func discoverable(lib nvml.Interface) host.NVML {
	if lib.Init() != nvml.SUCCESS {
		return nil
	}
	return nvidia.NVML(lib)
}

// maker finds the Specs that a device name can come from. Problems with Specs on
// disk are written to warn, and returned for whoever explains a missing device.
func (m machine) maker(warn io.Writer) (runner.SpecMaker, []cdi.Problem) {
	if f, ok := m.root.(*files); ok {
		go f.build() // while the Spec is made; whoever needs it first waits for it
	}
	onDisk, problems := cdi.ReadDirs(m.root, cdi.DefaultDirs())
	for _, p := range problems {
		show.Fprintf(warn, "warning: %s\n", p.String())
	}
	return runner.SpecMaker{
		Model: m.model, OnDisk: onDisk,
		Root: func() (host.Root, error) { return m.root, nil },
		NVIDIA: func(ctx context.Context, mode string) (*nvidia.Result, error) {
			return m.spec(ctx, specgen.HostOptions(m.model, nvidia.Options{Mode: mode}))
		},
	}, problems
}

// warnings writes what gathering Specs had to say, without the files and links
// that the generator did without: cdi generate lists those.
func warnings(w io.Writer, all []verdict.Warning) {
	for _, x := range all {
		if x.Reason != string(nvidia.ReasonNotFound) && x.Reason != string(nvidia.ReasonGeneratorSays) {
			show.Fprintf(w, "warning: %s\n", x.Text)
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
