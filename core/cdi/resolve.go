package cdi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/refuse"
	"gpurig/core/suggest"
)

// Generated is the Where and the priority above all directories of a Spec that
// was generated for the host just now.
const (
	Generated         = "generated"
	PriorityGenerated = 1 << 16
)

// MaxAsked is how many devices may be asked for at once.
const MaxAsked = 4096

// maxNear is how many names that are not there are compared with all that are.
const maxNear = 10

// A Source is a Spec and where it came from.
//
// A device is taken from the Spec of highest priority that defines it; two of
// equal priority are in conflict.
type Source struct {
	Spec     *specs.Spec `json:"-" yaml:"-"`
	Where    string      `json:"where" yaml:"where"`                       // the file's path, or Generated
	SHA256   string      `json:"sha256,omitempty" yaml:"sha256,omitempty"` // of the file's bytes, hexadecimal; empty: not from a file
	Priority int         `json:"priority" yaml:"priority"`                 // position of the directory, rising

	// Withheld are devices that this source knows and does not offer, by device
	// name, and why. Asking for one is refused with that very refusal; a Spec of
	// lower priority does not stand in.
	Withheld map[string]*refuse.Error `json:"-" yaml:"-"`
}

// FromHost makes a Source of a Spec that was generated for the host.
func FromHost(spec *specs.Spec) Source {
	return Source{Spec: spec, Where: Generated, Priority: PriorityGenerated}
}

// Defines reports whether the Spec has a device of that name.
func (s Source) Defines(device string) bool {
	return slices.ContainsFunc(s.Spec.Devices, func(d specs.Device) bool { return d.Name == device })
}

// A Resolution is what Resolve found.
type Resolution struct {
	Edits   []Edits  `json:"-" yaml:"-"`
	Devices []Device `json:"devices" yaml:"devices"` // in the order of asking, each once
	Merged  []Merged `json:"merged,omitempty" yaml:"merged,omitempty"`
}

// A Device is one device found.
type Device struct {
	Asked  Name   `json:"asked" yaml:"asked"`
	Name   Name   `json:"name" yaml:"name"` // as its Spec has it
	Where  string `json:"where" yaml:"where"`
	SHA256 string `json:"sha256,omitempty" yaml:"sha256,omitempty"`
}

// A Merged says that a name asked for is the same device as an earlier one.
type Merged struct {
	Asked Name `json:"asked" yaml:"asked"`
	As    Name `json:"as" yaml:"as"`
}

// Resolve returns the container edits of the named devices: those of the whole
// Spec once, before the first device of the Spec, then each device's, in the
// order of asking. The edits are those of the Specs themselves, not copies.
//
// A name that some Spec has as it is written means that device; else the names
// of NVIDIA's classes mean what Ask says. Two names of one device count once.
// The error joins one *refuse.Error for each name that cannot be had, and there
// are no edits then. A device that is withheld is refused as its Source says.
func Resolve(sources []Source, names []Name) ([]Edits, error) {
	r, err := ResolveAll(sources, names)
	return r.Edits, err
}

// ResolveAll is Resolve and says as well what was found where.
func ResolveAll(sources []Source, names []Name) (Resolution, error) {
	if len(names) == 0 {
		return Resolution{}, refuse.New(ReasonNoDeviceAsked, "", "no CDI device is asked for")
	}
	if len(names) > MaxAsked {
		return Resolution{}, refuse.New(ReasonTooManyDevices, "", "%d CDI devices are asked for, at most %d are allowed", len(names), MaxAsked)
	}
	r := &resolver{sources: sources, kinds: map[string]map[string][]hit{}, sorted: map[string][]string{}, same: map[hit]string{}}
	var refusals []*refuse.Error
	var hits []hit
	for _, n := range names {
		h, e := r.find(n)
		if e != nil {
			refusals = append(refusals, e)
			continue
		}
		hits = append(hits, h)
	}
	refusals = append(refusals, allAndOne(hits)...)
	if len(refusals) > 0 {
		return Resolution{}, refuse.Join(refusals...)
	}
	return r.resolution(hits), nil
}

// A hit is one device of one source.
type hit struct {
	asked Name
	form  Form
	src   int
	dev   int
}

type resolver struct {
	sources []Source
	kinds   map[string]map[string][]hit // kind, device name: the hits of highest priority
	sorted  map[string][]string         // kind: the names of its devices
	near    int                         // how often near names were looked for
	same    map[hit]string              // see sameness
}

// devices returns the devices of a kind by name. It looks at each Spec of that
// kind once, however many names are asked for.
func (r *resolver) devices(kind string) map[string][]hit {
	if devs, ok := r.kinds[kind]; ok {
		return devs
	}
	devs := map[string][]hit{}
	for i, s := range r.sources {
		if s.Spec == nil || s.Spec.Kind != kind {
			continue
		}
		for j := range s.Spec.Devices {
			name := s.Spec.Devices[j].Name
			have := devs[name]
			switch {
			case len(have) == 0 || s.Priority > r.sources[have[0].src].Priority:
				devs[name] = []hit{{src: i, dev: j}}
			case s.Priority == r.sources[have[0].src].Priority:
				devs[name] = append(have, hit{src: i, dev: j})
			}
		}
	}
	r.kinds[kind] = devs
	return devs
}

func (r *resolver) find(n Name) (hit, *refuse.Error) {
	asked, err := n.Ask()
	if err != nil {
		return hit{}, refuse.As(err)[0]
	}
	for i, name := range append([]Name{n}, asked.Names...) {
		hits := r.devices(name.Kind())[name.Device]
		prio := -1
		if len(hits) > 0 {
			prio = r.sources[hits[0].src].Priority
		}
		if e := r.withheld(name, prio); e != nil {
			return hit{}, e
		}
		if len(hits) == 0 {
			continue
		}
		if len(hits) > 1 {
			return hit{}, r.conflict(name, hits)
		}
		h := hits[0]
		h.asked, h.form = n, asked.Form
		d := &r.sources[h.src].Spec.Devices[h.dev]
		if asked.Form == FormIGPU && i > 0 && !integrated(&d.ContainerEdits) {
			return hit{}, refuse.New(ReasonNoIntegratedGPU, "", "CDI device %s: %s has no nodes of an integrated GPU", quote(n.String()), name).
				WithHint("For a discrete GPU write %s.", name)
		}
		if asked.Form == FormAll && noEdits(&d.ContainerEdits) {
			return hit{}, refuse.New(ReasonAllMatchesNone, "", "CDI device %s: there is no device of the kind", quote(n.String()))
		}
		return h, nil
	}
	return hit{}, r.notFound(n, asked.Form)
}

// integrated reports whether edits have a node that only systems on chip have.
func integrated(e *specs.ContainerEdits) bool {
	return slices.ContainsFunc(e.DeviceNodes, func(n *specs.DeviceNode) bool {
		return n != nil && (n.Path == "/dev/nvmap" || strings.HasPrefix(n.Path, "/dev/nvgpu/") || strings.HasPrefix(n.Path, "/dev/nvhost-"))
	})
}

func (r *resolver) conflict(n Name, hits []hit) *refuse.Error {
	var files []string
	for _, h := range hits {
		files = append(files, r.sources[h.src].Where)
	}
	return refuse.New(ReasonDeviceConflict, "", "CDI device %s is defined by %s, none of which comes before the others", quote(n.String()), strings.Join(files, " and ")).
		WithHint("Remove it from all files but one, or put the file that shall win into a directory of higher priority.")
}

func (r *resolver) notFound(n Name, form Form) *refuse.Error {
	reason := ReasonNotFound
	if form == FormAll {
		reason = ReasonAllMatchesNone
	}
	kinds := r.allKinds()
	names := r.names(n.Kind())
	if len(names) == 0 && n.Vendor == NVIDIA && (n.Class == ClassMIG || n.Class == ClassIGPU) {
		names = r.names(NVIDIA + "/" + ClassGPU)
	}
	if len(names) == 0 {
		hint := "There is no CDI Spec at all: generate one, or put one into a Spec directory."
		if len(kinds) > 0 {
			hint = "The kinds are " + suggest.List(kinds) + "."
		}
		return refuse.New(reason, "", "CDI device %s: no CDI Spec has the kind %s", quote(n.String()), n.Kind()).WithHint("%s", hint)
	}
	hint := "The Specs define " + suggest.List(names) + "."
	if r.near++; r.near <= maxNear {
		if near := suggest.Nearest(n.Device, names, 3); len(near) > 0 {
			hint = "Similar names are " + suggest.List(near) + "; " + "the Specs define " + suggest.List(names) + "."
		}
	}
	return refuse.New(reason, "", "CDI device %s is in no CDI Spec", quote(n.String())).WithHint("%s", hint)
}

// names returns the names of a kind's devices in natural order.
func (r *resolver) names(kind string) []string {
	names, ok := r.sorted[kind]
	if !ok {
		names = slices.SortedFunc(maps.Keys(r.devices(kind)), natural)
		r.sorted[kind] = names
	}
	return names
}

// natural orders "2" before "10" and both before "GPU-…".
func natural(a, b string) int {
	if x, okA := index(a, ""); okA {
		if y, okB := index(b, ""); okB {
			return x - y
		}
	}
	if len(a) != len(b) && strings.Contains(a, ":") && strings.Contains(b, ":") {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func (r *resolver) allKinds() []string {
	var kinds []string
	for _, s := range r.sources {
		if s.Spec != nil && len(s.Spec.Devices) > 0 {
			kinds = append(kinds, s.Spec.Kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// allAndOne refuses all devices of a Spec's kind together with a single one:
// taking the single one away again would take it out of "all".
func allAndOne(hits []hit) []*refuse.Error {
	var out []*refuse.Error
	kind := func(h hit) string {
		if h.asked.Vendor == NVIDIA && (h.asked.Class == ClassMIG || h.asked.Class == ClassIGPU) {
			return NVIDIA + "/" + ClassGPU
		}
		return h.asked.Kind()
	}
	all := map[string]Name{}
	for _, h := range hits {
		if h.form == FormAll {
			all[kind(h)] = h.asked
		}
	}
	for _, h := range hits {
		if a, ok := all[kind(h)]; ok && h.form != FormAll {
			out = append(out, refuse.New(ReasonAllAndOne, "", "CDI device %s is asked for together with %s, which has it already", quote(h.asked.String()), a).
				WithHint("Ask for all devices or for single ones."))
		}
	}
	return out
}

func (r *resolver) resolution(hits []hit) Resolution {
	var out Resolution
	wide := map[int]bool{}
	first := map[string]Name{} // source and edits: the name that has them
	for _, h := range hits {
		src := r.sources[h.src]
		dev := &src.Spec.Devices[h.dev]
		name := nameIn(src.Spec.Kind, dev.Name)
		key := r.sameness(h, len(hits) > 1)
		if as, again := first[key]; again {
			out.Merged = append(out.Merged, Merged{Asked: h.asked, As: as})
			continue
		}
		first[key] = name
		if !wide[h.src] {
			wide[h.src] = true
			out.Edits = append(out.Edits, Edits{Kind: src.Spec.Kind, Spec: src.Where, Edits: &src.Spec.ContainerEdits})
		}
		out.Edits = append(out.Edits, Edits{Device: name.String(), Kind: src.Spec.Kind, Spec: src.Where, Edits: &dev.ContainerEdits})
		out.Devices = append(out.Devices, Device{Asked: h.asked, Name: name, Where: src.Where, SHA256: src.SHA256})
	}
	return out
}

// sameness returns a text that is equal for two hits of one device. A Spec names
// a device by index and by UUID and repeats its edits, so equal edits in one
// Spec are one device: nothing in a container could tell them apart.
func (r *resolver) sameness(h hit, compare bool) string {
	if !compare {
		return ""
	}
	at := hit{src: h.src, dev: h.dev}
	if _, known := r.same[at]; !known {
		edits, err := json.Marshal(r.sources[h.src].Spec.Devices[h.dev].ContainerEdits)
		if err != nil { // cannot be: edits are texts and numbers
			edits = fmt.Append(nil, "device ", h.dev)
		}
		r.same[at] = fmt.Sprintf("%d %s", h.src, edits)
	}
	return r.same[at]
}

func nameIn(kind, dev string) Name {
	vendor, class, _ := strings.Cut(kind, "/")
	return Name{Vendor: vendor, Class: class, Device: dev}
}
