package capture

import (
	"fmt"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/fault"
)

// Broken discovers the machine and what was broken on it: a GPU that NVML called
// lost has its index, what GPUs of its kind have, and the fault off-bus. NVML counts
// by address, so where several are lost the first index is the first address. A GPU
// that did not answer for another reason is what files say of it, and no fault.
func (m Machine) Broken() (host.Model, fault.List, error) {
	model, err := m.Model()
	if err != nil || m.File.NVML == nil {
		return model, nil, err
	}
	var lost []int
	for _, d := range m.File.NVML.Devices {
		switch {
		case d.Error == "":
		case !strings.HasSuffix(d.Error, "GPU is lost") && !strings.HasSuffix(d.Error, "GPU_IS_LOST"): // with and without the library's own words
			return model, nil, nil
		default:
			lost = append(lost, d.Index)
		}
	}
	var silent []*host.GPU
	for i, g := range model.GPUs {
		if g.Index < 0 && g.PCI != nil && g.PCI.Driver == "nvidia" {
			silent = append(silent, &model.GPUs[i])
		}
	}
	if len(silent) != len(lost) {
		return model, nil, nil // which is which is not known
	}
	var faults fault.List
	for i, g := range silent {
		g.Index = lost[i]
		likeItsKind(g, model.GPUs)
		f, err := fault.Parse("off-bus:" + g.PCI.BDF.String())
		if err == nil {
			faults, err = faults.With(f)
		}
		if err != nil {
			return host.Model{}, nil, fmt.Errorf("GPU %d of the recording: %w", g.Index, err)
		}
	}
	return model, faults, nil
}

// likeItsKind gives a GPU what NVML says of another one with the same IDs.
func likeItsKind(g *host.GPU, all []host.GPU) {
	for _, o := range all {
		if o.PCI != nil && o.PCI.ID == g.PCI.ID && o.MemoryMiB != 0 {
			g.MemoryMiB, g.ComputeCap = o.MemoryMiB, o.ComputeCap
			return
		}
	}
}
