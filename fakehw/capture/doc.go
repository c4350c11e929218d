// Package capture records a machine as text, and replays such a text as a machine.
//
// Record reads what a host model needs, and what programs that look for GPUs
// read, from a host.Root and NVIDIA's management library: PCI functions that are
// GPUs or share a slot or IOMMU group with one, driver modules, device nodes, the
// driver's files by name, and little else. It opens no device, changes nothing and
// needs no privileges; what only a privileged reader sees is listed in the
// recording's notes. Replay returns the recorded tree and library, with new driver
// libraries under the recorded names. The text form is defined by package
// fixtures/hosts.
//
// Serial numbers, UUIDs, MAC addresses and the machine's name are replaced
// before Record returns, equal ones by equal replacements.
package capture

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/fixtures/hosts"
)

// Options say what a recording's header has beside what is read. The zero value
// names the machine by its firmware and has no date.
type Options struct {
	Machine string // empty: the product name of the firmware or of the device tree
	Date    string // "2025-11-21"
}

// Record reads the machine of r. A nil n means that NVIDIA's management library
// is not there or does not start. A file that cannot be read is named in the
// notes; the error says that r shows no running Linux. It is a *LibraryError where
// it was the library that broke off.
func Record(r host.Root, n host.NVML, opts Options) (hosts.File, error) {
	c := &collector{r: r, entries: map[string]hosts.Entry{}, infos: map[string]host.Info{}}
	release, err := r.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return hosts.File{}, fmt.Errorf("record a machine: %w", err)
	}
	f := hosts.File{Machine: cmp.Or(opts.Machine, c.machine()), Kernel: strings.TrimSpace(string(release)), Date: opts.Date}
	if f.NVML, err = library(n); err != nil {
		return hosts.File{}, &LibraryError{err}
	}
	c.all()
	if version, err := r.ReadFile("/sys/module/nvidia/version"); err == nil {
		f.Driver = strings.TrimSpace(string(version))
	}
	for _, e := range c.entries {
		f.Entries = append(f.Entries, e)
	}
	slices.SortFunc(f.Entries, func(a, b hosts.Entry) int { return strings.Compare(a.Path, b.Path) })
	f.Entries = withoutPlainDirs(f.Entries)
	f.Notes = c.notes.lines()
	name, _ := r.ReadFile("/proc/sys/kernel/hostname")
	newScrubber(strings.TrimSpace(string(name))).file(&f)
	return f, nil
}

// machine returns the product name that the firmware or the device tree tells.
func (c *collector) machine() string {
	text := func(p string) string {
		data, err := c.r.ReadFile(p)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(strings.ToValidUTF8(strings.TrimRight(string(data), "\x00\n"), "?"))
	}
	if model := cmp.Or(text("/proc/device-tree/model"), text("/sys/firmware/devicetree/base/model")); model != "" {
		return model
	}
	dmi := strings.TrimSpace(text("/sys/class/dmi/id/sys_vendor") + " " + text("/sys/class/dmi/id/product_name"))
	return cmp.Or(dmi, "unknown")
}

// withoutPlainDirs leaves out directories that are told by what is in them:
// root's, not empty, and 0755, or 0555 in procfs. Entries are ordered by path.
func withoutPlainDirs(entries []hosts.Entry) []hosts.Entry {
	full := map[string]bool{"/": true}
	for _, e := range entries {
		full[path.Dir(e.Path)] = true
	}
	return slices.DeleteFunc(entries, func(e hosts.Entry) bool {
		mode := uint32(0o755)
		if strings.HasPrefix(e.Path, "/proc/") {
			mode = 0o555
		}
		return e.Kind == hosts.Dir && full[e.Path] && e.Mode == mode && e.UID == 0 && e.GID == 0
	})
}

// library asks NVML everything that a model needs; nil: there is none.
func library(n host.NVML) (*hosts.NVML, error) {
	if n == nil {
		return nil, nil
	}
	out := &hosts.NVML{Devices: []hosts.Device{}}
	var err error
	if out.CUDA, err = n.CUDAVersion(); err != nil {
		return nil, err
	}
	devices, err := n.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		x := hosts.Device{
			Index: d.Index, Minor: d.Minor, UUID: d.UUID, Name: d.Name, MemoryMiB: d.MemoryMiB,
			ComputeCap: d.ComputeCap, VBIOS: d.VBIOS,
		}
		if d.Err != nil { // a machine with a lost GPU is one to record
			x.Error = d.Err.Error()
			if e, ok := errors.AsType[*nvidia.Error](d.Err); ok {
				x.Call, x.Code = e.Call, int(e.Return)
			}
		}
		if d.PCI != nil {
			x.PCI = d.PCI.String()
		}
		if d.MIG != nil {
			x.MIG = &hosts.MIG{}
			for _, gi := range d.MIG.Instances {
				y := hosts.GPUInstance{ID: gi.ID, Profile: gi.Profile, ProfileID: gi.ProfileID, Start: gi.Start, Size: gi.Size, MemoryMiB: gi.MemoryMiB}
				for _, ci := range gi.Compute {
					y.Compute = append(y.Compute, hosts.ComputeInstance(ci))
				}
				x.MIG.Instances = append(x.MIG.Instances, y)
			}
		}
		out.Devices = append(out.Devices, x)
	}
	return out, nil
}

// A LibraryError says what NVIDIA's management library failed at. Without it, the
// machine can still be recorded.
type LibraryError struct{ Err error }

func (e *LibraryError) Error() string { return e.Err.Error() }
func (e *LibraryError) Unwrap() error { return e.Err }
