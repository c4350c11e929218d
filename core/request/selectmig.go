package request

import (
	"fmt"
	"slices"
	"strconv"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/suggest"
)

// migName selects a MIG device by CDI name.
func (s *selector) migName(a cdi.Asked) {
	if s.noMIGHere("id") || s.unknowable(a) {
		return
	}
	for _, g := range s.m.NVIDIAGPUs() {
		if a.GPU == g.Index && g.MIG == nil {
			s.refuse(ReasonMIGOff, "id", s.migsHint(), "CDI device %s: GPU %d is not in MIG mode", quote(a.Name.String()), g.Index)
			return
		}
		if a.GPU == g.Index && s.unreadable(a, &g) {
			return
		}
		for _, ci := range computes(&g) {
			if a.UUID != "" && a.UUID == ci.UUID || a.GPU == g.Index && a.MIG == ci.Index {
				if s.unreadable(a, &g) {
					return
				}
				s.out.Names = []cdi.Name{migOf(&g, ci.ComputeInstance)}
				return
			}
		}
	}
	if s.lost(a) {
		return
	}
	s.refuse(cdi.ReasonNotFound, "id", s.migsHint(), "CDI device %s: the host has no such MIG device", quote(a.Name.String()))
}

// mig selects a MIG device by the options mig.uuid or mig.gi and mig.ci. The
// options for whole GPUs narrow down on which GPU it is.
func (s *selector) mig() {
	option := "mig.uuid"
	if s.req.MIG == nil {
		s.refuse(ReasonMissingOption, "gputype", "Write mig.uuid, or mig.gi and mig.ci.", "mig needs to know which MIG device")
		return
	}
	if s.req.MIG.UUID == "" && s.req.MIG.GPU == "" {
		option = "mig.gi"
	}
	if s.noMIGHere(option) {
		return
	}
	match, parent, _ := s.matcher()
	var gpus []host.GPU
	matched := slices.ContainsFunc(s.m.GPUs, func(g host.GPU) bool { return match(&g) })
	for _, g := range s.m.NVIDIAGPUs() {
		if !match(&g) {
			continue
		}
		if g.MIG != nil && g.Problem == "" && (s.req.MIG.GPU == "" || bare(s.req.MIG.GPU) == bare(g.UUID)) {
			gpus = append(gpus, g)
		}
	}
	switch {
	case !matched && parent != "gputype":
		s.noneMatched(parent)
	case len(gpus) == 0 && s.req.MIG.GPU != "":
		s.refuse(cdi.ReasonNotFound, option, s.migsHint(), "no selected GPU in MIG mode has the UUID %s", s.req.MIG.GPU)
	case len(gpus) == 0:
		s.refuse(ReasonMIGOff, option, "Turn MIG mode on with nvidia-smi -mig 1, and create MIG devices.", "no selected GPU is in MIG mode")
	case s.req.MIG.UUID == "" && len(gpus) > 1:
		s.refuse(ReasonAmbiguous, option, "Add pci=<address> of one of "+addresses(gpus)+", or use mig.uuid or a CDI name.",
			"more than one GPU matches: %d are in MIG mode, and GPU instance ids are those of one GPU", len(gpus))
	default:
		s.migIn(gpus, option)
	}
}

// migIn looks for the MIG device among the selected GPUs.
func (s *selector) migIn(gpus []host.GPU, option string) {
	want := s.req.MIG
	for _, g := range gpus {
		for _, ci := range computes(&g) {
			if want.UUID != "" && want.UUID == ci.UUID || want.UUID == "" && want.GI == ci.gi && want.CI == ci.ID {
				s.out.Names = []cdi.Name{migOf(&g, ci.ComputeInstance)}
				return
			}
		}
	}
	what := "MIG device " + want.UUID
	if want.UUID == "" {
		what = fmt.Sprintf("GPU instance %d with compute instance %d", want.GI, want.CI)
	}
	s.refuse(cdi.ReasonNotFound, option, s.migsHint(), "the selected GPUs have no %s", what)
}

// noMIGHere refuses MIG devices of a system on chip (mig-on-thor-csv): its Spec
// is made from CSV files.
func (s *selector) noMIGHere(option string) bool {
	if s.m.Tegra != nil {
		s.refuse(ReasonMIGInCSV, option, "Write id=nvidia.com/igpu=0 with gputype=physical.", "MIG is not supported in csv mode, which Tegra systems use")
	}
	return s.m.Tegra != nil
}

// A compute is a compute instance with the id of its GPU instance.
type compute struct {
	host.ComputeInstance
	gi int
}

func computes(g *host.GPU) []compute {
	if g.MIG == nil {
		return nil
	}
	var out []compute
	for _, gi := range g.MIG.Instances {
		for _, ci := range gi.Compute {
			out = append(out, compute{ci, gi.ID})
		}
	}
	return out
}

// migOf names a MIG device as the generated Spec does.
func migOf(g *host.GPU, ci host.ComputeInstance) cdi.Name {
	return generated(strconv.Itoa(g.Index) + ":" + strconv.Itoa(ci.Index))
}

// migNames lists the MIG devices of one GPU as CDI names for gputype=mig.
func (s *selector) migNames(g *host.GPU) string {
	var names []string
	for _, ci := range computes(g) {
		names = append(names, "nvidia.com/mig="+strconv.Itoa(g.Index)+":"+strconv.Itoa(ci.Index))
	}
	if len(names) == 0 {
		return "a MIG device, once one has been created"
	}
	return "id=" + suggest.List(names)
}

// migsHint lists every MIG device of the host with all that selects it.
func (s *selector) migsHint() string {
	var all []string
	for _, g := range s.m.NVIDIAGPUs() {
		for _, ci := range computes(&g) {
			all = append(all, fmt.Sprintf("nvidia.com/mig=%d:%d (mig.gi=%d mig.ci=%d of %s)", g.Index, ci.Index, ci.gi, ci.ID, where(&g)))
		}
	}
	if len(all) == 0 {
		return "The host has no MIG device" + s.whereToMakeMIGs() + "."
	}
	return "The MIG devices are " + suggest.List(all) + "."
}

// whereToMakeMIGs names the GPUs that are in MIG mode and empty, as after a
// reboot, which no MIG device outlives (bug mig-enabled-empty).
func (s *selector) whereToMakeMIGs() string {
	var on []string
	for _, g := range s.m.NVIDIAGPUs() {
		if g.MIG != nil && len(computes(&g)) == 0 {
			on = append(on, strconv.Itoa(g.Index))
		}
	}
	if len(on) == 0 {
		return ""
	}
	return "; create one with nvidia-smi mig -cgi PROFILE -C on GPU " + suggest.List(on)
}

func addresses(gpus []host.GPU) string {
	var all []string
	for i := range gpus {
		all = append(all, where(&gpus[i]))
	}
	return suggest.List(all)
}
