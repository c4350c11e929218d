// Package conformance finds out what each consumer of CDI Specs makes of each field of
// one: whether it reaches the OCI runtime, is dropped in silence, is refused, or comes
// out as something else.
//
// A Case is a Spec by hand with one field in use, and what config.json has where a
// consumer applies it. The Spec reaches the consumer as it is written, byte for byte; a
// stub in place of the runtime keeps the config.json that the consumer wrote, and starts
// nothing. What a runtime then does is not looked at: see package target/oci.
package conformance

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Case is one field of a Spec.
type Case struct {
	Name   string `yaml:"-"`      // of its file: "mount-options"
	Field  string `yaml:"field"`  // "mounts.options"
	Note   string `yaml:"note"`   // what a reader has to know; empty: nothing
	Spec   string `yaml:"spec"`   // the file, as it is written
	Device string `yaml:"device"` // that is asked for, by its qualified name
	Want   []Want `yaml:"want"`   // all of them
}

// A Want is what a place of config.json has: a value, or an element of a list.
type Want struct {
	At      string `yaml:"at"`      // "linux.devices[path=/dev/a].uid"
	Is      any    `yaml:"is"`      //
	Has     any    `yaml:"has"`     //
	Without any    `yaml:"without"` // what is there where the field is ignored; nil: nothing
	// Missing is the outcome where it is not there; empty: Dropped.
	Missing Outcome `yaml:"missing"`
}

//go:embed cases/*.yaml
var files embed.FS

// Cases returns all cases, by field.
func Cases() ([]Case, error) {
	names, err := fs.Glob(files, "cases/*.yaml")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("conformance: %d cases: %v", len(names), err)
	}
	var out []Case
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c := Case{Name: strings.TrimSuffix(path.Base(name), ".yaml")}
		if err := yaml.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if c.Field == "" || c.Spec == "" || c.Device == "" || len(c.Want) == 0 {
			return nil, fmt.Errorf("%s: field, spec, device and want are needed", name)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Case) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// An Outcome is what a consumer made of a case.
type Outcome string

// Outcomes.
const (
	Applied Outcome = "applied" // config.json has it
	Dropped Outcome = "dropped" // config.json is as without it, and nothing was said
	Refused Outcome = "refused" // the consumer would not create the container
	Wrong   Outcome = "wrong"   // config.json has something else
	Broken  Outcome = "broken"  // it could not be found out
)

// Judge compares config.json with what the case wants. why is empty where it is applied.
func (c Case) Judge(config []byte) (o Outcome, why string) {
	var root any
	if err := json.Unmarshal(config, &root); err != nil {
		return Broken, fmt.Sprintf("config.json: %v", err)
	}
	for _, w := range c.Want {
		got, ok := lookup(root, w.At)
		switch {
		case !ok || got == nil:
			return cmp.Or(w.Missing, Dropped), w.At + " is missing"
		case w.Has != nil:
			list, _ := got.([]any)
			if !slices.ContainsFunc(list, func(x any) bool { return same(x, w.Has) }) {
				return cmp.Or(w.Missing, Dropped), fmt.Sprintf("%s has no %v", w.At, w.Has)
			}
		case same(got, w.Is):
		case w.Without != nil && same(got, w.Without):
			return Dropped, fmt.Sprintf("%s is %v", w.At, got)
		default:
			return Wrong, fmt.Sprintf("%s is %v, not %v", w.At, got, w.Is)
		}
	}
	return Applied, ""
}

// same compares values that came from YAML with those of JSON, whose numbers are floats.
func same(a, b any) bool {
	number := func(x any) any {
		if v := reflect.ValueOf(x); v.IsValid() && v.CanInt() {
			return float64(v.Int())
		}
		return x
	}
	return reflect.DeepEqual(number(a), number(b))
}

// lookup finds a place: keys with dots between them, each perhaps with [KEY=VALUE], which
// picks the first element of a list that has that.
func lookup(at any, place string) (any, bool) {
	for place != "" {
		end := strings.IndexAny(place, ".[")
		if end < 0 {
			end = len(place)
		}
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[place[:end]]; !ok {
			return nil, false
		}
		place = place[end:]
		if strings.HasPrefix(place, "[") {
			pick, rest, _ := strings.Cut(place[1:], "]")
			key, value, _ := strings.Cut(pick, "=")
			list, _ := at.([]any)
			i := slices.IndexFunc(list, func(x any) bool {
				m, _ := x.(map[string]any)
				return m[key] != nil && fmt.Sprint(m[key]) == value
			})
			if i < 0 {
				return nil, false
			}
			at, place = list[i], rest
		}
		place = strings.TrimPrefix(place, ".")
	}
	return at, true
}
