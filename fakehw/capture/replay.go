package capture

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/driverfs"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/tree"
	"gpurig/fixtures/hosts"
)

// A Machine is a recorded machine, made again.
type Machine struct {
	File hosts.File
	Tree *tree.Tree
	NVML host.NVML // nil: there is none
	// Played says that it is an entered fake host: what it has of the loader and of the
	// top of the file system is the machine's that plays it.
	Played bool
}

// Replay makes the machine that f records. Driver libraries are made anew: ELF
// files with the SONAMEs of the real ones, which do nothing. The error says which
// entry could not be made.
func Replay(f hosts.File) (Machine, error) {
	m := Machine{File: f, Tree: tree.New()}
	k := kit{arch: archOf(f), version: f.Driver}
	for _, e := range f.Entries {
		if err := k.put(m.Tree, e); err != nil {
			return Machine{}, fmt.Errorf("replay %s: %w", e.Path, err)
		}
	}
	if f.NVML != nil {
		l := recorded{cuda: f.NVML.CUDA}
		for _, d := range f.NVML.Devices {
			x, err := fromFile(d)
			if err != nil {
				return Machine{}, fmt.Errorf("replay GPU %d: %w", d.Index, err)
			}
			l.devices = append(l.devices, x)
		}
		m.NVML = l
	}
	return m, nil
}

// Model discovers the machine. A GPU that the catalogue does not have gets a Board of what
// its driver said of it, by which the driver knows it again after it was unloaded; which
// MIG profiles it has is not recorded.
func (m Machine) Model() (host.Model, error) {
	model, err := host.Discover(m.Tree, m.NVML)
	for _, g := range model.GPUs {
		if g.PCI == nil || !slices.Contains([]string{"nvidia", "amdgpu", "i915", "xe"}, g.PCI.Driver) {
			continue
		}
		if _, known := catalog.ByID(g.PCI.ID); !known {
			g.PCI.Board = &host.Board{Name: g.Name, Driver: g.PCI.Driver, MemoryMiB: g.MemoryMiB, ComputeCap: g.ComputeCap, VBIOS: g.VBIOS}
		}
	}
	return model, err
}

// archOf tells the architecture as host.Discover does, which is what libraries
// are made for.
func archOf(f hosts.File) string {
	for _, e := range f.Entries {
		switch {
		case e.Path == "/proc/sys/kernel/arch":
			return strings.TrimSpace(string(e.Data))
		case strings.HasSuffix(e.Path, "/ld-linux-aarch64.so.1"), strings.HasSuffix(e.Path, "/ld-musl-aarch64.so.1"):
			return "aarch64"
		}
	}
	return "x86_64"
}

// A kit is what stand-ins for NVIDIA's files are made by.
type kit struct{ arch, version string }

func (k kit) put(t *tree.Tree, e hosts.Entry) error {
	mode := host.ModeBits(e.Mode)
	var err error
	switch e.Kind {
	case hosts.Dir:
		err = t.Mkdir(e.Path, mode)
	case hosts.Symlink:
		err = t.Symlink(e.Path, e.Target)
	case hosts.Char:
		err = t.Mknod(device.Node{Path: e.Path, Type: device.Char, Num: device.Num{Major: e.Major, Minor: e.Minor}, Mode: mode})
	case hosts.Socket:
		err = t.Socket(e.Path, mode)
	case hosts.Fifo:
		err = t.Fifo(e.Path, mode)
	default:
		err = k.file(t, e)
	}
	if err == nil && (e.UID != 0 || e.GID != 0) {
		err = t.Chown(e.Path, e.UID, e.GID)
	}
	return err
}

// notKept stands for the content of a file of which only the size was recorded.
const notKept = "gpurig: the content of this file was not recorded\n"

func (k kit) file(t *tree.Tree, e hosts.Entry) error {
	data := e.Data
	var err error
	switch e.Kind {
	case hosts.Library:
		data, err = driverfs.Library(k.arch, k.version, path.Base(e.Path), e.SONAME)
	case hosts.Program:
		data, err = driverfs.Program(k.arch, k.version, path.Base(e.Path))
	case hosts.Cache:
		cache, perr := parseCache(e.Data)
		data, err = cache.Marshal(), perr
	case hosts.Bytes:
		data = []byte(notKept)[:min(int64(len(notKept)), e.Size)]
	case hosts.Regular:
		if e.Path == migMinors {
			data = allMinors(data)
		}
	}
	if err != nil {
		return err
	}
	if err := t.WriteFile(e.Path, data, host.ModeBits(e.Mode)); err != nil {
		return err
	}
	if e.Kind == hosts.Bytes {
		x, err := t.Entry(e.Path)
		if err != nil {
			return err
		}
		x.Size = e.Size
	}
	return nil
}

// recorded is the management library as it answered.
type recorded struct {
	cuda    string
	devices []host.NVMLDevice
}

func (r recorded) CUDAVersion() (string, error)        { return r.cuda, nil }
func (r recorded) Devices() ([]host.NVMLDevice, error) { return r.devices, nil }

func fromFile(d hosts.Device) (host.NVMLDevice, error) {
	out := host.NVMLDevice{
		Index: d.Index, Minor: d.Minor, UUID: d.UUID, Name: d.Name, MemoryMiB: d.MemoryMiB, ComputeCap: d.ComputeCap, VBIOS: d.VBIOS,
	}
	if d.Error != "" {
		out.Err = errors.New(d.Error)
	}
	if d.PCI != "" {
		at, err := pci.ParseBDF(d.PCI)
		if err != nil {
			return out, err
		}
		out.PCI = &at
	}
	if d.MIG == nil {
		return out, nil
	}
	out.MIG = &host.MIG{}
	for _, gi := range d.MIG.Instances {
		y := host.GPUInstance{ID: gi.ID, Profile: gi.Profile, ProfileID: gi.ProfileID, Start: gi.Start, Size: gi.Size, MemoryMiB: gi.MemoryMiB}
		for _, ci := range gi.Compute {
			y.Compute = append(y.Compute, host.ComputeInstance(ci))
		}
		out.MIG.Instances = append(out.MIG.Instances, y)
	}
	return out, nil
}

// Ext is how the name of a recording ends, by which it is told from a profile.
const Ext = ".txtar"

// ReadFile reads a recording. The error lists every mistake in it.
func ReadFile(name string) (hosts.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return hosts.File{}, fmt.Errorf("recorded host: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > hosts.MaxFile {
		return hosts.File{}, fmt.Errorf("recorded host %s: %w: not a regular file of at most %d MiB", name, hosts.ErrInvalid, hosts.MaxFile>>20)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return hosts.File{}, fmt.Errorf("recorded host: %w", err)
	}
	return hosts.Parse(name, data)
}

// Of records the fake host that a model makes.
func Of(m host.Model, opts Options) (hosts.File, error) {
	t, err := fakehw.Build(m)
	if err != nil {
		return hosts.File{}, err
	}
	var n host.NVML
	if lib := nvmlfake.New(m, nvmlfake.Options{}); lib.Init() == nvml.SUCCESS {
		n = nvidia.NVML(lib)
	}
	return Record(t, n, opts)
}
