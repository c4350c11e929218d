package capture

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/fault"
	"gpurig/fixtures/hosts"
)

// Broken discovers the machine and what was broken on it: a GPU that did not answer
// has its index, what GPUs of its kind have, and a fault: off-bus where NVML called it
// lost, else the call that failed with the code that it returned. NVML counts by
// address, so where several are silent the first index is the first address. Where
// more or fewer are silent in files than in NVML, nobody knows which is which: the
// error says so.
func (m Machine) Broken() (host.Model, fault.List, error) {
	model, err := m.Model()
	if err != nil || m.File.NVML == nil {
		return model, nil, err
	}
	var failed []hosts.Device
	for _, d := range m.File.NVML.Devices {
		if d.Error != "" {
			failed = append(failed, d)
		}
	}
	var silent []*host.GPU
	for i, g := range model.GPUs {
		if g.Index < 0 && g.PCI != nil && g.PCI.Driver == "nvidia" {
			silent = append(silent, &model.GPUs[i])
		}
	}
	if len(failed) == 0 {
		return model, nil, nil
	}
	if len(silent) != len(failed) {
		return host.Model{}, nil, fmt.Errorf("the recording has %d GPUs that did not answer NVML (%s), and files tell of %d that it does not know: which is which cannot be told",
			len(failed), failed[0].Error, len(silent))
	}
	var faults fault.List
	for i, g := range silent {
		g.Index = failed[i].Index
		likeItsKind(g, model.GPUs)
		f, err := fault.Parse(faultOf(failed[i], g.PCI.BDF.String()))
		if err == nil {
			faults, err = faults.With(f)
		}
		if err != nil {
			return host.Model{}, nil, fmt.Errorf("GPU %d of the recording: %w", g.Index, err)
		}
	}
	return model, faults, nil
}

// faultOf is the fault of a GPU that failed as d says. Older recordings have the
// words of the library alone, which name a lost GPU in two ways, with and without
// the library at hand.
func faultOf(d hosts.Device, at string) string {
	code := nvml.Return(d.Code)
	switch {
	case code != nvml.SUCCESS:
	case strings.HasSuffix(d.Error, "GPU is lost"), strings.HasSuffix(d.Error, "GPU_IS_LOST"):
		code = nvml.ERROR_GPU_IS_LOST
	default:
		code = nvml.ERROR_UNKNOWN
	}
	if code == nvml.ERROR_GPU_IS_LOST {
		return "off-bus:" + at
	}
	call := d.Call
	if call == "" || call == "DeviceGetHandleByIndex" { // without a handle nothing can be asked
		call = "*"
	}
	return fmt.Sprintf("nvml:%s:%s=%d", call, at, code)
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
