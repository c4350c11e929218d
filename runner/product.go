package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gpurig/core/legacy"
	"gpurig/core/passthrough"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// A product is what planning made for one container, and digests of it.
type product struct {
	passthrough.Result

	specSum, planSum func() string // of Specs and plan, made when they are first asked for; nil where there are none
}

// planRequest is what one container asks the product for.
type planRequest struct {
	devices map[string]request.Options
	config  map[string]string // of the instance
	options passthrough.Options
	busy    map[string][]string // who has which nodes of the host, for a virtual machine
}

// key is equal for equal requests.
func (r planRequest) key() string {
	var b strings.Builder
	o := r.options
	fmt.Fprintf(&b, "%v %q %q %v %+q %q %v %s", o.Strict, o.VM, r.busy, o.IDMap, o.Policy, r.config, o.MapGroups, o.Groups)
	for _, name := range slices.Sorted(maps.Keys(r.devices)) {
		fmt.Fprintf(&b, "\n%q %q", name, r.devices[name].Map())
	}
	return b.String()
}

// plan has the product plan, once for each machine and request. The error is no
// refusal: the harness or the machine failed.
func (s *session) plan(ctx context.Context, m *hostState, r planRequest) (product, error) {
	return m.plans.Get(ctx, r.key(), func() (product, error) {
		h, err := m.opened()
		if err != nil {
			return product{}, err
		}
		r.options.Busy = func(node string) []string { return r.busy[node] }
		out, err := r.plan(ctx, h)
		if err != nil && out.Refused == nil {
			return product{}, err
		}
		return productOf(out), nil
	})
}

// plan is what core makes of the request.
func (r planRequest) plan(ctx context.Context, h *passthrough.Host) (passthrough.Result, error) {
	runtime, err := legacy.FromConfig(r.config)
	switch all := refuse.As(err); {
	case len(all) > 0:
		refused := &passthrough.Refused{At: passthrough.AtRequest, All: all}
		return passthrough.Result{Refused: refused}, refused
	case runtime == nil:
		return passthrough.Plan(ctx, h, r.devices, r.options)
	}
	return legacy.Plan(ctx, h, *runtime, r.devices, nil, r.options)
}

// productOf adds the digests.
func productOf(r passthrough.Result) product {
	p := product{Result: r}
	once := func(of func() any) func() string { return sync.OnceValue(func() string { return digest(of()) }) }
	if len(r.Sources) > 0 {
		p.specSum = once(func() any {
			all := make([]any, len(r.Sources))
			for i := range r.Sources {
				all[i] = r.Sources[i].Spec
			}
			return all
		})
	}
	switch {
	case r.Plan != nil:
		p.planSum = once(func() any { return r.Plan })
	case r.VM != nil:
		p.planSum = once(func() any { return r.VM })
	}
	return p
}

// without is the product without one device of the container.
func (p product) without(device string) product { return productOf(p.Without(device)) }

// refused returns the refusal of the product and its place in the words of
// verdicts; nil: there is a plan.
func (p product) refused() (error, verdict.Station) {
	switch {
	case p.Refused == nil:
		return nil, ""
	case p.Refused.At == passthrough.AtSpec:
		return p.Refused, verdict.Spec
	}
	return p.Refused, verdict.Plan
}

// offered are the qualified names of all devices in the Specs, sorted.
func (p product) offered() []string {
	var out []string
	for _, s := range p.Sources {
		for _, d := range s.Spec.Devices {
			out = append(out, s.Spec.Kind+"="+d.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// said are the warnings as verdicts have them.
func (p product) said() []verdict.Warning {
	var out []verdict.Warning
	for _, w := range p.Warnings {
		out = append(out, verdict.Warning{Reason: string(w.Reason), Text: w.String()})
	}
	return out
}

// optionsOf are the options of each device as a manager has them.
func optionsOf(devices map[string]scenarios.Device) map[string]request.Options {
	out := map[string]request.Options{}
	for name, d := range devices {
		out[name] = request.Options(d)
	}
	return out
}
