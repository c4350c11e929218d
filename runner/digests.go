package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"gpurig/reports"
	"gpurig/runner/observe"
)

// digests collects what those of the stations are made of, the last of each.
type digests struct {
	specs func() string
	plans map[string]func() string
	saw   map[string]*observe.Observation
}

func (d *digests) planned(name string, p *product) {
	if p.specSum != nil {
		d.specs = p.specSum
	}
	if p.planSum != nil {
		if d.plans == nil {
			d.plans = map[string]func() string{}
		}
		d.plans[name] = p.planSum
	}
}

func (d *digests) seen(name string, o *observe.Observation) {
	if d.saw == nil {
		d.saw = map[string]*observe.Observation{}
	}
	d.saw[name] = o
}

func (d *digests) stations(host string) reports.Stations {
	s := reports.Stations{Host: host}
	if d.specs != nil {
		s.Spec = d.specs()
	}
	for name, sum := range d.plans {
		if s.Plan == nil {
			s.Plan = map[string]string{}
		}
		s.Plan[name] = sum()
	}
	for name, o := range d.saw {
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
