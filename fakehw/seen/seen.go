// Package seen reads facts from a fake host as programs see them: from NVML in this
// process, the trees of sysfs and procfs, the tables of MIG. Its field names are
// those of fixtures/records, whose records of real machines they are compared with.
//
// A field of a board is named as nvidia-smi -q -x names it
// ("fb_memory_usage/total"), or "mig/PROFILE/WHAT", or "sysfs/ATTRIBUTE" for a
// file of the function. A field of a machine begins with what is asked:
//
//	exists PATH        "yes" or "no"
//	text PATH          the file, without the last line end
//	key PATH KEY       what follows KEY in the file's lines
//	lists PATH NAME    "yes" if a line has the word NAME
//	count PATTERN      how many paths there are
//	lines PATH         how many lines
//	link PATH          the target's last part
//	gpus WHAT          of every NVIDIA GPU: "at" for the address, "group" for the
//	                   IOMMU group, else a file in sysfs; amds and switches alike
//	serials            which GPUs share a serial number, "A A B B"
//	gpuI FIELD         a field of a board, asked of GPU I
package seen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/aferofs"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fixtures/records"
)

// A Host is a fake host that is looked at. Methods of one Host are for one
// goroutine.
type Host struct {
	model host.Model
	root  host.Root
	lib   *nvmlfake.Library
	mig   *nvmlfake.Library // of the host with MIG mode on everywhere, where its tables are asked
}

// Look builds the tree of a host and starts its NVML, where it starts.
func Look(m host.Model) (*Host, error) {
	t, err := fakehw.Build(m)
	if err != nil {
		return nil, err
	}
	on := m
	on.GPUs = slices.Clone(m.GPUs)
	for i, g := range on.GPUs {
		if p, ok := productOf(g); ok && len(p.MIG) > 0 {
			on.GPUs[i].MIG = &host.MIG{}
		}
	}
	h := &Host{model: m, root: aferofs.NewRoot(aferofs.New(t)), lib: nvmlfake.New(m, nvmlfake.Options{}), mig: nvmlfake.New(on, nvmlfake.Options{})}
	h.lib.Init()
	h.mig.Init()
	return h, nil
}

// Board returns what is said of the first GPU that is this product of the
// catalogue; ok is false where there is none.
func (h *Host) Board(key string) (says func(field string) string, ok bool) {
	for _, g := range h.model.GPUs {
		if p, known := productOf(g); known && p.Key == key {
			return h.gpu(g), true
		}
	}
	return nil, false
}

// Records returns those of the files that are nearest to a board as it is on this host.
func (h *Host) Records(files []*records.File, board string) []*records.File {
	branch := 0
	if h.model.Driver != nil {
		branch = catalog.BranchNumber(h.model.Driver.Version)
	}
	for _, g := range h.model.GPUs {
		if p, known := productOf(g); known && p.Key == board {
			return records.Nearest(files, board, branch, g.MIG != nil)
		}
	}
	return nil
}

// Boards are the products of the host's GPUs, each once.
func (h *Host) Boards() []string {
	var out []string
	seen := map[string]bool{}
	for _, g := range h.model.GPUs {
		if p, ok := productOf(g); ok && !seen[p.Key] {
			seen[p.Key] = true
			out = append(out, p.Key)
		}
	}
	return out
}

func productOf(g host.GPU) (catalog.Product, bool) {
	p, ok := catalog.OfGPU(g)
	return p, ok && g.PCI.Board == nil // no record is about a board that a profile describes
}

// gpu returns what is said of a GPU.
func (h *Host) gpu(g host.GPU) func(string) string {
	device := h.device(h.lib, g)
	return func(field string) string {
		switch kind, rest, _ := strings.Cut(field, "/"); kind {
		case "mig":
			return mig(h.device(h.mig, g), g, rest)
		case "sysfs":
			if g.PCI == nil {
				return records.Absent
			}
			return h.attribute(g.PCI.BDF, rest)
		}
		get, ok := answers[field]
		if !ok || device == nil {
			return records.Absent
		}
		value, r := get(device)
		return answered(value, r)
	}
}

// answered is what nvidia-smi prints for an answer of NVML.
func answered(value string, r nvml.Return) string {
	switch r {
	case nvml.SUCCESS:
		return value
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
		return "N/A"
	case nvml.ERROR_DEPRECATED:
		return "Requested functionality has been deprecated"
	}
	return nvmlfake.New(host.Model{}, nvmlfake.Options{}).ErrorString(r)
}

// device returns the GPU's handle; nil where NVML does not list it.
func (h *Host) device(lib *nvmlfake.Library, g host.GPU) nvml.Device {
	for i, other := range h.model.NVIDIAGPUs() {
		if other.UUID == g.UUID && other.Index == g.Index {
			if d, r := lib.DeviceGetHandleByIndex(i); r == nvml.SUCCESS {
				return d
			}
		}
	}
	return nil
}

// Machine says a field of the whole host.
func (h *Host) Machine(field string) string {
	what, rest, _ := strings.Cut(field, " ")
	if n, ok := strings.CutPrefix(what, "gpu"); ok && n != "s" {
		for i, g := range h.model.NVIDIAGPUs() {
			if fmt.Sprint(i) == n {
				return h.gpu(g)(rest)
			}
		}
		return records.Absent
	}
	get, ok := files[what]
	if !ok {
		return records.Absent
	}
	return get(h, rest)
}
