// Package userspace makes NVIDIA's user space of a fake machine work: it replaces
// empty driver libraries with working ones, from packages nvmllib and cudalib, and
// lets requests of programs to the kernel driver change the host.
//
// The libraries are compiled for the machine that runs this, whatever the host's
// architecture, since that is what its programs can load.
package userspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"strings"

	"gpurig/core/host"
	"gpurig/core/show"
	"gpurig/fakehw/cachedir"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/clib"
	"gpurig/fakehw/cudalib"
	"gpurig/fakehw/driverctl"
	"gpurig/fakehw/live"
	"gpurig/fakehw/machine"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/smi"
	"gpurig/fakehw/tree"
)

// Options adjust Add. The zero value is the driver as the host has it.
type Options struct {
	// Cache is a folder for what is compiled; empty: gpurig in the user's cache
	// folder.
	Cache string
	// NVML is how the library differs from the host.
	NVML nvmlfake.Options
	// Warn gets one line before anything is compiled, and one when there is no C
	// compiler; nil discards them.
	Warn io.Writer
}

// ContainerCLI is where NVIDIA's container tools are installed.
const ContainerCLI = "/usr/bin/nvidia-container-cli"

// ContainerCLIScript is the file at ContainerCLI, which runs a program of this machine.
func ContainerCLIScript(program string) []byte {
	return []byte("#!/bin/sh\nexec '" + strings.ReplaceAll(program, "'", `'\\''`) + "' \"$@\"\n")
}

// An artefact is something of the driver that works.
type artefact struct {
	name    string // of its file: of a library also with another version
	build   func(ctx context.Context, cache string) (string, error)
	symbols clib.Symbols // of a library
}

var artefacts = []artefact{
	{nvmllib.SONAME, nvmllib.Build, nvmllib.Symbols},
	{cudalib.SONAME, cudalib.Build, cudalib.Symbols},
	{path.Base(smi.Path), smi.Build, nil},
	{path.Base(smi.ModprobePath), smi.BuildModprobe, nil},
}

// Add puts the working user space of h into the machine that o describes. Without
// a C compiler the libraries stay as they are, and a warning says so.
func Add(ctx context.Context, h *live.Host, o *machine.Options, opts Options) error {
	if opts.Warn == nil {
		opts.Warn = io.Discard
	}
	m := h.Model()
	if m.Userspace == nil {
		return nil
	}
	ctx = clib.Notice(ctx, func() { show.Fprintln(opts.Warn, "compiling NVML, CUDA and nvidia-smi for this machine, once") })
	files, err := replacements(ctx, h, opts)
	switch {
	case errors.Is(err, clib.ErrNoCompiler):
		show.Fprintf(opts.Warn, "NVML and CUDA do not answer on this host: %v\n", err)
	case err != nil:
		return err
	}
	if m.Driver != nil && m.Driver.VGPU != "" { // the package of the vGPU manager has it
		files = with(files, map[string][]byte{smi.SRIOVManagePath: smi.SRIOVManage()})
	}
	if cli, err := cachedir.Beside(path.Base(ContainerCLI)); err == nil { // our stand-in, for LXD's nvidia.runtime and docker run --gpus
		files = with(files, map[string][]byte{ContainerCLI: ContainerCLIScript(cli)})
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d := live.NewDriver(h)
	o.Files = with(o.Files, files)
	o.Live = with(o.Live, map[string]func(host.Model) []byte{
		path.Base(nvmllib.StatePath): func(m host.Model) []byte { return nvmllib.StateWith(m, d.NVML(m, opts.NVML)) },
	})
	o.Serve = with(o.Serve, map[string]func(context.Context, net.Listener) error{
		path.Base(driverctl.Path): func(ctx context.Context, l net.Listener) error { return driverctl.Serve(ctx, l, d) },
	})
	return nil
}

func with[V any](m, more map[string]V) map[string]V {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, more)
	return out
}

// replacements returns the contents of the files that are to work, by their path
// on the host.
func replacements(ctx context.Context, h *live.Host, opts Options) (map[string][]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	found := places(h)
	results := make([]chan result, len(artefacts))
	for i, a := range artefacts {
		results[i] = make(chan result, 1)
		go func() {
			data, err := a.content(ctx, opts.Cache)
			results[i] <- result{data, err}
		}()
	}
	var errs []error
	out := map[string][]byte{}
	for i, a := range artefacts {
		r := <-results[i]
		errs = append(errs, r.err)
		if r.err != nil {
			continue
		}
		for _, p := range found[i] {
			data, err := a.of(p, h.Model().Userspace.Version, r.data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			out[p] = data
		}
	}
	return out, cmp.Or(errs...)
}

// of returns the content of a file of the host. A library exports what that of its
// version does, which its name tells but on a Tegra.
func (a artefact) of(file, version string, data []byte) ([]byte, error) {
	if a.symbols == nil {
		return data, nil
	}
	_, named, _ := strings.Cut(path.Base(file), ".so.")
	branch := catalog.BranchNumber(named)
	if branch < 100 {
		branch = catalog.BranchNumber(version)
	}
	return a.symbols.Of(branch, data)
}

func (a artefact) content(ctx context.Context, cache string) ([]byte, error) {
	p, err := a.build(ctx, cache)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(p)
}

// replaces reports whether this is the artefact's file on a host.
func (a artefact) replaces(name string) bool {
	if stem, ok := strings.CutSuffix(a.name, ".so.1"); ok {
		version, ok := strings.CutPrefix(name, stem+".so.")
		return ok && strings.Trim(version, "0123456789.") == "" && version != ""
	}
	return name == a.name
}

// Libraries returns the files of a host that stand for the driver's libraries, each
// with the file of this machine that works. They are compiled in cache; empty: gpurig
// in the user's cache folder.
func Libraries(ctx context.Context, host *tree.Tree, cache string) (map[string]string, error) {
	out := map[string]string{}
	for i, paths := range placesIn(host) {
		if len(paths) == 0 || !strings.Contains(artefacts[i].name, ".so") {
			continue
		}
		file, err := artefacts[i].build(ctx, cache)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			out[p] = file
		}
	}
	return out, nil
}

// places returns the files of the host that stand for each artefact.
func places(h *live.Host) [][]string {
	h.Locker().Lock()
	defer h.Locker().Unlock()
	return placesIn(h.Tree())
}

func placesIn(t *tree.Tree) [][]string {
	out := make([][]string, len(artefacts))
	_ = t.Walk(func(p string, e *tree.Entry) error { // fails only if we do
		if p == "/sys" || p == "/proc" || p == "/dev" {
			return fs.SkipDir
		}
		for i, a := range artefacts {
			if e.Mode.IsRegular() && a.replaces(path.Base(p)) {
				out[i] = append(out[i], p)
			}
		}
		return nil
	})
	return out
}
