package observe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
)

// A Host is what a host's files say of its GPUs and of who has them.
type Host struct {
	Functions []Function    `json:"functions,omitempty"` // GPUs, their virtual functions and companions, by address
	MDevs     []MDev        `json:"mdevs,omitempty"`     // by UUID
	Left      []Left        `json:"left,omitempty"`      // by parent and type
	Nodes     []device.Node `json:"nodes,omitempty"`     // of GPUs, by path
}

// A Function is one PCI function. Empty texts and zero are "none".
type Function struct {
	BDF      pci.BDF `json:"bdf"`
	Driver   string  `json:"driver,omitempty"`
	Override string  `json:"override,omitempty"` // driver_override
	Group    int     `json:"group"`              // of the IOMMU; -1: none
	VFs      int     `json:"vfs,omitempty"`      // sriov_numvfs
	VGPU     int     `json:"vgpu,omitempty"`     // current_vgpu_type
}

// An MDev is one mediated device.
type MDev struct {
	UUID   string  `json:"uuid"`
	Parent pci.BDF `json:"parent"`
	Type   string  `json:"type"` // "nvidia-468"
}

// A Left says how many mediated devices of a type a parent can still have.
type Left struct {
	Parent pci.BDF `json:"parent"`
	Type   string  `json:"type"`
	N      int     `json:"n"` // available_instances
}

// LookHost reads a host's files.
func LookHost(r host.Root) (Host, error) {
	m, err := host.Discover(r, nil)
	if err != nil {
		return Host{}, err
	}
	out := Host{Nodes: m.Nodes}
	vgpus := map[pci.BDF]int{}
	for _, v := range m.VFs {
		vgpus[v.BDF] = v.VGPU
	}
	for _, f := range m.Functions() {
		x := Function{BDF: f.BDF, Driver: f.Driver, Override: f.Override, Group: f.IOMMUGroup, VGPU: vgpus[f.BDF]}
		if f.SRIOV != nil {
			x.VFs = f.SRIOV.Num
		}
		out.Functions = append(out.Functions, x)
		left, err := leftOf(r, f.BDF)
		if err != nil {
			return Host{}, err
		}
		out.Left = append(out.Left, left...)
	}
	for _, d := range m.MDevs {
		out.MDevs = append(out.MDevs, MDev{d.UUID, d.Parent, d.Type})
	}
	return out, nil
}

// leftOf reads available_instances of each type that a function can have.
func leftOf(r host.Root, parent pci.BDF) ([]Left, error) {
	dir := path.Join("/sys/bus/pci/devices", parent.String(), "mdev_supported_types")
	types, err := r.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Left
	for _, t := range types {
		file := path.Join(dir, t, "available_instances")
		text, err := r.ReadFile(file)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, Left{parent, t, n})
	}
	return out, nil
}

// CompareHosts is Compare of two hosts, or of one at two moments.
func CompareHosts(a, b Host) (diffs []Difference, entered int) {
	add := adder(&diffs, &entered)
	add("host functions", entries(a.Functions, Function.entry), entries(b.Functions, Function.entry))
	add("host mdevs", entries(a.MDevs, MDev.entry), entries(b.MDevs, MDev.entry))
	add("host mdev types", entries(a.Left, Left.entry), entries(b.Left, Left.entry))
	add("host nodes", entries(a.Nodes, nodeEntry), entries(b.Nodes, nodeEntry))
	return diffs, entered
}

func (f Function) entry() entry {
	text := fmt.Sprintf("driver %s, override %s, group %d", cmp.Or(f.Driver, "none"), cmp.Or(f.Override, "none"), f.Group)
	if f.VFs > 0 {
		text += fmt.Sprintf(", %d virtual functions", f.VFs)
	}
	if f.VGPU > 0 {
		text += fmt.Sprintf(", vGPU type %d", f.VGPU)
	}
	return entry{f.BDF.String(), text}
}

func (d MDev) entry() entry { return entry{d.UUID, d.Type + " of " + d.Parent.String()} }

func (l Left) entry() entry {
	return entry{l.Parent.String() + " " + l.Type, fmt.Sprintf("%d left", l.N)}
}

func nodeEntry(n device.Node) entry {
	return entry{n.Path, fmt.Sprintf("%s %s %04o %d:%d", n.Type, n.Num, uint32(n.Mode.Perm()), n.UID, n.GID)}
}

// Function returns that at a; nil: there is none.
func (h *Host) Function(a pci.BDF) *Function {
	i := slices.IndexFunc(h.Functions, func(f Function) bool { return f.BDF == a })
	if i < 0 {
		return nil
	}
	return &h.Functions[i]
}

// MDevsOf counts the mediated devices of a type, and how many more there can be of it;
// known says that some parent can have it.
func (h *Host) MDevsOf(typ string) (made, left int, known bool) {
	for _, d := range h.MDevs {
		if d.Type == typ {
			made++
		}
	}
	for _, l := range h.Left {
		if l.Type == typ {
			left, known = left+l.N, true
		}
	}
	return made, left, known
}
