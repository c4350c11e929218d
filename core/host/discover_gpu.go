package host

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/pci"
)

// platformGPUs are how sysfs names the integrated GPUs of Tegra, behind their
// address: R36 and later, Orin and Xavier on R35, older ones.
var platformGPUs = []string{".gpu", ".ga10b", ".gv11b", ".gp10b"}

// gpus adds platform GPUs and reads what drivers say of each GPU.
func (d *discovery) gpus() error {
	names, err := d.list("/sys/bus/platform/devices")
	if err != nil {
		return err
	}
	for _, name := range names {
		is := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
		if d.m.Tegra != nil && slices.ContainsFunc(platformGPUs, is) {
			d.m.GPUs = append(d.m.GPUs, GPU{Platform: name, Minor: -1, Index: -1, Card: -1, Render: -1})
		}
	}
	slices.SortStableFunc(d.m.GPUs, func(a, b GPU) int {
		switch {
		case a.PCI != nil && b.PCI != nil:
			return a.PCI.BDF.Compare(b.PCI.BDF)
		case a.PCI == nil && b.PCI == nil:
			return cmp.Compare(a.Platform, b.Platform)
		case a.PCI == nil:
			return -1
		}
		return 1
	})
	for i := range d.m.GPUs {
		disable(&d.m.GPUs[i], d.gpu(&d.m.GPUs[i]))
	}
	return nil
}

// gpu reads DRM numbers and what the bound driver says.
func (d *discovery) gpu(g *GPU) error {
	if g.PCI == nil {
		var err error
		g.Card, g.Render, err = d.drm("/sys/bus/platform/devices/" + g.Platform)
		return err
	}
	dir, err := d.device(g.PCI.BDF.String())
	if err != nil {
		return err
	}
	if g.Card, g.Render, err = d.drm(dir); err != nil {
		return err
	}
	switch g.PCI.Driver {
	case "nvidia":
		return d.nvidiaGPU(g)
	case "amdgpu":
		return d.amdGPU(g, dir)
	}
	return nil
}

// nvidiaGPU reads /proc/driver/nvidia/gpus/<address>/information.
func (d *discovery) nvidiaGPU(g *GPU) error {
	at := g.PCI.BDF
	p := "/proc/driver/nvidia/gpus/" + at.String() + "/information"
	text, ok, err := d.optional(p)
	if err == nil && !ok && at.Domain > 0xffff {
		// The driver cuts the domain to four digits (seen on Azure).
		at.Domain &= 0xffff
		p = "/proc/driver/nvidia/gpus/" + at.String() + "/information"
		text, ok, err = d.optional(p)
	}
	if err != nil {
		return err
	}
	if !ok {
		_, err := d.text(p)
		return err
	}
	info, err := ParseGPUInfo(text)
	if err != nil {
		return inFile(p, err)
	}
	if info.HasBDF && info.BDF != at && info.BDF != g.PCI.BDF {
		return &ConflictError{"address of a GPU", p, info.BDF.String(), "its directory", at.String()}
	}
	g.Name, g.UUID, g.VBIOS, g.Minor = info.Model, info.UUID, info.VBIOS, info.Minor
	g.MIG, err = d.capabilityMIG(g.Minor)
	return err
}

// capabilityMIG reads the MIG state from the capability files, which know ids
// but neither profiles nor placements. Nil if MIG mode is off.
func (d *discovery) capabilityMIG(minor int) (*MIG, error) {
	top := fmt.Sprintf("/proc/driver/nvidia/capabilities/gpu%d/mig", minor)
	if ok, err := Exists(d.r, top); err != nil || !ok {
		return nil, err
	}
	out := &MIG{}
	index := 0
	gis, err := d.numberedIn(top, "gi")
	if err != nil {
		return nil, err
	}
	for _, id := range gis {
		gi := GPUInstance{ID: id, ProfileID: -1, Start: -1}
		cis, err := d.numberedIn(fmt.Sprintf("%s/gi%d", top, id), "ci")
		if err != nil {
			return nil, err
		}
		for _, c := range cis {
			gi.Compute = append(gi.Compute, ComputeInstance{ID: c, Index: index})
			index++
		}
		out.Instances = append(out.Instances, gi)
	}
	return out, nil
}

// numberedIn lists the numbers N of entries "prefixN", ascending.
func (d *discovery) numberedIn(dir, prefix string) ([]int, error) {
	names, err := d.list(dir)
	var out []int
	for _, name := range names {
		if n, ok := numbered(name, prefix); ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, err
}

// amdGPU reads amdgpu's attributes. Boards without a FRU have no product name.
func (d *discovery) amdGPU(g *GPU, dir string) error {
	name, _, err := d.optional(dir + "/product_name")
	if err != nil {
		return err
	}
	g.Name = strings.TrimSpace(name)
	text, ok, err := d.optional(dir + "/mem_info_vram_total")
	if err != nil || !ok {
		return err
	}
	bytes, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return inFile(dir+"/mem_info_vram_total", malformed(0, strings.TrimSpace(text), "not a number of bytes"))
	}
	g.MemoryMiB = bytes >> 20
	return nil
}

// library adds what the management library knows.
func (d *discovery) library() error {
	if d.nvml == nil {
		return nil
	}
	devices, err := d.nvml.Devices()
	if err != nil {
		d.problem(Library, err)
		return nil
	}
	cuda, err := d.nvml.CUDAVersion()
	if err != nil {
		d.problem(Library, err)
	}
	if d.m.Driver != nil {
		d.m.Driver.CUDA = cuda
	}
	for _, dev := range devices {
		if dev.Err != nil {
			d.m.Lost = append(d.m.Lost, dev.Index) // what files say of it stays, without an index
			continue
		}
		i := d.match(dev)
		if i < 0 {
			at := "no PCI address"
			if dev.PCI != nil {
				at = dev.PCI.String()
			}
			what := fmt.Sprintf("GPU with NVML index %d", dev.Index)
			d.problem(what, &ConflictError{what, "the management library", at, "/sys", "no such GPU"})
			continue
		}
		merge(&d.m.GPUs[i], dev)
	}
	return nil
}

// match finds the GPU that dev is: by PCI address, else the integrated one.
func (d *discovery) match(dev NVMLDevice) int {
	if dev.PCI != nil {
		same := func(g GPU) bool { return g.PCI != nil && g.PCI.BDF == *dev.PCI }
		if i := slices.IndexFunc(d.m.GPUs, same); i >= 0 {
			return i
		}
		// Orin's library gives an address of zeros for a GPU that has none.
		if *dev.PCI != (pci.BDF{}) {
			return -1
		}
	}
	return slices.IndexFunc(d.m.GPUs, func(g GPU) bool { return g.PCI == nil && g.Index < 0 })
}

// merge puts what the library says into g. Where the files contradict, what they say
// stays, and the GPU is not to be used.
func merge(g *GPU, dev NVMLDevice) {
	name := g.Platform
	if g.PCI != nil {
		name = g.PCI.BDF.String()
	}
	if g.Minor >= 0 && dev.Minor >= 0 && g.Minor != dev.Minor {
		disable(g, &ConflictError{"minor of GPU " + name, "/proc", strconv.Itoa(g.Minor), "the management library", strconv.Itoa(dev.Minor)})
	}
	if g.UUID != "" && dev.UUID != "" && g.UUID != dev.UUID {
		disable(g, &ConflictError{"UUID of GPU " + name, "/proc", g.UUID, "the management library", dev.UUID})
	}
	if g.Minor < 0 {
		g.Minor = dev.Minor
	}
	g.Index, g.MIG, g.ComputeCap, g.MemoryMiB = dev.Index, dev.MIG.clone(), dev.ComputeCap, dev.MemoryMiB
	g.Name, g.UUID, g.VBIOS = cmp.Or(dev.Name, g.Name), cmp.Or(g.UUID, dev.UUID), cmp.Or(dev.VBIOS, g.VBIOS)
}
