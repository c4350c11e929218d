package nvidia

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/refuse"
)

// migMinors is where the driver says which capability node has which minor.
const migMinors = "/proc/driver/nvidia-caps/mig-minors"

// withhold takes those devices out of the Spec that lack the nodes that make
// them what they are, and with them the device of all: half of all is not what
// whoever asks for all wants. nvcdi only warns, and the container then has no
// GPU (bug modules-loaded-no-nodes) or a MIG device that is its parent's node
// alone (bug mig-parent-only). Where no device is left, or the driver's control
// node is not there, there is no Spec.
func (g *generator) withhold(spec *specs.Spec) error {
	if !hasNode(spec.ContainerEdits.DeviceNodes, "/dev/nvidiactl") {
		return refusal(ReasonNodeMissing, "/dev/nvidiactl", "the driver's control node is not there").
			WithHint("Make the nodes with nvidia-modprobe, or run nvidia-smi once.")
	}
	wants := g.nodesByName()
	lacks := map[string][]string{}
	for _, d := range spec.Devices {
		if d.Name != g.opts.Merged && !complete(&d) {
			lacks[d.Name] = missing(&d, wants[d.Name])
		}
	}
	return g.without(spec, lacks)
}

// missing returns those of the paths that no node of d has.
func missing(d *specs.Device, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return hasNode(d.ContainerEdits.DeviceNodes, p) })
}

// without withholds the devices that lack something, which are named with what that
// is, and the device of all. Where none is left, there is no Spec.
func (g *generator) without(spec *specs.Spec, lacks map[string][]string) error {
	if len(lacks) == 0 {
		return nil
	}
	if g.withheld == nil {
		g.withheld = map[string]*refuse.Error{}
	}
	var all []string
	var first *refuse.Error
	mig := false
	for _, d := range spec.Devices {
		paths, broken := lacks[d.Name]
		if !broken {
			continue
		}
		all = append(all, paths...)
		e := lacking(spec.Kind+"="+d.Name, isMIG(d.Name), paths)
		if first == nil {
			first, mig = e, isMIG(d.Name)
		}
		g.withheld[d.Name] = e
	}
	slices.Sort(all)
	every := lacking(spec.Kind+"="+g.opts.Merged, mig, slices.Compact(all))
	if slices.ContainsFunc(spec.Devices, func(d specs.Device) bool { return d.Name == g.opts.Merged }) {
		g.withheld[g.opts.Merged] = every
	}
	spec.Devices = slices.DeleteFunc(spec.Devices, func(d specs.Device) bool { return g.withheld[d.Name] != nil })
	if len(spec.Devices) > 0 {
		return nil
	}
	if len(lacks) == 1 || first.Msg == every.Msg {
		return first
	}
	return every
}

// complete reports whether a device has its GPU's node and, being a MIG device,
// the nodes of its two capabilities.
func complete(d *specs.Device) bool {
	gpu, caps := 0, 0
	for _, n := range d.ContainerEdits.DeviceNodes {
		switch dir := path.Dir(n.Path); {
		case dir == "/dev" && strings.HasPrefix(path.Base(n.Path), "nvidia"):
			gpu++
		case dir == "/dev/nvidia-caps":
			caps++
		}
	}
	return gpu > 0 && (!isMIG(d.Name) || caps >= 2)
}

// isMIG reports whether a device name is that of a MIG device.
func isMIG(name string) bool { return strings.Contains(name, ":") || strings.HasPrefix(name, "MIG-") }

// lacking is the refusal of one device without these nodes.
func lacking(name string, mig bool, paths []string) *refuse.Error {
	what := "its device nodes are"
	switch len(paths) {
	case 0: // NVML or the driver's list no longer says which
	case 1:
		what = paths[0] + " is"
	default:
		what = strings.Join(paths, ", ") + " are"
	}
	if mig {
		return refusal(ReasonMIGNodeMissing, name, "%s not there", what).
			WithHint("Make the nodes by running nvidia-smi -L once as root after the instances were created.")
	}
	if slices.ContainsFunc(paths, func(p string) bool { return slices.Contains(integratedNodes, p) }) {
		return refusal(ReasonNodeMissing, name, "%s not there", what).WithHint("Load the driver with: modprobe nvgpu.")
	}
	return refusal(ReasonNodeMissing, name, "%s not there", what).
		WithHint("Make the nodes with nvidia-modprobe, or run nvidia-smi once.")
}

// nodesByName says which nodes each device needs, by all of its names. It is
// empty where NVML does not answer.
func (g *generator) nodesByName() map[string][]string {
	gpus, err := NVML(g.lib).Devices()
	if err != nil {
		return nil // a library that lists nothing was refused before
	}
	caps := g.capabilities()
	out := map[string][]string{}
	for _, d := range gpus {
		if d.Err != nil || d.Minor < 0 {
			continue // withheld as a whole, or the GPU of a system on chip
		}
		node := fmt.Sprintf("/dev/nvidia%d", d.Minor)
		index := strconv.Itoa(d.Index)
		for _, name := range []string{index, "gpu" + index, d.UUID} {
			out[name] = []string{node}
		}
		if d.MIG == nil {
			continue
		}
		for _, gi := range d.MIG.Instances {
			for _, ci := range gi.Compute {
				need := []string{node}
				for _, c := range []string{fmt.Sprintf("gpu%d/gi%d/access", d.Minor, gi.ID), fmt.Sprintf("gpu%d/gi%d/ci%d/access", d.Minor, gi.ID, ci.ID)} {
					if p := caps[c]; p != "" {
						need = append(need, p)
					}
				}
				for _, name := range []string{fmt.Sprintf("%d:%d", d.Index, ci.Index), fmt.Sprintf("mig%d:%d", d.Index, ci.Index), ci.UUID} {
					out[name] = need
				}
			}
		}
	}
	return out
}

// capabilities returns the nodes of MIG capabilities, "gpu0/gi2/access".
func (g *generator) capabilities() map[string]string {
	data, err := g.root.ReadFile(migMinors)
	if err != nil {
		return nil // nvcdi made no MIG device without it
	}
	out := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		if name, minor, ok := strings.Cut(s.Text(), " "); ok {
			out[name] = "/dev/nvidia-caps/nvidia-cap" + minor
		}
	}
	return out
}

func hasNode(nodes []*specs.DeviceNode, p string) bool {
	return slices.ContainsFunc(nodes, func(n *specs.DeviceNode) bool { return n.Path == p })
}
