package nvidia

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/host"
	"gpurig/core/refuse"
)

// gpusInProc has a directory for each GPU that the driver bound, also for one
// that is lost: it is the kernel's memory of it.
const gpusInProc = "/proc/driver/nvidia/gpus"

// withoutLost is a management library whose GPUs of those indexes are left out
// by go-nvlib's walk over all GPUs, which nvcdi takes and which ends at the first
// GPU that does not answer. The others keep their indexes. go-nvlib leaves out by
// product name alone, so a lost GPU gets one of the names that it leaves out.
type withoutLost struct {
	nvml.Interface
	lost map[int]*refuse.Error
}

type leftOut struct{ nvml.Device }

func (leftOut) GetName() (string, nvml.Return) { return "NVIDIA DGX Display", nvml.SUCCESS }

// DeviceGetHandleByIndex is part of nvml.Interface.
func (l withoutLost) DeviceGetHandleByIndex(i int) (nvml.Device, nvml.Return) {
	if l.lost[i] != nil {
		return leftOut{}, nvml.SUCCESS
	}
	return l.Interface.DeviceGetHandleByIndex(i)
}

// lose notes a GPU that does not answer: it is withheld by each of its names.
func (g *generator) lose(index int, e *refuse.Error) {
	if g.lost == nil {
		g.lost = map[int]*refuse.Error{}
		g.devices = device.New(withoutLost{Interface: g.lib, lost: g.lost})
	}
	g.lost[index] = e
}

// withholdLost notes by name the GPUs that do not answer, and takes the device of
// all out of the Spec, which lacks them. Their UUIDs are those that the driver's
// files have and the library does not. MIG devices go with their GPU (see
// cdi.Resolve).
func (g *generator) withholdLost(spec *specs.Spec) {
	if len(g.lost) == 0 {
		return
	}
	g.withheld = map[string]*refuse.Error{}
	for _, index := range slices.Sorted(maps.Keys(g.lost)) {
		e := g.lost[index]
		for strategy, name := range map[string]string{
			nvcdi.DeviceNameStrategyIndex: strconv.Itoa(index), nvcdi.DeviceNameStrategyTypeIndex: "gpu" + strconv.Itoa(index),
		} {
			if slices.Contains(g.opts.Names, strategy) {
				g.withheld[name] = lostAs(spec.Kind, name, e)
			}
		}
		if g.withheld[g.opts.Merged] == nil {
			g.withheld[g.opts.Merged] = lostAs(spec.Kind, g.opts.Merged, e)
		}
	}
	spec.Devices = slices.DeleteFunc(spec.Devices, func(d specs.Device) bool { return d.Name == g.opts.Merged })
	if slices.Contains(g.opts.Names, nvcdi.DeviceNameStrategyUUID) {
		g.withholdUUIDs(spec.Kind)
	}
}

// withholdUUIDs notes the lost GPUs by UUID. Which index had which is known of
// one alone.
func (g *generator) withholdUUIDs(kind string) {
	answer := map[string]bool{}
	gpus, _ := NVML(g.lib).Devices() // checkNVML saw that one at least answers
	for _, d := range gpus {
		if g.lost[d.Index] == nil {
			answer[d.UUID] = true
		}
	}
	names, err := g.root.ReadDir(gpusInProc)
	if err != nil {
		return // no file, no UUID
	}
	for _, bdf := range names {
		p := path.Join(gpusInProc, bdf, "information")
		data, err := g.root.ReadFile(p)
		if err != nil {
			continue
		}
		info, err := host.ParseGPUInfo(string(data))
		if err != nil || info.UUID == "" || answer[info.UUID] {
			continue
		}
		e := refusal(ReasonNVML, "", "the GPU at %s does not answer NVIDIA's management library", bdf).
			WithHint("Look for Xid 79 in the kernel's log, and reboot: nothing less brings the GPU back.")
		if len(g.lost) == 1 {
			for _, e = range g.lost {
			}
		}
		g.withheld[info.UUID] = lostAs(kind, info.UUID, e)
	}
}

// lostAs is the refusal of a lost GPU under one of its names. The place of e,
// "GPU 1: NVML DeviceGetHandleByIndex", goes into the words.
func lostAs(kind, name string, e *refuse.Error) *refuse.Error {
	c := *e
	if e.Where != "" {
		c.Msg = fmt.Sprintf("%s: %s", e.Where, e.Msg)
	}
	c.Where = kind + "=" + name
	return &c
}
