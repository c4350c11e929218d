// Package legacy plans what the way that is older than CDI asks for: GPUs by the
// names of nvidia-container-cli, and the driver's files by driver capability. LXD's
// nvidia.runtime, LXC's hook nvidia and NVIDIA's container runtime hook ask so.
//
// The plan is one of package passthrough, from which is taken what the chosen
// capabilities do not bring. Carrying it out is left to others.
//
// Reference: https://github.com/NVIDIA/libnvidia-container (src/options.h, src/nvc_info.c)
package legacy

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/passthrough"
	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/core/request"
)

// A Request is what a caller asks for. The zero value is no GPU and of the driver's
// files only those that every program needs.
type Request struct {
	// Devices are GPUs and MIG devices: "all", an NVML index, a UUID, a PCI address,
	// "0:1" for the second MIG device of the first GPU, "MIG-GPU-UUID/GI/CI". Empty
	// texts, "none" and "void" are no device. Without any, the container gets the
	// driver's files and its control nodes alone.
	Devices      []string
	Capabilities []Capability
	// Require are conditions that the driver and each of the GPUs must fulfil:
	// "cuda>=12.0 driver>=535,driver<536", a blank for or and a comma for and.
	Require    []string
	MIGConfig  bool  // may partition MIG GPUs: the node of /proc/driver/nvidia/capabilities/mig/config
	MIGMonitor bool  // may see all of a MIG GPU
	IMEX       []int // channels
	Omit       []Part
}

// A Part is a part of the driver that a caller can do without.
type Part string

// The parts.
const (
	Firmware      Part = "gsp-firmware"
	Persistenced  Part = "persistenced"
	FabricManager Part = "fabricmanager"
	Nodes         Part = "devbind"
)

// Why a request is refused.
const (
	ReasonDevice      refuse.Reason = "legacy-device"
	ReasonCapability  refuse.Reason = "driver-capability"
	ReasonRequirement refuse.Reason = "requirement"
	ReasonConfig      refuse.Reason = "instance-option"
	ReasonWithCDI     refuse.Reason = "runtime-with-cdi"
)

// Reasons lists them.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonDevice, Meaning: "nvidia-container-cli is asked for a GPU that the host does not have."},
		{Reason: ReasonCapability, Meaning: "A driver capability is none of NVIDIA's."},
		{Reason: ReasonRequirement, Meaning: "The driver or a GPU does not fulfil a requirement of the container (NVIDIA_REQUIRE_*, nvidia.require.*)."},
		{Reason: ReasonConfig, Meaning: "An option nvidia.* of the instance has an invalid value."},
		{Reason: ReasonWithCDI, Meaning: "A GPU is asked for by CDI name beside nvidia.runtime: both bring the driver's files."},
	}
}

// Plan plans r. more are devices of the instance besides those of r, as LXD has
// them beside nvidia.runtime; they are not CDI devices. brand is what the driver
// calls the brand of a GPU, by UUID; nil, or empty: not known.
func Plan(ctx context.Context, h *passthrough.Host, r Request, more map[string]request.Options, brand func(uuid string) string, o passthrough.Options) (passthrough.Result, error) {
	m, err := h.Model()
	if err != nil {
		return passthrough.Result{}, err
	}
	devices := map[string]request.Options{}
	for name, d := range more {
		devices[name] = d
	}
	names, gpus, err := r.find(m)
	if err == nil {
		err = r.fulfilled(m, gpus, brand)
	}
	mig := false // of which the driver's files come too
	for name, d := range more {
		if d.GPUType == string(request.MIG) {
			mig = true
		} else if strings.Contains(d.ID, "=") {
			err = errors.Join(err, refuse.New(ReasonWithCDI, name+": id", "CDI device %.80q: nvidia.runtime gives the driver's files already", d.ID).
				WithHint("Take out nvidia.runtime, or select the GPU by pci."))
		}
	}
	if all := refuse.As(err); len(all) > 0 {
		res := passthrough.Result{Refused: &passthrough.Refused{At: passthrough.AtRequest, All: all}}
		return res, res.Refused
	}
	none := len(names) == 0 && !mig
	if len(names) == 0 && !mig { // whatever the driver brings with all of them
		names = []string{"nvidia.com/gpu=all"}
	}
	if r.MIGConfig {
		names = append(names, "nvidia.com/mig-caps=config")
	}
	if r.MIGMonitor {
		names = append(names, "nvidia.com/mig-caps=monitor")
	}
	for _, n := range r.IMEX {
		names = append(names, "nvidia.com/imex-channel="+strconv.Itoa(n))
	}
	for i, id := range names {
		d := request.Options{ID: id}
		if strings.Contains(id, ":") {
			d.GPUType = string(request.MIG)
		}
		devices[fmt.Sprintf("nvidia%d", i)] = d
	}
	res, err := passthrough.Plan(ctx, h, devices, o)
	if err != nil || res.Plan == nil {
		return res, err
	}
	p := r.filter(*res.Plan, m, none)
	res.Plan = &p
	return res, nil
}

// FromConfig is what the configuration of an LXD instance asks for, nvidia.runtime
// and nvidia.driver.capabilities, nvidia.require.cuda and nvidia.require.driver, which
// have no effect without it; nil: nothing.
//
// Reference: https://documentation.ubuntu.com/lxd/stable-5.21/reference/instance_options/#nvidia-and-cuda-configuration
func FromConfig(config map[string]string) (*Request, error) {
	switch v := strings.ToLower(config["nvidia.runtime"]); v {
	case "true", "1", "yes", "on":
	case "", "false", "0", "no", "off":
		return nil, nil
	default:
		return nil, refuse.New(ReasonConfig, "nvidia.runtime", "%.80q: want true or false", v)
	}
	r := Request{Capabilities: []Capability{Compute, Utility}}
	if text := config["nvidia.driver.capabilities"]; text != "" {
		var err error
		if r.Capabilities, err = ParseCapabilities(text); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"nvidia.require.cuda", "nvidia.require.driver"} {
		if v := config[key]; v != "" {
			r.Require = append(r.Require, v)
		}
	}
	return &r, nil
}

// find returns the CDI names of the devices, and the positions of their GPUs in m.
func (r Request) find(m host.Model) (names []string, gpus []int, err error) {
	for _, d := range r.Devices {
		if d == "" || d == "none" || d == "void" {
			continue
		}
		if strings.EqualFold(d, "all") {
			names, gpus = []string{"nvidia.com/gpu=all"}, nil
			for i, g := range m.GPUs {
				if isNVIDIA(g) {
					gpus = append(gpus, i)
				}
			}
			return names, gpus, nil
		}
		name, gpu, ok := lookup(m, d)
		if !ok {
			return nil, nil, refuse.New(ReasonDevice, "--device", "%q: unknown device", d).
				WithHint("Name a GPU by index, UUID or PCI address, a MIG device by UUID or GPU:INDEX, or all; nvidia-smi -L lists them.")
		}
		if id := "nvidia.com/gpu=" + name; !slices.Contains(names, id) {
			names, gpus = append(names, id), append(gpus, gpu)
		}
	}
	return names, gpus, nil
}

// lookup returns the name that one device has in generated Specs.
func lookup(m host.Model, d string) (name string, gpu int, ok bool) {
	address, err := pci.ParseBDF(d)
	for i, g := range m.GPUs {
		index := strconv.Itoa(g.Index)
		if isNVIDIA(g) && (d == index || strings.EqualFold(d, g.UUID) || err == nil && g.PCI != nil && g.PCI.BDF == address) {
			return index, i, true
		}
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.Instances {
			for _, ci := range gi.Compute {
				name := fmt.Sprintf("%s:%d", index, ci.Index)
				if d == name || strings.EqualFold(d, ci.UUID) || strings.EqualFold(d, fmt.Sprintf("MIG-%s/%d/%d", g.UUID, gi.ID, ci.ID)) {
					return name, i, true
				}
			}
		}
	}
	return "", 0, false
}

func isNVIDIA(g host.GPU) bool { return g.PCI == nil || g.PCI.ID.Vendor == pci.NVIDIA }

// ofAGPU matches the nodes that are one GPU's or MIG device's, and no control nodes.
var ofAGPU = regexp.MustCompile(`^/dev/(nvidia[0-9]+|nvidia-caps/.*)$`)

// filter takes from a plan what the request does not bring.
func (r Request) filter(p plan.Plan, m host.Model, none bool) plan.Plan {
	soc := m.Tegra != nil && !slices.ContainsFunc(m.GPUs, func(g host.GPU) bool { return g.PCI != nil && g.PCI.ID.Vendor == pci.NVIDIA })
	ours := func(o plan.Owners) bool { // and no other device's
		return !slices.ContainsFunc(o, func(d string) bool { return !strings.HasPrefix(d, "nvidia.com/gpu=") })
	}
	p.Nodes = keep(p.Nodes, func(n plan.Node) bool {
		if !ours(n.Owners) || soc { // the nodes of a SoC are all control nodes
			return true
		}
		return !slices.Contains(r.Omit, Nodes) && !(none && ofAGPU.MatchString(n.Path)) && r.hasNode(n.Path)
	})
	p.Mounts = keep(p.Mounts, func(x plan.Mount) bool { return soc || !ours(x.Owners) || r.hasFile(x.Target) })
	for before := -1; before != len(p.Links); { // links to links that went go too
		before = len(p.Links)
		p.Links = keep(p.Links, func(l plan.Link) bool {
			to := path.Join(path.Dir(l.Path), l.Target)
			return slices.ContainsFunc(p.Nodes, func(x plan.Node) bool { return x.Path == to }) ||
				(soc || !ours(l.Owners) || r.hasFile(l.Path)) &&
					(slices.ContainsFunc(p.Mounts, func(x plan.Mount) bool { return x.Target == to || x.Dir && strings.HasPrefix(to, x.Target+"/") }) ||
						slices.ContainsFunc(p.Links, func(x plan.Link) bool { return x.Path == to }))
		})
	}
	dirs, owners := p.LibraryDirs, p.LibraryOwners
	p.LibraryDirs, p.LibraryOwners = nil, nil
	for i, d := range dirs {
		if slices.ContainsFunc(p.Mounts, func(x plan.Mount) bool {
			return path.Dir(x.Target) == d || x.Dir && (x.Target == d || strings.HasPrefix(d, x.Target+"/"))
		}) {
			p.LibraryDirs, p.LibraryOwners = append(p.LibraryDirs, d), append(p.LibraryOwners, owners[i])
		}
	}
	p.Modes = keep(p.Modes, func(x plan.Mode) bool {
		return slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Path == x.Path || strings.HasPrefix(n.Path, x.Path+"/") })
	})
	p.Env, p.Groups, p.GroupOwners = nil, nil, nil // which are the caller's affair
	return p
}

func keep[T any](list []T, want func(T) bool) []T {
	var out []T
	for _, x := range list {
		if want(x) {
			out = append(out, x)
		}
	}
	return out
}

// fulfilled checks the requirements: for each GPU, or of the driver alone.
func (r Request) fulfilled(m host.Model, gpus []int, brand func(string) string) error {
	var driver facts
	if m.Driver != nil {
		driver = facts{"cuda": m.Driver.CUDA, "driver": m.Driver.Version}
	}
	all := []facts{}
	for _, i := range gpus {
		g := m.GPUs[i]
		f := facts{"cuda": driver["cuda"], "driver": driver["driver"], "arch": g.ComputeCap}
		if brand != nil {
			f["brand"] = brand(g.UUID)
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		all = append(all, driver)
	}
	var refusals []*refuse.Error
	for _, text := range r.Require {
		for _, f := range all {
			why, err := f.fulfil(text)
			if err != nil {
				refusals = append(refusals, refuse.New(ReasonRequirement, "--require", "%q: %v", text, err).
					WithHint("Conditions are NAME, one of = != < <= > >=, VALUE; the names are cuda, driver, arch and brand."))
			} else if why != "" {
				refusals = append(refusals, refuse.New(ReasonRequirement, "--require", "unsatisfied condition: %s", why).
					WithHint("Use a container made for an older driver, or update the driver."))
			}
			if err != nil || why != "" {
				break
			}
		}
	}
	return refuse.Join(refusals...)
}
