package host

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/pci"
)

const (
	platformDir = "/sys/devices/platform"
	// kfdNodes has a folder for each processor and each partition of a GPU, see
	// drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
	kfdNodes = "/sys/class/kfd/kfd/topology/nodes"
)

// partitions adds the partitions of AMD's GPUs beyond the first of each. amdgpu makes
// a platform device amdgpu_xcp_N for each that could be; those without DRM nodes are
// not in use. Which GPU one is of, the compute topology says.
func (d *discovery) partitions() error {
	names, err := d.list(platformDir)
	if err != nil {
		return err
	}
	var owners map[int]pci.BDF
	for _, name := range names {
		if !strings.HasPrefix(name, "amdgpu_xcp") {
			continue
		}
		what := "partition " + name + " of an AMD GPU"
		card, render, err := d.drm(path.Join(platformDir, name))
		if err != nil || render < 0 {
			d.problem(what, err)
			continue
		}
		if owners == nil {
			owners = d.owners()
		}
		i := -1
		if owner, ok := owners[render]; ok {
			i = slices.IndexFunc(d.m.GPUs, func(g GPU) bool { return g.PCI != nil && g.PCI.BDF == owner })
		}
		if i < 0 {
			d.problem(what, fmt.Errorf("%s names no GPU for /dev/dri/renderD%d", kfdNodes, render))
			continue
		}
		d.m.GPUs[i].Partitions = append(d.m.GPUs[i].Partitions, Partition{Card: card, Render: render})
	}
	for _, g := range d.m.GPUs {
		slices.SortFunc(g.Partitions, func(a, b Partition) int { return cmp.Compare(a.Render, b.Render) })
	}
	return nil
}

// owners returns the GPU of each render node in the compute topology.
func (d *discovery) owners() map[int]pci.BDF {
	out := map[int]pci.BDF{}
	names, err := d.list(kfdNodes)
	d.problem("compute topology", err)
	for _, name := range names {
		p := path.Join(kfdNodes, name, "properties")
		text, err := d.text(p)
		if err == nil {
			var render int
			var at pci.BDF
			if render, at, err = ParseKFDNode(text); render > 0 {
				out[render] = at
			}
			err = inFile(p, err)
		}
		d.problem("compute topology", err)
	}
	return out
}

// ParseKFDNode reads the properties of a node of amdkfd's compute topology: the N of
// /dev/dri/renderDN, zero for a processor, and the PCI address of the GPU.
//
// Its location_id has bus, device and function in the low 16 bits, and above them the
// number of a partition.
func ParseKFDNode(text string) (render int, at pci.BDF, err error) {
	values := map[string]uint64{"drm_render_minor": 0, "location_id": 0, "domain": 0}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, wanted := values[key]; !wanted {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || key == "drm_render_minor" && n > 1<<20 {
			return 0, pci.BDF{}, malformed(0, strings.TrimSpace(line), "not a number that this property has")
		}
		values[key] = n
	}
	id := values["location_id"]
	at = pci.BDF{Domain: uint32(values["domain"]), Bus: uint8(id >> 8), Device: uint8(id >> 3 & 31), Function: uint8(id & 7)}
	return int(values["drm_render_minor"]), at, nil
}
