package cdi

import (
	"maps"
	"slices"
	"strings"

	"gpurig/core/refuse"
)

// WithheldWarnings says of withheld devices what a person wants to know: one
// refusal for each cause, whose Where has all names of the devices that it
// withholds, "nvidia.com/gpu=1, gpu1, all". In order of names.
func WithheldWarnings(kind string, withheld map[string]*refuse.Error) []*refuse.Error {
	var out []*refuse.Error
	names := map[string][]string{} // Msg: names
	for _, name := range slices.SortedFunc(maps.Keys(withheld), natural) {
		e := withheld[name]
		if names[e.Msg] == nil {
			c := *e
			out = append(out, &c)
		}
		names[e.Msg] = append(names[e.Msg], name)
	}
	for _, e := range out {
		all := names[e.Msg]
		e.Where, e.Msg = kind+"="+strings.Join(all, ", "), "withheld from the Spec: "+e.Msg
	}
	return out
}

// withheld returns the refusal of a device that the source of highest priority
// withholds. A source that defines it, of the same priority or higher, goes
// before: prio is that one's, -1 for none. A MIG device that no source defines
// goes with its GPU: of one that does not answer, nobody knows the MIG devices.
func (r *resolver) withheld(n Name, prio int) *refuse.Error {
	var found *refuse.Error
	for _, s := range r.sources {
		if s.Spec == nil || s.Spec.Kind != n.Kind() || s.Priority <= prio {
			continue
		}
		e := s.Withheld[n.Device]
		if e == nil && prio < 0 {
			e = s.Withheld[gpuOf(n.Device)]
		}
		if e != nil {
			found, prio = e, s.Priority
		}
	}
	return found
}

// gpuOf returns the index of the GPU of a MIG device, "1" of "1:0" and "mig1:0";
// empty for any other name.
func gpuOf(device string) string {
	gpu, _, ok := strings.Cut(strings.TrimPrefix(device, "mig"), ":")
	if !ok {
		return ""
	}
	return gpu
}
