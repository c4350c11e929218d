package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/plan"
	"gpurig/core/policy"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/core/translate"
	"gpurig/core/vfio"
	"gpurig/runner/verdict"
	"gpurig/scenarios"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// asked is what one container asks the product for.
type asked struct {
	devices  map[string]scenarios.Device
	strict   bool
	idmap    []plan.IDMap
	policy   policy.Policy
	instance string              // name of a virtual machine; empty: it is a container
	busy     map[string][]string // who has which nodes of the host, for a virtual machine
}

// walked is how far the product came from there to a plan, and all that it made
// on the way. err is its refusal, at where it came.
type walked struct {
	sources  []cdi.Source
	names    []string // of all devices in sources, sorted
	warnings []verdict.Warning
	edits    []cdi.Edits
	owns     map[string][]string // device of the container to devices of the plan
	found    []cdi.Device        // in the Specs
	unnamed  string              // why found and names are not all that is asked for; empty: they are
	plan     *plan.Plan          // of a container
	machine  *vfio.Plan          // of a virtual machine
	err      error
	at       verdict.Station

	specSum, planSum func() string // digests of sources and plan; nil where there are none
}

// wish is one device: what it means on this host.
type wish struct {
	name string
	req  request.Request
	sel  request.Selection
}

// walk goes the product's way from the options to a plan, once for each machine
// and request. The error is no refusal: the harness or the machine failed.
func (e *engine) walk(ctx context.Context, m *machine, a asked) (walked, error) {
	return m.walks.get(ctx, a.key(), func() (walked, error) {
		w, err := e.walkAnew(ctx, m, a)
		w.mark()
		return w, err
	})
}

// key is equal for equal requests.
func (a asked) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q %q %v %+q", a.strict, a.instance, a.busy, a.idmap, a.policy)
	for _, name := range slices.Sorted(maps.Keys(a.devices)) {
		fmt.Fprintf(&b, "\n%q %q", name, optionsOf(a.devices[name]).Map())
	}
	return b.String()
}

// mark makes the digests, when they are first asked for.
func (w *walked) mark() {
	w.specSum, w.planSum = nil, nil
	if sources := w.sources; len(sources) > 0 {
		w.specSum = sync.OnceValue(func() string {
			all := make([]any, len(sources))
			for i := range sources {
				all[i] = sources[i].Spec
			}
			return digest(all)
		})
	}
	switch {
	case w.plan != nil:
		p := w.plan
		w.planSum = sync.OnceValue(func() string { return digest(p) })
	case w.machine != nil:
		p := w.machine
		w.planSum = sync.OnceValue(func() string { return digest(p) })
	}
}

func (e *engine) walkAnew(ctx context.Context, m *machine, a asked) (walked, error) {
	w := walked{plan: &plan.Plan{}}
	disk, err := m.disk()
	if err != nil {
		return walked{}, fmt.Errorf("host: %w", err)
	}
	wishes := w.wishes(m, a, disk)
	if a.instance != "" && w.err == nil {
		return w.toMachine(m, a, wishes)
	}
	if w.err != nil || len(wishes) == 0 {
		return w.done(), nil
	}
	if err := e.gather(ctx, m, &w, wishes, disk); err != nil {
		return walked{}, err
	}
	if w.err != nil {
		return w.done(), nil
	}
	if err := w.resolve(m, wishes, disk); err != nil {
		w.refused(verdict.Spec, err)
		return w.done(), nil
	}
	root, err := m.root()
	if err != nil {
		return walked{}, err
	}
	opts := translate.Options{IDMap: a.idmap, Strict: a.strict, Policy: a.policy}
	if u := m.model.Userspace; u != nil {
		opts.DriverRoot = u.DriverRoot
	}
	edits := w.owners(wishes, &opts)
	w.unnamed = unnamed(wishes)
	p, err := translate.Edits(root, edits, opts)
	if err != nil {
		if len(refuse.As(err)) == 0 {
			return walked{}, fmt.Errorf("plan: %w", err)
		}
		w.refused(verdict.Plan, err)
		return w.done(), nil
	}
	w.plan = &p
	return w, nil
}

// toMachine plans for a virtual machine, which has no Spec and no edits.
func (w walked) toMachine(m *machine, a asked, wishes []wish) (walked, error) {
	w.plan = nil
	root, err := m.root()
	if err != nil {
		return walked{}, err
	}
	var asks []vfio.Ask
	for _, x := range wishes {
		asks = append(asks, vfio.Ask{Name: x.name, Request: x.req})
	}
	p, err := vfio.Make(root, m.model, asks, vfio.Options{Instance: a.instance, Busy: func(node string) []string { return a.busy[node] }})
	switch {
	case err == nil:
		w.machine = &p
	case len(refuse.As(err)) == 0:
		return walked{}, fmt.Errorf("plan: %w", err)
	default:
		w.refused(verdict.Plan, err)
	}
	return w, nil
}

func (w *walked) refused(at verdict.Station, err error) { w.err, w.at = err, at }

// done drops the plan of what was refused.
func (w *walked) done() walked {
	if w.err != nil {
		w.plan = nil
	}
	return *w
}

func (w *walked) warn(reason refuse.Reason, text string) {
	w.warnings = append(w.warnings, verdict.Warning{Reason: string(reason), Text: text})
}

// wishes reads the options of all devices, in order of name, and finds what
// they mean on the host.
func (w *walked) wishes(m *machine, a asked, disk onDisk) []wish {
	var out []wish
	var refusals []*refuse.Error
	for _, name := range slices.Sorted(maps.Keys(a.devices)) {
		req, warnings, err := request.Parse(optionsOf(a.devices[name]), request.Context{VM: a.instance != "", Strict: a.strict})
		var sel request.Selection
		if err == nil && a.instance == "" { // package vfio selects for a machine
			sel, err = request.SelectFrom(req, m.model, disk.sources)
		}
		for _, x := range append(slices.Clip(warnings), sel.Warnings...) {
			w.warn(x.Reason, name+": "+x.String())
		}
		for _, r := range refuse.As(err) {
			c := *r
			c.Where = joinWhere(name, c.Where)
			refusals = append(refusals, &c)
		}
		out = append(out, wish{name, req, sel})
	}
	if len(refusals) > 0 {
		w.refused(verdict.Plan, refuse.Join(refusals...))
	}
	return out
}

func joinWhere(device, where string) string {
	if where == "" {
		return device
	}
	return device + ": " + where
}

func optionsOf(d scenarios.Device) request.Options {
	return request.Options{
		GPUType: d.GPUType, ID: d.ID, PCI: d.PCI, VendorID: d.VendorID, ProductID: d.ProductID,
		MIGGI: d.MIGGI, MIGCI: d.MIGCI, MIGUUID: d.MIGUUID, MDev: d.MDev, UID: d.UID, GID: d.GID, Mode: d.Mode,
	}
}

// gather adds what Gather finds for the wishes to what is on the host's disk.
func (e *engine) gather(ctx context.Context, m *machine, w *walked, wishes []wish, disk onDisk) error {
	for _, p := range disk.problems {
		w.warn(p.Reason, p.Path+": "+p.Msg)
	}
	maker := SpecMaker{
		Model: m.model, OnDisk: disk.sources,
		Root: m.root,
		NVIDIA: func(ctx context.Context, mode string) (*nvidia.Result, error) {
			return m.generate(ctx, e.opts.Specs, mode)
		},
	}
	var selections []request.Selection
	for _, x := range wishes {
		selections = append(selections, x.sel)
	}
	sources, warnings, err := maker.Gather(ctx, selections)
	w.sources, w.warnings = sources, append(w.warnings, warnings...)
	if err != nil {
		if len(refuse.As(err)) == 0 {
			return err
		}
		w.refused(verdict.Spec, err)
	}
	for _, s := range w.sources {
		for _, d := range s.Spec.Devices {
			w.names = append(w.names, s.Spec.Kind+"="+d.Name)
		}
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	return nil
}

// resolve finds the container edits of all wishes: CDI devices in the Specs,
// other GPUs by their nodes.
func (w *walked) resolve(m *machine, wishes []wish, disk onDisk) error {
	var names []cdi.Name
	for _, x := range wishes {
		names = append(names, x.sel.Names...)
	}
	found := map[cdi.Name]string{}
	if len(names) > 0 {
		r, err := cdi.ResolveAll(w.sources, names)
		if err != nil {
			return cdi.Explain(err, cdi.DefaultDirs(), disk.problems)
		}
		w.edits = r.Edits
		w.found = r.Devices
		for _, d := range r.Devices {
			found[d.Asked] = d.Name.String()
		}
		for _, d := range r.Merged {
			found[d.Asked] = d.As.String()
		}
	}
	w.owns = map[string][]string{}
	done := map[int]bool{}
	for _, x := range wishes {
		for _, n := range x.sel.Names {
			w.owns[x.name] = append(w.owns[x.name], found[n])
		}
		for _, i := range x.sel.GPUs {
			g := m.model.GPUs[i]
			w.owns[x.name] = append(w.owns[x.name], cdi.GPUName(g))
			if !done[i] {
				done[i] = true
				w.edits = append(w.edits, cdi.NodeEdits(m.model, g))
			}
		}
	}
	return nil
}

// without is what is left of w when one device of the container leaves: the
// plan as it was made, not a new one, since the host may have moved on.
func (w walked) without(device string) walked {
	left := w
	left.owns = maps.Clone(w.owns)
	delete(left.owns, device)
	if w.plan == nil { // refused, and the manager passes GPUs itself
		return left
	}
	p := *w.plan
	for _, name := range w.owns[device] {
		kept := false
		for _, others := range left.owns {
			kept = kept || slices.Contains(others, name)
		}
		if !kept {
			p = translate.Without(p, name)
		}
	}
	left.plan = &p
	left.mark()
	return left
}

// owners puts the wishes for owner and mode where they belong. Where all
// devices want the same, every node has it; else each device's own nodes have
// what it wants, and shared nodes stay as they are.
func (w *walked) owners(wishes []wish, opts *translate.Options) []cdi.Edits {
	first := wishes[0].req
	if !slices.ContainsFunc(wishes, func(x wish) bool { return !sameOwner(x.req, first) }) {
		opts.UID, opts.GID, opts.Mode = first.UID, first.GID, first.Mode
		return w.edits
	}
	out := slices.Clone(w.edits)
	for i, e := range out {
		for _, x := range wishes {
			if slices.Contains(w.owns[x.name], e.Device) {
				out[i].Edits = owned(e.Edits, x.req)
			}
		}
	}
	return out
}

func sameOwner(a, b request.Request) bool {
	return same(a.UID, b.UID) && same(a.GID, b.GID) && same(a.Mode, b.Mode)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// owned returns a copy of edits whose nodes have the owner and mode of req.
func owned(edits *specs.ContainerEdits, req request.Request) *specs.ContainerEdits {
	c := *edits
	c.DeviceNodes = make([]*specs.DeviceNode, len(edits.DeviceNodes))
	for i, n := range edits.DeviceNodes {
		d := *n
		if req.UID != nil {
			d.UID = req.UID
		}
		if req.GID != nil {
			d.GID = req.GID
		}
		if req.Mode != nil {
			d.FileMode = req.Mode
		}
		c.DeviceNodes[i] = &d
	}
	return &c
}
