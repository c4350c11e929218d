package vfio

import (
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// A vgpuType is a type of vGPU that a function of the host can be divided into.
type vgpuType struct {
	id   string // as the driver names it: the folder "nvidia-558", or the number "1147"
	name string // "NVIDIA A40-4Q"
	left int    // how many can be made now
}

// is reports whether the type is the one that was asked for, by id or by the last
// word of its name, which is how NVIDIA's documents call it. Names are compared
// whole: A40-4Q is no A40-48Q (vgpu-type-list-shared).
func (t vgpuType) is(asked string) bool {
	words := strings.Fields(t.name)
	return asked == t.id || isNumber(t.id) && asked == "nvidia-"+t.id || len(words) > 0 && asked == words[len(words)-1]
}

// String names the type as it can be asked for.
func (t vgpuType) String() string {
	if words := strings.Fields(t.name); len(words) > 0 {
		return t.id + " (" + words[len(words)-1] + ")"
	}
	return t.id
}

// A parent is a function that vGPUs can be made on: in the way of mediated devices
// (Documentation/driver-api/vfio-mediated-device.rst), or by attributes of NVIDIA's
// driver from Linux 6.8 on, which has no mdev bus (vendor-vfio-no-mdev-bus).
type parent struct {
	bdf, board pci.BDF
	mediated   bool
	types      []vgpuType // by id
	current    int        // what a function is that is one vGPU; 0: none
}

// parentAt reads what vGPUs the function at b can have; ok says whether it is a
// parent.
func parentAt(r host.Root, b, board pci.BDF) (p parent, ok bool, err error) {
	p = parent{bdf: b, board: board}
	if p.current, ok, err = number(r, at(b)+"/nvidia/current_vgpu_type"); err != nil || ok {
		if err == nil {
			p.types, err = creatable(r, b)
		}
		return p, ok, err
	}
	p.mediated = true
	p.types, err = mediated(r, b)
	return p, len(p.types) > 0, err
}

// mediated reads the types of mediated devices of a function.
func mediated(r host.Root, b pci.BDF) ([]vgpuType, error) {
	dir := at(b) + "/mdev_supported_types"
	names, err := list(r, dir)
	if err != nil {
		return nil, err
	}
	var out []vgpuType
	for _, id := range names {
		if !isName(id) {
			return nil, badText(dir, id)
		}
		t := vgpuType{id: id}
		if t.name, _, err = attribute(r, dir+"/"+id+"/name"); err != nil { // which a type need not have
			return nil, err
		}
		var ok bool
		if t.left, ok, err = number(r, dir+"/"+id+"/available_instances"); err != nil {
			return nil, err
		}
		if !ok {
			return nil, refuse.New(ReasonBadHost, dir+"/"+id, "available_instances is not there").WithHint("Look whether the driver is loaded in full.")
		}
		out = append(out, t)
	}
	return out, nil
}

// creatable reads which vGPUs a virtual function can be made now.
func creatable(r host.Root, b pci.BDF) ([]vgpuType, error) {
	p := at(b) + "/nvidia/creatable_vgpu_types"
	text, _, err := attribute(r, p)
	if err != nil {
		return nil, err
	}
	out, bad := parseCreatable(text)
	if bad != "" {
		return nil, badText(p, bad)
	}
	return out, nil
}

// parseCreatable reads the table of NVIDIA's driver: a line of headings, then one
// "1147  : NVIDIA L40S-1Q" for each type of which there is one left. It returns a
// line that is none.
func parseCreatable(text string) (types []vgpuType, bad string) {
	for line := range strings.Lines(text) {
		id, name, ok := strings.Cut(strings.TrimSpace(line), ":")
		id, name = strings.TrimSpace(id), strings.TrimSpace(name)
		switch n, err := strconv.Atoi(id); {
		case id == "ID" && ok, id == "" && !ok:
		case err != nil || n <= 0 || !isNumber(id) || name == "":
			return nil, line
		default:
			types = append(types, vgpuType{id: id, name: name, left: 1})
		}
	}
	return types, ""
}
