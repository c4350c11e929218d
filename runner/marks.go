package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"gpurig/reports"
	"gpurig/runner/observe"
)

// marks collects what the digests of the stations are made of, the last of each.
type marks struct {
	specs func() string
	plans map[string]func() string
	saw   map[string]*observe.Observation
}

func (m *marks) planned(name string, p *product) {
	if p.specSum != nil {
		m.specs = p.specSum
	}
	if p.planSum != nil {
		if m.plans == nil {
			m.plans = map[string]func() string{}
		}
		m.plans[name] = p.planSum
	}
}

func (m *marks) seen(name string, o *observe.Observation) {
	if m.saw == nil {
		m.saw = map[string]*observe.Observation{}
	}
	m.saw[name] = o
}

func (m *marks) stations(host string) reports.Stations {
	s := reports.Stations{Host: host}
	if m.specs != nil {
		s.Spec = m.specs()
	}
	for name, sum := range m.plans {
		if s.Plan == nil {
			s.Plan = map[string]string{}
		}
		s.Plan[name] = sum()
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
