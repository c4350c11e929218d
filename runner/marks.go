package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/reports"
	"gpurig/runner/observe"
)

// marks collects the digests of the stations, the last of each.
type marks struct {
	specs []cdi.Source
	plans map[string]*plan.Plan
	saw   map[string]*observe.Observation
}

func (m *marks) spec(sources []cdi.Source) {
	if len(sources) > 0 {
		m.specs = sources
	}
}

func (m *marks) plan(name string, p *plan.Plan) {
	if p == nil {
		return
	}
	if m.plans == nil {
		m.plans = map[string]*plan.Plan{}
	}
	m.plans[name] = p
}

func (m *marks) seen(name string, o *observe.Observation) {
	if m.saw == nil {
		m.saw = map[string]*observe.Observation{}
	}
	m.saw[name] = o
}

func (m *marks) stations(host string) reports.Stations {
	s := reports.Stations{Host: host}
	if len(m.specs) > 0 {
		all := make([]any, len(m.specs))
		for i := range m.specs {
			all[i] = m.specs[i].Spec
		}
		s.Spec = digest(all)
	}
	for name, p := range m.plans {
		if s.Plan == nil {
			s.Plan = map[string]string{}
		}
		s.Plan[name] = digest(p)
	}
	for name, o := range m.saw {
		if s.Seen == nil {
			s.Seen = map[string]string{}
		}
		s.Seen[name] = digest(o)
	}
	return s
}

// digest returns 12 hex digits of a value's JSON form.
func digest(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "unprintable" // plain data always has a JSON form
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}
