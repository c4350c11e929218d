// Package passthrough plans the GPU devices of one instance: it turns the options
// of a container manager into a plan, or into a refusal that says at which step
// it arose.
//
// New opens a Host, and Plan does all the steps. Its result has the value of each
// step: what each device asks for, the CDI Specs that were considered, the
// container edits, the plan. An emitter (packages lxc, lxd, oci, pve)
// writes the plan as configuration of a container manager; package vfio carries
// out the plan of a virtual machine. Nothing is changed on the host. For an
// instance that runs, keep the Result: Result.Without returns the plan that
// remains when a device is removed.
package passthrough

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/policy"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/core/translate"
	"gpurig/core/vfio"
)

// Options are those of one instance. The zero value is a privileged container.
type Options struct {
	Strict bool          // refuse what is otherwise a warning
	IDMap  []plan.IDMap  // empty: the container shares the host's user ids
	Policy policy.Policy // what Specs may use beyond the built-in rules
	// Groups is the text of the image's /etc/group, empty: not known; MapGroups has nodes
	// and the first process get the groups of the same name in the image. See
	// translate.Options.
	Groups    []byte
	MapGroups bool
	// VM is the name of a virtual machine, which gets GPUs by VFIO; empty: the
	// instance is a container.
	VM string
	// Busy says which programs have a node of the host open, for a virtual machine;
	// nil: not known. See vfio.Options.
	Busy func(node string) []string
}

// A Station is a place on the way from options to a plan.
type Station string

// The stations, in order.
const (
	AtRequest Station = "request" // what the options of the devices mean on the host
	AtSpec    Station = "spec"    // the CDI Specs, and the devices in them
	AtPlan    Station = "plan"    // the container edits, or the host's functions for a machine
)

// A Result is what Plan made, station by station. What lies behind a refusal is
// empty. It shares what it holds with its Host: do not change it.
type Result struct {
	Requests []Request    `json:"requests,omitempty"` // by name of the device
	Sources  []cdi.Source `json:"-"`                  // Specs that were looked at: those on disk, then generated ones
	Devices  []cdi.Device `json:"devices,omitempty"`  // CDI devices found in Sources
	Edits    []cdi.Edits  `json:"-"`                  // as the Specs have them
	Plan     *plan.Plan   `json:"plan,omitempty"`     // of a container
	VM       *vfio.Plan   `json:"vm,omitempty"`       // of a virtual machine
	Warnings []Warning    `json:"warnings,omitempty"` // in the order of the stations
	Refused  *Refused     `json:"refused,omitempty"`  // nil: there is a plan
}

// A Request is what one device of the instance asks for.
type Request struct {
	Device    string            `json:"device"` // its name in the instance: "gpu0"
	Request   request.Request   `json:"request"`
	Selection request.Selection `json:"selection"`
	// Owns are the devices of the plan (plan.Plan.Devices) that it brought.
	// Several devices of an instance may own the same.
	Owns []string `json:"owns,omitempty"`
}

// A Warning is something that the user should know and that is no refusal.
type Warning struct {
	Device string        `json:"device,omitempty"` // of the instance; empty: it is about the host
	Reason refuse.Reason `json:"reason"`
	Text   string        `json:"text"` // one line
	Hint   string        `json:"hint,omitempty"`
}

// String returns "gpu0: text".
func (w Warning) String() string { return in(w.Device, w.Text) }

// Refused is the error of a plan that is refused, and where that came.
type Refused struct {
	At  Station         `json:"at"`
	All []*refuse.Error `json:"all"` // where they are about a device's options, Where is "gpu0: mig.gi"
}

func (r *Refused) Error() string { return refuse.Join(r.All...).Error() }

// Unwrap offers every refusal, for refuse.As and errors.Is.
func (r *Refused) Unwrap() []error {
	out := make([]error, len(r.All))
	for i, e := range r.All {
		out[i] = e
	}
	return out
}

// Plan decides what an instance gets for its devices, which have names of the
// instance, "gpu0", and options. Without devices the plan is empty.
//
// The error is a *Refused, with every refusal of the station at which it came,
// and the Result then ends there; any other error says that the host, or what
// makes its Specs, failed.
func Plan(ctx context.Context, h *Host, devices map[string]request.Options, o Options) (Result, error) {
	m, err := h.Model()
	if err != nil {
		return Result{}, err
	}
	p := planning{host: h, model: m, devices: devices, opts: o}
	if o.VM != "" {
		return p.run(ctx, step{AtRequest, p.requests}, step{AtPlan, p.vm})
	}
	return p.run(ctx, step{AtRequest, p.requests}, step{AtSpec, p.specs}, step{AtSpec, p.edits}, step{AtPlan, p.plan})
}

// PlanSpec is Plan for one device of a Spec that need not be in a Spec directory:
// what a container would get of it.
func PlanSpec(ctx context.Context, h *Host, from cdi.Source, device cdi.Name, o Options) (Result, error) {
	p := planning{host: h, opts: o}
	p.out.Sources = []cdi.Source{from}
	p.out.Requests = []Request{{Selection: request.Selection{Names: []cdi.Name{device}}}}
	return p.run(ctx, step{AtSpec, p.edits}, step{AtPlan, p.plan})
}

// A step is one part of the way.
type step struct {
	at Station
	do func(context.Context) error
}

// run takes the steps, up to one that refuses.
func (p *planning) run(ctx context.Context, steps ...step) (Result, error) {
	for _, s := range steps {
		err := s.do(ctx)
		if all := refuse.As(err); len(all) > 0 {
			for i, e := range all {
				all[i] = p.partly(*e)
			}
			p.out.Refused = &Refused{At: s.at, All: all}
			return p.out, p.out.Refused
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", s.at, err)
		}
	}
	return p.out, nil
}

// A planning is one run of Plan.
type planning struct {
	host    *Host
	model   host.Model // of a container's Spec alone: empty
	devices map[string]request.Options
	opts    Options
	out     Result
}

// requests reads the options of all devices and finds what they mean on the host.
func (p *planning) requests(context.Context) error {
	var refusals []*refuse.Error
	onDisk := p.host.onDisk()
	for _, name := range slices.SortedFunc(maps.Keys(p.devices), byNumber) {
		req, warnings, err := request.Parse(p.devices[name], request.Context{VM: p.opts.VM != "", Strict: p.opts.Strict})
		var sel request.Selection
		if err == nil && p.opts.VM == "" { // package vfio selects for a machine
			sel, err = request.SelectFrom(req, p.model, onDisk.sources)
		}
		for _, w := range slices.Concat(warnings, sel.Warnings) {
			p.out.Warnings = append(p.out.Warnings, Warning{Device: name, Reason: w.Reason, Text: w.String(), Hint: w.Hint})
		}
		for _, e := range refuse.As(err) {
			c := *e
			c.Where = in(name, c.Where)
			refusals = append(refusals, &c)
		}
		p.out.Requests = append(p.out.Requests, Request{Device: name, Request: req, Selection: sel})
	}
	return refuse.Join(refusals...)
}

// partly adds to the refusal of what the host does not have what of it could not be
// read: that may have been it.
func (p *planning) partly(e refuse.Error) *refuse.Error {
	if e.Reason != cdi.ReasonNotFound && e.Reason != cdi.ReasonAllMatchesNone {
		return &e
	}
	for _, x := range p.model.Problems {
		e.Hint = strings.TrimSpace(fmt.Sprintf("%s Not understood on this host: %s: %s.", e.Hint, x.What, x.Text))
	}
	return &e
}

// byNumber orders "gpu2" before "gpu10".
func byNumber(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// in puts a device's name before a place or text of it.
func in(device, text string) string {
	if device == "" || text == "" {
		return device + text
	}
	return device + ": " + text
}

// specs gathers the Specs that devices can come from.
func (p *planning) specs(ctx context.Context) error {
	if len(p.out.Requests) == 0 {
		return nil
	}
	var selections []request.Selection
	for _, r := range p.out.Requests {
		selections = append(selections, r.Selection)
	}
	sources, warnings, err := p.host.gather(ctx, selections)
	p.out.Sources, p.out.Warnings = sources, append(p.out.Warnings, warnings...)
	return err
}

// edits finds the container edits of all devices: CDI devices in the Specs, other
// GPUs by their nodes.
func (p *planning) edits(context.Context) error {
	var names []cdi.Name
	for _, r := range p.out.Requests {
		names = append(names, r.Selection.Names...)
	}
	owns := map[cdi.Name]string{}
	if len(names) > 0 {
		found, err := cdi.ResolveAll(p.out.Sources, names)
		if err != nil {
			return cdi.Explain(err, p.host.opts.SpecDirs, p.host.onDisk().problems)
		}
		p.out.Edits, p.out.Devices = found.Edits, found.Devices
		p.overridden()
		for _, d := range found.Devices {
			owns[d.Asked] = d.Name.String()
		}
		for _, d := range found.Merged {
			owns[d.Asked] = d.As.String()
		}
	}
	there := map[int]bool{}
	for i := range p.out.Requests {
		r := &p.out.Requests[i]
		for _, n := range r.Selection.Names {
			r.Owns = append(r.Owns, owns[n])
		}
		for _, n := range r.Selection.GPUs {
			g := p.model.GPUs[n]
			r.Owns = append(r.Owns, cdi.GPUName(g))
			if !there[n] {
				there[n] = true
				p.out.Edits = append(p.out.Edits, cdi.NodeEdits(p.model, g))
			}
		}
	}
	return nil
}

// overridden says which devices of files are not used since the host has the device
// itself. What a file overrides of another, cdi.ReadDirs says.
func (p *planning) overridden() {
	for _, d := range p.out.Devices {
		for _, s := range p.out.Sources {
			if d.Where != cdi.Generated || s.Where == cdi.Generated || s.Spec.Kind != d.Name.Kind() || !s.Defines(d.Name.Device) {
				continue
			}
			p.out.Warnings = append(p.out.Warnings, Warning{Reason: cdi.ReasonSpecOverridden,
				Text: fmt.Sprintf("device %s is generated for this host and not taken from %s", d.Name, s.Where),
				Hint: "Delete the file, or give its devices other names."})
		}
	}
}

// plan translates the edits.
func (p *planning) plan(context.Context) error {
	opts := translate.Options{IDMap: p.opts.IDMap, Strict: p.opts.Strict, Policy: p.opts.Policy, Groups: p.opts.Groups, MapGroups: p.opts.MapGroups, DriverRoot: p.host.driverRoot()}
	made, err := translate.Edits(p.host.root, p.out.owned(&opts), opts)
	if err == nil {
		p.out.Plan = &made
	}
	return err
}

// vm plans for a virtual machine, which has neither Specs nor edits.
func (p *planning) vm(context.Context) error {
	var asks []vfio.Ask
	for _, r := range p.out.Requests {
		asks = append(asks, vfio.Ask{Name: r.Device, Request: r.Request})
	}
	made, err := vfio.Make(p.host.root, p.model, asks, vfio.Options{Instance: p.opts.VM, Busy: p.opts.Busy})
	if err == nil {
		p.out.VM = &made
	}
	return err
}

// driverRoot is where driver files are for package translate: empty for "/".
func (h *Host) driverRoot() string {
	root := h.opts.DriverRoot
	if m, err := h.Model(); root == "" && err == nil && m.Userspace != nil {
		root = m.Userspace.DriverRoot
	}
	if root = path.Clean("/" + root); root == "/" {
		return ""
	}
	return root
}

// IsRefused reports whether err is that of a plan that was refused: the user's
// affair, and not the host's.
func IsRefused(err error) bool {
	_, ok := errors.AsType[*Refused](err)
	return ok
}
