package fakehw

import (
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/fakehw/catalog"
)

// ErrImpossible marks a change that no such host could go through.
var ErrImpossible = errors.New("not possible on this host")

// A ChangeError says which change could not be made, and why.
type ChangeError struct {
	Change string // "driver 550", "MIG geometry of GPU 0"
	Err    error  // the reason
}

func (e *ChangeError) Error() string { return fmt.Sprintf("%s: %v", e.Change, e.Err) }
func (e *ChangeError) Unwrap() error { return e.Err }

func impossible(change, format string, args ...any) error {
	return &ChangeError{Change: change, Err: fmt.Errorf("%w: %s", ErrImpossible, fmt.Sprintf(format, args...))}
}

// normalize puts a model in the order that host.Model promises.
func normalize(m *host.Model) {
	slices.SortStableFunc(m.GPUs, func(a, b host.GPU) int {
		switch {
		case a.PCI == nil && b.PCI == nil:
			return cmp.Compare(a.Platform, b.Platform)
		case a.PCI == nil:
			return -1
		case b.PCI == nil:
			return 1
		}
		return a.PCI.BDF.Compare(b.PCI.BDF)
	})
	byBDF := func(a, b host.PCIFunction) int { return a.BDF.Compare(b.BDF) }
	slices.SortFunc(m.NVSwitches, byBDF)
	slices.SortFunc(m.Companions, byBDF)
	slices.SortFunc(m.VFs, func(a, b host.VF) int { return a.BDF.Compare(b.BDF) })
	slices.SortFunc(m.MDevs, func(a, b host.MDev) int { return cmp.Compare(a.UUID, b.UUID) })
	slices.Sort(m.Drivers)
	slices.SortFunc(m.Nodes, func(a, b device.Node) int { return cmp.Compare(a.Path, b.Path) })
	m.Majors = slices.DeleteFunc(m.Majors, func(x host.Major) bool { return shared(x.Name) && !usesMajor(m, x) })
	slices.SortFunc(m.Majors, compareMajors)
	if m.Driver != nil {
		slices.Sort(m.Driver.Modules)
	}
}

// shared reports whether a line of /proc/devices stands on every machine, and so
// is in a model only for the nodes that need it.
func shared(name string) bool { return name == "mem" || name == "misc" || name == "fb" }

func usesMajor(m *host.Model, x host.Major) bool {
	return slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return n.Num.Major == x.Major && n.Type == x.Type })
}

func compareMajors(a, b host.Major) int {
	return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
}

// setNode adds n, in place of a node on the same path.
func setNode(m *host.Model, n device.Node) {
	dropNodes(m, func(p string) bool { return p == n.Path })
	m.Nodes = append(m.Nodes, n)
}

func dropNodes(m *host.Model, gone func(path string) bool) {
	m.Nodes = slices.DeleteFunc(m.Nodes, func(n device.Node) bool { return gone(n.Path) })
}

// majorOf returns the number under which a driver name stands in /proc/devices.
func majorOf(m *host.Model, name string) (uint32, bool) {
	for _, x := range m.Majors {
		if x.Name == name && x.Type == device.Char {
			return x.Major, true
		}
	}
	return 0, false
}

// addMajor adds a line of /proc/devices. Want zero takes the next free number,
// as the kernel does, from 511 down; the registered name's number is returned.
func addMajor(m *host.Model, name string, want uint32) uint32 {
	if n, ok := majorOf(m, name); ok {
		return n
	}
	if want == 0 {
		want = freeMajor(m)
	}
	m.Majors = append(m.Majors, host.Major{Major: want, Name: name, Type: device.Char})
	return want
}

// freeMajor returns the number that the kernel gives next: from 254 down to 234, then
// from 511 down (find_dynamic_major in fs/char_dev.c).
func freeMajor(m *host.Model) uint32 {
	taken := func(n uint32) bool {
		return slices.ContainsFunc(m.Majors, func(x host.Major) bool { return x.Major == n && x.Type == device.Char })
	}
	for n := uint32(254); n >= 234; n-- {
		if !taken(n) {
			return n
		}
	}
	n := uint32(511)
	for taken(n) {
		n--
	}
	return n
}

func dropMajors(m *host.Model, gone func(name string) bool) {
	m.Majors = slices.DeleteFunc(m.Majors, func(x host.Major) bool { return gone(x.Name) })
}

// uuid derives a stable UUID from parts. Version is the nibble that NVIDIA
// prints: 5 for MIG devices; zero leaves it as it falls, as with GPUs.
func uuid(version byte, parts ...any) string {
	h := sha1.Sum([]byte(fmt.Sprint(parts...)))
	if version != 0 {
		h[6] = h[6]&0x0f | version<<4
		h[8] = h[8]&0x3f | 0x80
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// groups returns the group ids of device nodes on this host.
func groups(m *host.Model) (video, render uint32) {
	if os, err := catalog.FindOS(m.OS.ID); err == nil {
		return os.Video, os.Render
	}
	return 44, 992
}

// WithUserspace returns m with libraries of another version (or branch) beside
// an unchanged kernel driver: an upgrade without the reboot.
func WithUserspace(m host.Model, version string) (host.Model, error) {
	change := "user-space driver " + version
	d, err := catalog.FindDriver(version)
	if err != nil {
		return host.Model{}, &ChangeError{Change: change, Err: err}
	}
	if m.Userspace == nil {
		return host.Model{}, impossible(change, "no user-space driver is installed")
	}
	out := m.Clone()
	setUserspaceVersion(out.Userspace, d.Version)
	return out, nil
}

func setUserspaceVersion(u *host.Userspace, version string) {
	// A Nix store path names the version, so a new driver has a new one.
	u.StorePath = strings.ReplaceAll(u.StorePath, u.Version, version)
	u.Version = version
}

// WithMajors returns m with other numbers for the named lines of /proc/devices,
// as after a reboot; the nodes follow. Names are exact: "nvidia-caps" is not
// "nvidia-caps-imex-channels".
func WithMajors(m host.Model, majors map[string]uint32) (host.Model, error) {
	out := m.Clone()
	moved := map[uint32]uint32{}
	for name, to := range majors {
		change := fmt.Sprintf("major %d for %s", to, name)
		lines := 0
		for i, x := range out.Majors {
			if x.Name == name {
				lines++
				moved[m.Majors[i].Major] = to
				out.Majors[i].Major = to
			}
		}
		switch {
		case lines != 1:
			return host.Model{}, impossible(change, "/proc/devices has %d lines of that name, want one", lines)
		case to == 0 || to > device.MaxMajor:
			return host.Model{}, impossible(change, "a major is 1 to %d", device.MaxMajor)
		}
	}
	for name, to := range majors {
		for _, x := range out.Majors {
			if x.Major == to && x.Name != name {
				return host.Model{}, impossible(fmt.Sprintf("major %d for %s", to, name), "%s has it", x.Name)
			}
		}
		for _, x := range m.Majors {
			if _, wanted := majors[x.Name]; !wanted && x.Major != to && moved[x.Major] == to {
				return host.Model{}, impossible(fmt.Sprintf("major %d for %s", to, name), "%s shares its number", x.Name)
			}
		}
	}
	for i, n := range out.Nodes {
		if to, ok := moved[n.Num.Major]; ok && n.Type == device.Char {
			out.Nodes[i].Num.Major = to
		}
	}
	normalize(&out)
	return out, nil
}

// WithDrivers returns m with more lines in /proc/devices: character or block
// drivers that register a major of their own, whether or not they have a node
// already.
func WithDrivers(m host.Model, kind device.Type, majors map[string]uint32) (host.Model, error) {
	out := m.Clone()
	for _, name := range slices.Sorted(maps.Keys(majors)) {
		number := majors[name]
		change := fmt.Sprintf("driver %s with major %d", name, number)
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return host.Model{}, impossible(change, "the name of a driver is one word")
		}
		if number == 0 || number > device.MaxMajor {
			return host.Model{}, impossible(change, "a major is 1 to %d", device.MaxMajor)
		}
		for _, x := range slices.Concat(out.Majors, standardMajors) {
			switch {
			case x.Type != kind:
			case x.Name == name:
				return host.Model{}, impossible(change, "it is registered with %d", x.Major)
			case x.Major == number:
				return host.Model{}, impossible(change, "%s has that number", x.Name)
			}
		}
		out.Majors = append(out.Majors, host.Major{Major: number, Name: name, Type: kind})
	}
	normalize(&out)
	return out, nil
}

// WithNode returns m with this node, in place of one on the same path.
func WithNode(m host.Model, n device.Node) (host.Model, error) {
	top, _, below := strings.Cut(strings.TrimPrefix(n.Path, "/"), "/")
	if !path.IsAbs(n.Path) || path.Clean(n.Path) != n.Path || !below || top == "proc" || top == "sys" {
		return host.Model{}, impossible("node "+n.Path, "want a clean path below /dev, or below another folder of the host's own")
	}
	out := m.Clone()
	setNode(&out, n)
	normalize(&out)
	return out, nil
}

// WithoutNode returns m without the node on this path.
func WithoutNode(m host.Model, p string) (host.Model, error) {
	out := m.Clone()
	dropNodes(&out, func(at string) bool { return at == p })
	if len(out.Nodes) == len(m.Nodes) {
		return host.Model{}, impossible("no node "+p, "there is none")
	}
	return trimmed(out), nil
}

// WithoutGPU returns m without the GPU of this NVML index: pulled out of its
// slot. The other functions of the board go with it, the NVML indexes behind it
// close the gap, minors and card numbers stay.
func WithoutGPU(m host.Model, index int) (host.Model, error) {
	out := m.Clone()
	i := gpuAt(&out, index)
	if i < 0 {
		return host.Model{}, noGPU(&out, "no GPU", index)
	}
	g := out.GPUs[i]
	if g.PCI == nil {
		return host.Model{}, impossible(fmt.Sprintf("no GPU %d", index), "it is part of the SoC")
	}
	dropGPUNodes(&out, g)
	out.GPUs = slices.Delete(out.GPUs, i, i+1)
	for k := range out.GPUs {
		if out.GPUs[k].Index > index {
			out.GPUs[k].Index--
		}
	}
	out.Companions = slices.DeleteFunc(out.Companions, func(f host.PCIFunction) bool { return sameSlot(f.BDF, g.PCI.BDF) })
	return trimmed(out), nil
}

// trimmed orders a model and replaces empty lists by nil, as Discover has them.
func trimmed(m host.Model) host.Model {
	normalize(&m)
	if len(m.GPUs) == 0 {
		m.GPUs = nil
	}
	if len(m.Companions) == 0 {
		m.Companions = nil
	}
	if len(m.VFs) == 0 {
		m.VFs = nil
	}
	if len(m.MDevs) == 0 {
		m.MDevs = nil
	}
	if len(m.Drivers) == 0 {
		m.Drivers = nil
	}
	if len(m.Nodes) == 0 {
		m.Nodes = nil
	}
	if len(m.Majors) == 0 {
		m.Majors = nil
	}
	return m
}

func sameSlot(a, b pci.BDF) bool {
	a.Function, b.Function = 0, 0
	return a == b
}

// gpuAt returns the place in GPUs of an NVML index, -1 if there is none.
func gpuAt(m *host.Model, index int) int {
	return slices.IndexFunc(m.GPUs, func(g host.GPU) bool { return index >= 0 && g.Index == index })
}

func noGPU(m *host.Model, change string, index int) error {
	have := []string{}
	for _, g := range m.NVIDIAGPUs() {
		have = append(have, fmt.Sprint(g.Index))
	}
	return impossible(fmt.Sprintf("%s %d", change, index), "no NVIDIA GPU has this index; there are [%s]", strings.Join(have, " "))
}

// WithMinors returns m with other NVIDIA minors, by NVML index; nodes and
// capability numbers follow.
func WithMinors(m host.Model, minors map[int]int) (host.Model, error) {
	out := m.Clone()
	indexes := make([]int, 0, len(minors))
	for index := range minors {
		indexes = append(indexes, index)
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		i := gpuAt(&out, index)
		if i < 0 {
			return host.Model{}, noGPU(&out, "minor of GPU", index)
		}
		if to := minors[index]; out.GPUs[i].Minor < 0 || to < 0 || to > maxMinor {
			return host.Model{}, impossible(fmt.Sprintf("minor %d for GPU %d", to, index), "a minor is 0 to %d, and the GPU must have one", maxMinor)
		}
		dropMinorNodes(&out, out.GPUs[i])
	}
	for _, index := range indexes {
		out.GPUs[gpuAt(&out, index)].Minor = minors[index]
	}
	for _, index := range indexes {
		g := out.GPUs[gpuAt(&out, index)]
		for _, o := range out.GPUs {
			if o.Minor == g.Minor && o.Index != g.Index {
				return host.Model{}, impossible(fmt.Sprintf("minor %d for GPU %d", g.Minor, index), "GPU %d has it", o.Index)
			}
		}
		if old := m.GPUs[gpuAt(&m, index)]; hasNode(&m, nodePath(old.Minor)) {
			setNode(&out, frontendNode(&out, g.Minor))
		}
		addInstanceNodes(&out, g)
	}
	normalize(&out)
	return out, nil
}

func hasNode(m *host.Model, p string) bool {
	return slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return n.Path == p })
}
