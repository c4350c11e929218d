package nvidia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/host"
	"gpurig/core/refuse"
)

// A Result is a Spec and what there is to say about it.
type Result struct {
	Spec *specs.Spec `json:"spec"`
	// Mode is the mode that Spec was made in: what "auto" came to.
	Mode string `json:"mode"`
	// Warnings are sorted. A host without graphics has many of ReasonNotFound;
	// ReasonUVMMissing means that the Spec was made too early.
	Warnings []Warning `json:"warnings,omitempty"`
	// Withheld are devices that are not in Spec because they lack a node that
	// makes them what they are, or because their GPU does not answer NVML, by each
	// of their names, and with them the device of all. Nil on a healthy host.
	Withheld map[string]*refuse.Error `json:"-"`
}

// Generate makes the Spec of the machine whose files are at "/" of this process
// and whose management library is lib. root must show the same files.
//
// Its minimum version is set, it is valid, and equal hosts give equal Specs. A
// refusal is a *refuse.Error with one of this package's reasons. Generate waits
// for NVML and cannot be interrupted while it does: a caller who must not hang
// runs it in a process of its own.
func Generate(ctx context.Context, root host.Root, lib nvml.Interface, opts Options) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("generate CDI Spec: %w", context.Cause(ctx))
	}
	given := opts
	opts, err := opts.OnHost(root)
	if err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	if lib == nil {
		lib = noLibrary{}
	}
	g := &generator{root: root, lib: lib, given: given, opts: opts, log: &collector{}, devices: device.New(lib)}
	if err := g.prepare(); err != nil {
		return nil, err
	}
	spec, err := g.generate()
	if err != nil {
		return nil, err
	}
	if err := g.finish(spec); err != nil {
		return nil, err
	}
	return &Result{Spec: spec, Mode: string(g.mode), Warnings: g.log.warnings(), Withheld: g.withheld}, nil
}

// noLibrary is the management library of a host that has none.
type noLibrary struct{ nvml.Interface }

// Init is part of nvml.Interface. Nothing else is asked of a library that does not start.
func (noLibrary) Init() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }

type generator struct {
	root    host.Root
	lib     nvml.Interface
	devices device.Interface
	given   Options // as the caller has them
	opts    Options
	mode    nvcdi.Mode
	log     *collector
	csv     []string          // csv mode: the files that are there
	csvAt   map[string]string // csv mode: where they name a path, "devices.csv:7"

	lost     map[int]*refuse.Error    // GPUs that do not answer, by index
	withheld map[string]*refuse.Error // see Result
}

// prepare decides the mode and refuses what cannot go well.
func (g *generator) prepare() error {
	platform := platformInfo(g.root, g.lib, g.devices, g.opts)
	mode, err := resolveMode(g.opts, platform)
	if err != nil {
		return err
	}
	g.mode = mode
	switch mode {
	case nvcdi.ModeNvml:
		return g.checkNVML()
	case nvcdi.ModeCSV:
		return g.findCSV()
	}
	return nil
}

// checkNVML turns the ways in which NVML does not start, which nvcdi reports in
// words, into reasons, and looks for GPUs that have no device to offer. A GPU
// that does not answer keeps the others from nobody, unless it is the last: on a
// host of eight that is a GPU less, not a host less.
func (g *generator) checkNVML() error {
	if r := g.lib.Init(); r != nvml.SUCCESS {
		return g.named(nvmlRefusal("Init", r))
	}
	defer g.lib.Shutdown()
	gpus, r := g.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nvmlRefusal("DeviceGetCount", r)
	}
	var empty []int
	var first *refuse.Error
	for i := range gpus {
		none, e := g.checkGPU(i)
		switch {
		case e != nil:
			g.lose(i, e)
			first = cmp.Or(first, e)
		case none:
			empty = append(empty, i)
		}
	}
	switch {
	case gpus == 0:
		return refusal(ReasonNoDevices, "NVML", "no NVIDIA GPU on this host")
	case first != nil && len(g.lost)+len(empty) == gpus:
		return first
	case len(empty) == gpus:
		return refusal(ReasonMIGEmpty, "GPU 0", "MIG mode is on and no MIG device has been created").
			WithHint("Create one with nvidia-smi mig -cgi PROFILE -C, or turn MIG mode off.")
	}
	for _, i := range empty {
		g.log.all = append(g.log.all, Warning{Reason: ReasonMIGEmpty,
			Msg: fmt.Sprintf("GPU %d: MIG mode is on and no MIG device has been created; the GPU is not in the Spec", i)})
	}
	return nil
}

// named adds what NVML does not say: where its library was looked for (bug
// core-mesa-wayland), and the two versions to a refusal for their difference (bug
// driver-upgrade-trap). A host that cannot be read keeps the words.
func (g *generator) named(e *refuse.Error) *refuse.Error {
	if e.Reason == ReasonNoLibrary {
		return g.searched(e)
	}
	if e.Reason != ReasonMismatch {
		return e
	}
	if m, err := host.Discover(g.root, nil); err == nil && m.Driver != nil && m.Userspace != nil {
		e.Msg = fmt.Sprintf("the loaded kernel driver is %s and the installed libraries are %s", m.Driver.Version, m.Userspace.Version)
	}
	return e
}

// checkGPU reports whether a GPU is in MIG mode without any MIG device. It asks
// what nvcdi is going to ask, since here the index and NVML's code are known.
func (g *generator) checkGPU(index int) (empty bool, e *refuse.Error) {
	at := fmt.Sprintf("GPU %d", index)
	fail := func(call string, r nvml.Return) *refuse.Error {
		e := nvmlRefusal(call, r)
		e.Where = at + ": " + e.Where
		return e
	}
	handle, r := g.lib.DeviceGetHandleByIndex(index)
	if r != nvml.SUCCESS {
		return false, fail("DeviceGetHandleByIndex", r)
	}
	if _, r := handle.GetName(); r != nvml.SUCCESS {
		return false, fail("DeviceGetName", r)
	}
	uuid, r := handle.GetUUID()
	if r != nvml.SUCCESS {
		return false, fail("DeviceGetUUID", r)
	}
	if _, r := g.lib.DeviceGetHandleByUUID(uuid); r != nvml.SUCCESS {
		return false, fail("DeviceGetHandleByUUID", r)
	}
	if _, r := handle.GetMinorNumber(); r != nvml.SUCCESS && r != nvml.ERROR_NOT_SUPPORTED {
		return false, fail("DeviceGetMinorNumber", r)
	}
	if _, r := handle.GetPciInfo(); r != nvml.SUCCESS && r != nvml.ERROR_NOT_SUPPORTED {
		return false, fail("DeviceGetPciInfo", r)
	}
	mode, _, r := handle.GetMigMode()
	switch {
	case r == nvml.ERROR_NOT_SUPPORTED, r == nvml.ERROR_FUNCTION_NOT_FOUND:
		return false, nil
	case r != nvml.SUCCESS:
		return false, fail("DeviceGetMigMode", r)
	case mode != nvml.DEVICE_MIG_ENABLE:
		return false, nil
	}
	d, err := g.devices.NewDevice(handle)
	if err != nil {
		return false, refusal(ReasonNVML, at, "cannot be used").WithErr(err)
	}
	migs, err := d.GetMigDevices()
	if err != nil {
		return false, refusal(ReasonNVML, at, "its MIG devices cannot be listed").WithErr(err)
	}
	return len(migs) == 0, nil
}

// generate runs nvcdi.
func (g *generator) generate() (*specs.Spec, error) {
	namers, err := g.namers()
	if err != nil {
		return nil, err
	}
	o := g.opts
	options := []nvcdi.Option{
		nvcdi.WithLogger(g.log), nvcdi.WithMode(g.mode), nvcdi.WithDeviceNamers(namers...),
		nvcdi.WithNvmlLib(g.lib), nvcdi.WithDeviceLib(g.devices), nvcdi.WithInfoLib(platformInfo(g.root, g.lib, g.devices, o)),
		nvcdi.WithDriverRoot(o.DriverRoot), nvcdi.WithDevRoot(o.DevRoot),
		nvcdi.WithNVIDIACDIHookPath(o.HookPath), nvcdi.WithLdconfigPath(o.LdconfigPath),
		nvcdi.WithCSVFiles(g.csv), nvcdi.WithCSVIgnorePatterns(o.CSVIgnorePatterns),
		nvcdi.WithLibrarySearchPaths(o.LibrarySearchPaths), nvcdi.WithConfigSearchPaths(o.ConfigSearchPaths),
		nvcdi.WithVendor(o.Vendor), nvcdi.WithClass(o.Class),
		nvcdi.WithDisabledHooks(o.DisabledHooks...), nvcdi.WithEnabledHooks(o.EnabledHooks...),
		nvcdi.WithFeatureFlags(append([]string{string(nvcdi.FeatureDisableNvsandboxUtils)}, o.FeatureFlags...)...),
	}
	ids := []string{"all"}
	switch {
	case len(o.DeviceIDs) > 0:
		ids = o.DeviceIDs
	case g.mode == nvcdi.ModeMigCaps:
		ids = []string{"config", "monitor"}
	default:
		options = append(options, nvcdi.WithMergedDeviceOptions(transform.WithName(o.Merged), transform.WithSkipIfExists(true)))
	}
	lib, err := nvcdi.New(options...)
	if err != nil {
		return nil, g.failure(err)
	}
	spec, err := lib.GetSpec(ids...)
	if err != nil {
		return nil, g.failure(err)
	}
	return spec.Raw(), nil
}

func (g *generator) namers() ([]nvcdi.DeviceNamer, error) {
	var out []nvcdi.DeviceNamer
	for _, strategy := range g.opts.Names {
		n, err := nvcdi.NewDeviceNamer(strategy)
		if err != nil {
			return nil, refusal(ReasonBadOption, "names", "%q is no way to name devices", strategy).WithErr(err)
		}
		out = append(out, n)
	}
	return out, nil
}

// failure finds the NVML code in what nvcdi returned, if there is one, and says where
// it looked for libraries that are not there.
func (g *generator) failure(err error) *refuse.Error {
	if r, ok := errors.AsType[nvml.Return](err); ok {
		return nvmlRefusal("call", r).WithErr(err)
	}
	if g.mode == nvcdi.ModeNvml && !g.hasLibraries() {
		return g.searched(refusal(ReasonNoLibrary, "", "no libraries of the driver").
			WithHint("Install the user-space driver, or name the folder of its libraries."))
	}
	if ids := g.opts.DeviceIDs; len(ids) > 0 {
		return refusal(ReasonBadOption, "device ids", "the Spec of %s cannot be made", strings.Join(ids, ", ")).WithErr(err).
			WithHint("nvidia-smi -L lists the GPUs and MIG devices of the host, by index and UUID.")
	}
	return refusal(ReasonGenerator, "nvcdi mode "+string(g.mode), "no Spec").WithErr(err).
		WithHint("nvidia-smi on the host shows whether the driver works; the last words are those of what failed.")
}
