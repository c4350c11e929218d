package request

import (
	"fmt"
	"slices"
	"strconv"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
	"gpurig/core/suggest"
)

// Select finds what a Request means on the host m. See SelectFrom.
func Select(req Request, m host.Model) (Selection, error) { return SelectFrom(req, m, nil) }

// SelectFrom finds what a Request means on the host m, which has these Specs on
// disk.
//
// NVIDIA's names are looked up among the GPUs of m and come back by index. A name
// that m does not explain is left as it is if one of the Specs defines it, and
// is refused otherwise; names of other vendors are left as they are for
// cdi.Resolve to find. While NVIDIA's library does not answer, although there is
// hardware for it, names are not looked up: making the Spec says why.
//
// Without CDI, every GPU that the options match is selected: all of the host
// when there are none. The console of a management controller, and a GPU that
// its driver does not run, are left out with a warning unless an option names
// that very GPU; then the first is passed with a warning, the second refused.
//
// The error joins refusals; there is no Selection then.
func SelectFrom(req Request, m host.Model, onDisk []cdi.Source) (Selection, error) {
	s := &selector{req: req, m: &m}
	switch {
	case req.CDI != nil:
		s.cdi(onDisk)
	case req.Type == MIG:
		s.mig()
	default:
		s.physical()
	}
	if len(s.refusals) > 0 {
		return Selection{}, refuse.Join(s.refusals...)
	}
	return s.out, nil
}

type selector struct {
	req      Request
	m        *host.Model
	out      Selection
	refusals []*refuse.Error
}

func (s *selector) refuse(r refuse.Reason, option, hint, format string, args ...any) {
	s.refusals = append(s.refusals, refuse.New(r, option, format, args...).WithHint("%s", hint))
}

func (s *selector) warn(r refuse.Reason, option, hint, format string, args ...any) {
	s.out.Warnings = append(s.out.Warnings, Warning{Option: option, Reason: r, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// physical selects GPUs by card, address or ids, or all of them.
func (s *selector) physical() {
	match, option, named := s.matcher()
	var matched, usable []int
	for i := range s.m.GPUs {
		g := &s.m.GPUs[i]
		if !match(g) {
			continue
		}
		if isBMC(g) && option == "gputype" {
			s.warn(ReasonBMC, option, "Name it by pci or id if it is wanted.", "%s is the console of the server's management controller and is left out", cdi.GPUName(*g))
			continue
		}
		matched = append(matched, i)
		if s.usable(g, option, named) {
			usable = append(usable, i)
		}
	}
	if len(s.refusals) > 0 {
		return
	}
	switch {
	case len(matched) == 0:
		s.noneMatched(option)
	case len(usable) == 0:
		i := slices.IndexFunc(s.out.Warnings, func(w Warning) bool { return w.Reason != ReasonBMC })
		first := s.out.Warnings[i]
		s.refuse(first.Reason, option, first.Hint, "none of the GPUs can be passed: %s", first.Msg)
	default:
		s.out.GPUs = usable
	}
}

// matcher returns what the options select, the option to blame when it is
// nothing, and whether they name one very GPU.
func (s *selector) matcher() (match func(*host.GPU) bool, option string, named bool) {
	r := s.req
	switch {
	case r.Card != nil:
		return func(g *host.GPU) bool { return g.Card == *r.Card }, "id", true
	case r.PCI != nil:
		return func(g *host.GPU) bool { return g.PCI != nil && g.PCI.BDF == *r.PCI && !s.m.Integrated(*g) }, "pci", true
	case r.Vendor != nil || r.Product != nil:
		option = "vendorid"
		if r.Vendor == nil {
			option = "productid"
		}
		return func(g *host.GPU) bool {
			return g.PCI != nil && (r.Vendor == nil || g.PCI.ID.Vendor == *r.Vendor) && (r.Product == nil || g.PCI.ID.Device == *r.Product)
		}, option, false
	}
	return func(*host.GPU) bool { return true }, "gputype", false
}

// usable reports whether the GPU can be passed. A named GPU that cannot is
// refused, another one warned of.
func (s *selector) usable(g *host.GPU, option string, named bool) bool {
	if isBMC(g) {
		s.warn(ReasonBMC, option, s.nvidiaHint(), "%s is the console of the server's management controller; no NVIDIA node belongs to it", cdi.GPUName(*g))
	}
	var reason refuse.Reason
	var why, hint string
	switch {
	case g.Problem != "":
		reason, why, hint = ReasonUnreadable, "cannot be used: "+g.Problem, unreadableHint
	case s.req.VM && s.m.Integrated(*g):
		reason, why, hint = ReasonIGPUOnVM, "is an integrated GPU, which a virtual machine cannot have: it is a part of the system on chip", "Give it to a container."
	case s.req.VM:
		return true
	case g.PCI != nil && g.PCI.Driver == "":
		reason, why, hint = ReasonNoDriver, "has no driver: driver not loaded", "Load the GPU's driver, for NVIDIA with modprobe nvidia."
	case g.PCI != nil && g.PCI.Driver == "vfio-pci":
		reason, why, hint = ReasonOtherDriver, "is bound to vfio-pci, which keeps it for a virtual machine", "Bind it to its own driver again."
	case len(cdi.NodeEdits(*s.m, *g).Edits.DeviceNodes) == 0 && s.m.Integrated(*g):
		reason, why, hint = ReasonNoNode, "is an integrated GPU, whose nodes and libraries only CDI passes", "Write id=nvidia.com/igpu=0."
	case len(cdi.NodeEdits(*s.m, *g).Edits.DeviceNodes) == 0:
		reason, why, hint = ReasonNoNode, "has no device node in /dev", "Make the driver create its nodes, for NVIDIA with nvidia-modprobe -c 0 -u."
	default:
		s.littleUse(g, option)
		return true
	}
	if named {
		s.refuse(reason, option, hint, "%s %s", cdi.GPUName(*g), why)
	} else {
		s.warn(reason, option, hint, "%s %s, and is left out", cdi.GPUName(*g), why)
	}
	return false
}

const unreadableHint = "Look at the file on the host, and at the kernel's log; what the host has besides can be passed."

// unreadable refuses one of NVIDIA's GPUs, by name, of which the host says what
// could not be understood.
func (s *selector) unreadable(a cdi.Asked, g *host.GPU) bool {
	if g.Problem != "" {
		s.refuse(ReasonUnreadable, "id", unreadableHint, "CDI device %s: %s cannot be used: %s", quote(a.Name.String()), cdi.GPUName(*g), g.Problem)
	}
	return g.Problem != ""
}

// littleUse warns of GPUs that nodes alone do not make useful.
func (s *selector) littleUse(g *host.GPU, option string) {
	switch {
	case s.m.Integrated(*g):
		s.warn(ReasonNodesOnly, option, "Write id=nvidia.com/igpu=0.", "%s is an integrated GPU: without CDI the container gets some of its nodes and no libraries", cdi.GPUName(*g))
	case g.MIG != nil:
		s.warn(ReasonMIGEnabled, option, "Write gputype=mig with "+s.migNames(g)+".", "%s is in MIG mode: without a MIG device nothing can compute on it", cdi.GPUName(*g))
	}
}

func (s *selector) noneMatched(option string) {
	switch {
	case s.req.Card != nil:
		s.noCard(*s.req.Card)
	case s.req.PCI != nil:
		s.noPCI(*s.req.PCI)
	case option == "gputype":
		s.refuse(cdi.ReasonAllMatchesNone, option, "Look with lspci whether the GPU is there.", "the host has no GPU")
	default:
		s.refuse(cdi.ReasonNotFound, option, "The host has "+s.ids()+".", "no GPU has %s", s.wantedIDs())
	}
}

// noCard says which cards there are, and which GPU may have been meant: its
// other numbers are no card numbers (dri-index-not-minor).
func (s *selector) noCard(n int) {
	var cards []string
	meant := ""
	for i := range s.m.GPUs {
		g := &s.m.GPUs[i]
		if g.Card >= 0 {
			cards = append(cards, fmt.Sprintf("%d (%s)", g.Card, where(g)))
		}
		if g.Index == n || g.Minor == n {
			what := "NVIDIA minor"
			if g.Index == n {
				what = "NVML index"
			}
			meant = fmt.Sprintf(" The GPU with %s %d has %s; it is id=%s.", what, n, cardOf(g), indexName(g))
		}
	}
	slices.Sort(cards)
	hint := "The host has no DRM card; select by pci or by CDI name."
	if len(cards) > 0 {
		hint = "The DRM cards are " + suggest.List(cards) + "."
	}
	s.refuse(ReasonNotACard, "id", hint+meant, "no GPU has the DRM card %d", n)
}

func cardOf(g *host.GPU) string {
	if g.Card < 0 {
		return "no DRM card"
	}
	return "DRM card " + strconv.Itoa(g.Card)
}

func indexName(g *host.GPU) string {
	if g.Index < 0 {
		return "nvidia.com/gpu=<index>"
	}
	return generated(strconv.Itoa(g.Index)).String()
}

func (s *selector) noPCI(b pci.BDF) {
	for i := range s.m.GPUs {
		if g := &s.m.GPUs[i]; s.m.Integrated(*g) && (g.PCI != nil && g.PCI.BDF == b || !s.hasDiscrete()) {
			s.refuse(ReasonIGPUByPCI, "pci", "Write id=nvidia.com/igpu=0.", "an integrated GPU cannot be passed by PCI address")
			return
		}
	}
	what := "no GPU has the PCI address " + b.String()
	for _, f := range slices.Concat(s.m.Companions, s.m.NVSwitches) {
		if f.BDF == b {
			what = b.String() + " is no GPU but a function of class " + f.Class.String()
		}
	}
	s.refuse(cdi.ReasonNotFound, "pci", "The host has "+s.ids()+".", "%s", what)
}

// hasDiscrete reports whether the host has a GPU that can be passed by PCI
// address.
func (s *selector) hasDiscrete() bool {
	return slices.ContainsFunc(s.m.GPUs, func(g host.GPU) bool { return g.PCI != nil && !s.m.Integrated(g) && !isBMC(&g) })
}

func (s *selector) wantedIDs() string {
	switch r := s.req; {
	case r.Product == nil:
		return fmt.Sprintf("vendor %04x", *r.Vendor)
	case r.Vendor == nil:
		return fmt.Sprintf("product %04x", *r.Product)
	default:
		return fmt.Sprintf("vendor %04x and product %04x", *r.Vendor, *r.Product)
	}
}

// ids lists the GPUs by address and ids.
func (s *selector) ids() string {
	var all []string
	for i := range s.m.GPUs {
		g := &s.m.GPUs[i]
		text := where(g)
		if g.PCI != nil {
			text += " (" + g.PCI.ID.String() + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no GPU"
	}
	return suggest.List(all)
}

func (s *selector) nvidiaHint() string {
	for _, g := range s.m.NVIDIAGPUs() {
		if g.Card >= 0 {
			return fmt.Sprintf("The first NVIDIA GPU is id=%d, or id=%s.", g.Card, indexName(&g))
		}
		return fmt.Sprintf("The first NVIDIA GPU is id=%s.", indexName(&g))
	}
	return ""
}

// where names a GPU by its place.
func where(g *host.GPU) string {
	if g.PCI != nil {
		return g.PCI.BDF.String()
	}
	return g.Platform
}

// isBMC reports whether g is the console of a management controller: graphics by
// ASPEED or Matrox, which servers have beside their GPUs (bmc-gpu-is-card0).
func isBMC(g *host.GPU) bool {
	const aspeed, matrox = 0x1a03, 0x102b
	return g.PCI != nil && (g.PCI.ID.Vendor == aspeed || g.PCI.ID.Vendor == matrox)
}

// generated returns a name of the Spec that is generated for NVIDIA's GPUs.
func generated(device string) cdi.Name {
	return cdi.Name{Vendor: cdi.NVIDIA, Class: cdi.ClassGPU, Device: device}
}
