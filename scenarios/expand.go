package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Variant is one scenario with one choice from each list of its matrix.
type Variant struct {
	Scenario        // with the choices filled in; its Matrix is empty
	Keys     []Pick // the choices, in the order host, driver, cgroup, idmap, image
}

// A Pick is one choice of a matrix.
type Pick struct{ Key, Value string }

// ID is unique among all variants: "mig/one-of-two[cgroup=v1,idmap=none]".
func (v *Variant) ID() string {
	if len(v.Keys) == 0 {
		return v.Name
	}
	return v.Name + "[" + v.Choices() + "]"
}

// Choices returns "cgroup=v1,idmap=none".
func (v *Variant) Choices() string {
	parts := make([]string, len(v.Keys))
	for i, k := range v.Keys {
		parts[i] = k.Key + "=" + k.Value
	}
	return strings.Join(parts, ",")
}

// Map returns the choices by key, or nil without any.
func (v *Variant) Map() map[string]string {
	if len(v.Keys) == 0 {
		return nil
	}
	m := make(map[string]string, len(v.Keys))
	for _, k := range v.Keys {
		m[k.Key] = k.Value
	}
	return m
}

type dimension struct {
	key    string
	values []string
}

func (m Matrix) dimensions() []dimension {
	return []dimension{{"host", m.Host}, {"driver", m.Driver}, {"cgroup", m.Cgroup}, {"idmap", m.IDMap}, {"image", m.Image}}
}

// MatrixKeys are the keys of a matrix, in order.
func MatrixKeys() []string {
	var out []string
	for _, d := range (Matrix{}).dimensions() {
		out = append(out, d.key)
	}
	return out
}

func (m Matrix) has(key string) bool {
	return slices.ContainsFunc(m.dimensions(), func(d dimension) bool { return d.key == key && len(d.values) > 0 })
}

// Expand returns the product of s's matrix, always in the same order: the last
// key changes fastest, values as they stand in the file. Without a matrix it is
// s alone. s is not changed; the variants share its read-only parts.
func Expand(s Scenario) []Variant {
	base := s
	base.Matrix = Matrix{}
	out := []Variant{{Scenario: base}}
	for _, dim := range s.Matrix.dimensions() {
		if len(dim.values) == 0 {
			continue
		}
		next := make([]Variant, 0, len(out)*len(dim.values))
		for _, v := range out {
			for _, value := range dim.values {
				next = append(next, Variant{
					Scenario: v.with(dim.key, value),
					Keys:     append(slices.Clip(v.Keys), Pick{dim.key, value}),
				})
			}
		}
		out = next
	}
	return out
}

// ExpandAll returns the variants of all scenarios, in order.
func ExpandAll(all []Scenario) []Variant {
	var out []Variant
	for _, s := range all {
		out = append(out, Expand(s)...)
	}
	return out
}

func (s Scenario) with(key, value string) Scenario {
	switch key {
	case "host":
		s.Host = value
	case "driver":
		s.Driver = value
	default:
		s.Containers = maps.Clone(s.Containers)
		for name, c := range s.Containers {
			switch key {
			case "cgroup":
				c.Cgroup = value
			case "idmap":
				c.IDMap = value
			case "image":
				c.Image = value
			default:
				panic(fmt.Sprintf("matrix key %q has no meaning", key)) // dimensions and this switch disagree
			}
			s.Containers[name] = c
		}
	}
	return s
}
