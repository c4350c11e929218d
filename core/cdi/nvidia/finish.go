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
		if err := g.checkNodes(spec); err != nil {
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

// emptyEdits reports whether CDI would refuse a device for having no edits.
// nvcdi makes such devices where a host has none of the nodes.
func emptyEdits(e *specs.ContainerEdits) bool {
	return len(e.Env)+len(e.DeviceNodes)+len(e.NetDevices)+len(e.Hooks)+len(e.Mounts)+len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
}

// finishCSV refuses a Tegra Spec without nodes, adds the CSV files as mounts and
// says in which line of which file a missing path is (bug csv-missing-entries).
func (g *generator) finishCSV(spec *specs.Spec) error {
	for _, d := range spec.Devices {
		if len(d.ContainerEdits.DeviceNodes)+len(spec.ContainerEdits.DeviceNodes) == 0 {
			return refusal(ReasonNodeMissing, spec.Kind+"="+d.Name, "none of the device nodes in %s is on this host", path.Base(g.csv[0]))
		}
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

// checkNodes refuses devices without the nodes that make them what they are.
// nvcdi only warns, and the container then has no GPU (bug
// modules-loaded-no-nodes) or a MIG device that is its parent's node alone (bug
// mig-parent-only).
func (g *generator) checkNodes(spec *specs.Spec) error {
	if !hasNode(spec.ContainerEdits.DeviceNodes, "/dev/nvidiactl") {
		return refusal(ReasonNodeMissing, "/dev/nvidiactl", "the driver's control node is not there").
			WithHint("Make the nodes with nvidia-modprobe, or run nvidia-smi once.")
	}
	for _, d := range spec.Devices {
		if d.Name == g.opts.Merged {
			continue
		}
		gpu, caps := 0, 0
		for _, n := range d.ContainerEdits.DeviceNodes {
			base, dir := path.Base(n.Path), path.Dir(n.Path)
			switch {
			case dir == "/dev" && strings.HasPrefix(base, "nvidia"):
				gpu++
			case dir == "/dev/nvidia-caps":
				caps++
			}
		}
		mig := strings.Contains(d.Name, ":") || strings.HasPrefix(d.Name, "MIG-")
		switch {
		case mig && gpu+caps < 3:
			return refusal(ReasonMIGNodeMissing, spec.Kind+"="+d.Name, "%s not there", g.missing("/dev/nvidia")).
				WithHint("Make the nodes by running nvidia-smi -L once as root after the instances were created.")
		case !mig && gpu == 0:
			return refusal(ReasonNodeMissing, spec.Kind+"="+d.Name, "%s not there", g.missing("/dev/nvidia")).
				WithHint("Make the nodes with nvidia-modprobe, or run nvidia-smi once.")
		}
	}
	return nil
}

func hasNode(nodes []*specs.DeviceNode, p string) bool {
	return slices.ContainsFunc(nodes, func(n *specs.DeviceNode) bool { return n.Path == p })
}

// missing names the device nodes that nvcdi did not find, those of GPUs and MIG
// devices only.
func (g *generator) missing(prefix string) string {
	var paths []string
	for _, w := range g.log.warnings() {
		if w.Reason == ReasonNotFound && strings.HasPrefix(w.Path, prefix) && w.Path != "/dev/nvidia-modeset" {
			paths = append(paths, w.Path)
		}
	}
	switch len(paths) {
	case 0:
		return "its device nodes are"
	case 1:
		return paths[0] + " is"
	}
	return strings.Join(paths, ", ") + " are"
}
