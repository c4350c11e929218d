package nvidia

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
)

// finish adds what is ours, judges the Spec and sets its version.
func (g *generator) finish(spec *specs.Spec) error {
	spec.Devices = slices.DeleteFunc(spec.Devices, func(d specs.Device) bool { return emptyEdits(&d.ContainerEdits) })
	if len(spec.Devices) == 0 {
		return refusal(ReasonNoDevices, "nvcdi mode "+string(g.mode), "the host has no device for %s", spec.Kind)
	}
	switch g.mode {
	case nvcdi.ModeNvml:
		g.sayNoCUDA(spec)
		g.withholdLost(spec)
		if err := g.withhold(spec); err != nil {
			return err
		}
	case nvcdi.ModeCSV:
		if err := g.finishCSV(spec); err != nil {
			return err
		}
	}
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return refusal(ReasonInvalidSpec, spec.Kind, "no CDI version fits").WithErr(err)
	}
	spec.Version = version
	var errs []error
	for _, p := range cdi.Validate(spec) {
		errs = append(errs, p.Refusal())
	}
	if len(errs) > 0 {
		return refusal(ReasonInvalidSpec, spec.Kind, "breaks the rules of CDI").WithErr(errors.Join(errs...))
	}
	return nil
}

// sayNoCUDA says, where the host has no libcuda, what a container gets then, in the
// place of what to do about the nodes that CUDA alone needs. nvcdi takes such a
// host as it is since 1.19: it learns the version from libnvidia-ml.
func (g *generator) sayNoCUDA(spec *specs.Spec) {
	if slices.ContainsFunc(spec.ContainerEdits.Mounts, func(m *specs.Mount) bool {
		return strings.HasPrefix(path.Base(m.HostPath), "libcuda.so")
	}) {
		return
	}
	g.log.all = slices.DeleteFunc(g.log.all, func(w Warning) bool { return w.Reason == ReasonUVMMissing })
	g.log.all = append(g.log.all, Warning{Reason: ReasonNoCUDA, Path: "libcuda.so.1",
		Msg: "not on this host: containers get the nodes and nvidia-smi, and no CUDA program starts in them; the package of NVIDIA's vGPU manager has none, its GPUs are for virtual machines"})
}

// emptyEdits reports whether CDI would refuse a device for having no edits.
// nvcdi makes such devices where a host has none of the nodes.
func emptyEdits(e *specs.ContainerEdits) bool {
	return len(e.Env)+len(e.DeviceNodes)+len(e.NetDevices)+len(e.Hooks)+len(e.Mounts)+len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
}

// integratedNodes are the nodes by which programs control the GPU of a system on
// chip, on nvgpu's two ways to name them, and get its memory.
var integratedNodes = []string{"/dev/nvgpu/igpu0/ctrl", "/dev/nvhost-ctrl-gpu", "/dev/nvmap"}

// finishCSV withholds GPUs that lack a node as those of a server are (see withhold),
// adds the CSV files as mounts and says in which line of which file a missing path is
// (bug csv-missing-entries).
func (g *generator) finishCSV(spec *specs.Spec) error {
	wants := g.nodesByName()
	lacks := map[string][]string{}
	for _, d := range spec.Devices {
		if len(d.ContainerEdits.DeviceNodes)+len(spec.ContainerEdits.DeviceNodes) == 0 {
			return refusal(ReasonNodeMissing, spec.Kind+"="+d.Name, "none of the device nodes in %s is on this host", path.Base(g.csv[0]))
		}
		want := wants[d.Name]
		if want == nil { // what the lists have of the GPU on chip: other boards have other nodes
			want = slices.DeleteFunc(slices.Clone(integratedNodes), func(p string) bool { return g.csvAt[p] == "" })
		}
		if m := missing(&d, want); len(m) > 0 && d.Name != g.opts.Merged {
			lacks[d.Name] = m
		}
	}
	if err := g.without(spec, lacks); err != nil {
		return err
	}
	spec.ContainerEdits.Mounts = append(spec.ContainerEdits.Mounts, g.csvMounts()...)
	sortMounts(spec.ContainerEdits.Mounts)
	for i, w := range g.log.all {
		if at := g.csvAt[w.Path]; at != "" {
			g.log.all[i].Msg += " (" + at + ")"
		}
	}
	return nil
}

// sortMounts is nvcdi's order: by depth, then by path.
func sortMounts(ms []*specs.Mount) {
	slices.SortStableFunc(ms, func(a, b *specs.Mount) int {
		return cmp.Or(cmp.Compare(strings.Count(path.Clean(a.ContainerPath), "/"), strings.Count(path.Clean(b.ContainerPath), "/")),
			cmp.Compare(a.ContainerPath, b.ContainerPath))
	})
}
