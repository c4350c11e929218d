package request

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/suggest"
)

// cdi selects by CDI name.
func (s *selector) cdi(onDisk []cdi.Source) {
	name := *s.req.CDI
	asked, err := name.Ask()
	if err != nil {
		for _, e := range refuse.As(err) {
			s.refuse(e.Reason, "id", e.Hint, "%s", e.Msg)
		}
		return
	}
	if name.Vendor != cdi.NVIDIA || asked.Form == cdi.FormOther || !slices.Contains([]string{cdi.ClassGPU, cdi.ClassMIG, cdi.ClassIGPU}, name.Class) {
		s.out.Names = []cdi.Name{name}
		return
	}
	switch asked.Form {
	case cdi.FormIGPU:
		s.igpuName(asked)
	case cdi.FormAll:
		s.allName(asked)
	case cdi.FormGPU:
		s.gpuName(asked)
	case cdi.FormMIG:
		s.migName(asked)
	}
	if len(s.refusals) > 0 && slices.ContainsFunc(onDisk, func(f cdi.Source) bool { return f.Spec != nil && f.Spec.Kind == name.Kind() && f.Defines(name.Device) }) {
		s.refusals, s.out = nil, Selection{Names: []cdi.Name{name}}
	}
}

// unknowable passes the name on when NVIDIA's library does not answer although
// the host has hardware for it, and refuses it when there is none.
func (s *selector) unknowable(a cdi.Asked) bool {
	if len(s.m.NVIDIAGPUs()) > 0 {
		return false
	}
	if s.m.Tegra != nil || slices.ContainsFunc(s.m.GPUs, func(g host.GPU) bool { return g.PCI != nil && g.PCI.ID.Vendor == pci.NVIDIA }) {
		first := a.Name
		if a.Name.Class != cdi.ClassGPU && len(a.Names) > 0 {
			first = a.Names[0]
		}
		s.out.Names = []cdi.Name{first}
		return true
	}
	reason, what := cdi.ReasonNotFound, "the host has no NVIDIA GPU"
	if a.Form == cdi.FormAll {
		reason = cdi.ReasonAllMatchesNone
	}
	s.refuse(reason, "id", "The host has "+s.ids()+".", "CDI device %s: %s", quote(a.Name.String()), what)
	return true
}

func (s *selector) allName(a cdi.Asked) {
	if !s.unknowable(a) {
		for i := range s.m.GPUs { // half of all is not what was asked for
			if g := &s.m.GPUs[i]; g.PCI == nil || g.PCI.ID.Vendor == pci.NVIDIA {
				s.unreadable(a, g)
			}
		}
		s.out.Names = []cdi.Name{generated(cdi.All)}
		s.out.Integrated = s.m.Tegra != nil && !s.hasDiscrete()
	}
}

// igpuName selects the GPU of a system on chip. NVIDIA's library counts it
// first; where the library is missing, the Spec made from CSV files has it as 0.
func (s *selector) igpuName(a cdi.Asked) {
	i := slices.IndexFunc(s.m.GPUs, func(g host.GPU) bool { return s.m.Integrated(g) })
	if i < 0 {
		s.refuse(cdi.ReasonNoIntegratedGPU, "id", s.discreteHint(), "CDI device %s: the host has no integrated GPU", quote(a.Name.String()))
		return
	}
	g := &s.m.GPUs[i]
	if a.UUID != "" && g.UUID != "" && bare(a.UUID) != bare(g.UUID) {
		s.refuse(cdi.ReasonNotFound, "id", "Write nvidia.com/igpu=0.", "CDI device %s: the integrated GPU has the UUID %s", quote(a.Name.String()), g.UUID)
		return
	}
	s.out.Integrated = true
	s.out.Names = []cdi.Name{generated(strconv.Itoa(max(0, g.Index)))}
}

func (s *selector) discreteHint() string {
	if gpus := s.m.NVIDIAGPUs(); len(gpus) > 0 {
		return "For a discrete GPU write " + indexName(&gpus[0]) + "."
	}
	return "The host has " + s.ids() + "."
}

func (s *selector) gpuName(a cdi.Asked) {
	if s.unknowable(a) {
		return
	}
	for _, g := range s.m.NVIDIAGPUs() {
		if a.GPU != g.Index && (a.UUID == "" || bare(a.UUID) != bare(g.UUID)) {
			continue
		}
		switch {
		case s.unreadable(a, &g):
		case g.MIG == nil:
			s.out.Names = []cdi.Name{generated(strconv.Itoa(g.Index))}
			s.out.Integrated = s.m.Integrated(g)
		case len(g.MIG.Instances) == 0:
			s.refuse(ReasonMIGEmpty, "id", "Create MIG devices with nvidia-smi mig -cgi, or turn MIG mode off.", "CDI device %s: the GPU is in MIG mode and has no MIG device", quote(a.Name.String()))
		default:
			s.refuse(ReasonMIGEnabled, "id", "Write gputype=mig with "+s.migNames(&g)+".", "CDI device %s: the GPU is in MIG mode and can only be had as MIG devices", quote(a.Name.String()))
		}
		return
	}
	if s.lost(a) {
		return
	}
	s.refuse(cdi.ReasonNotFound, "id", s.gpusHint(), "CDI device %s: the host has no such GPU", quote(a.Name.String()))
}

// lost passes on the name of a GPU that does not answer NVIDIA's library, or of a
// MIG device of one: the Spec says why it is withheld.
func (s *selector) lost(a cdi.Asked) bool {
	if len(s.m.Lost) == 0 {
		return false
	}
	silent := func(g host.GPU) bool {
		return g.Index < 0 && g.PCI != nil && g.PCI.Driver == "nvidia" && g.UUID != "" && bare(g.UUID) == bare(a.UUID)
	}
	device := a.UUID
	switch {
	case slices.Contains(s.m.Lost, a.GPU) && a.Form == cdi.FormMIG:
		device = fmt.Sprintf("%d:%d", a.GPU, a.MIG)
	case slices.Contains(s.m.Lost, a.GPU):
		device = strconv.Itoa(a.GPU)
	case a.UUID == "" || !slices.ContainsFunc(s.m.GPUs, silent):
		return false
	}
	s.out.Names = []cdi.Name{generated(device)}
	return true
}

// gpusHint lists the full GPUs and MIG devices that can be had.
func (s *selector) gpusHint() string {
	var names []string
	for _, g := range s.m.NVIDIAGPUs() {
		if g.MIG == nil {
			names = append(names, indexName(&g))
			continue
		}
		for _, ci := range computes(&g) {
			names = append(names, migOf(&g, ci.ComputeInstance).String())
		}
	}
	if len(names) == 0 {
		return "All GPUs of the host are in MIG mode, and no MIG device has been created."
	}
	return "The host has " + suggest.List(names) + "."
}

// bare returns a UUID without its prefix: Orin's has none.
func bare(uuid string) string { return strings.ToLower(strings.TrimPrefix(uuid, "GPU-")) }
