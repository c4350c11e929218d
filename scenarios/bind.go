package scenarios

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/strictdoc"
)

// Placeholders stand in a scenario with needs for what a host has. They are words
// in angle brackets, which no path, device name or option has:
//
//	<first>, <second>, <third>   a full GPU, one that is not in MIG mode, by its NVML index
//	<mig>, <mig2>                a MIG device, as "GPU:index": the first, the second that is there
//	<driver>                     version of NVIDIA's driver; for a library of a Tegra, "host"
//
// What more is known of a GPU or a MIG device comes after a dot: see gpuFacts and
// migFacts.
var placeholder = regexp.MustCompile(`<[^<>]*>`)

// ordinals are the GPUs that can be named.
var ordinals = []string{"first", "second", "third"}

// migNames are the MIG devices that can be named.
var migNames = []string{"mig", "mig2"}

// A migDevice is a compute instance and where it is.
type migDevice struct {
	gpu host.GPU
	gi  host.GPUInstance
	ci  host.ComputeInstance
}

// gpuFacts are what can be said of a GPU; an empty text is not known.
var gpuFacts = map[string]func(host.GPU) string{
	"":       func(g host.GPU) string { return known(g.Index) },
	"minor":  func(g host.GPU) string { return known(g.Minor) },
	"card":   func(g host.GPU) string { return known(g.Card) },
	"render": func(g host.GPU) string { return known(g.Render) },
	"uuid":   func(g host.GPU) string { return g.UUID },
	"name":   func(g host.GPU) string { return g.Name },
	"pci": func(g host.GPU) string {
		if g.PCI == nil {
			return ""
		}
		return g.PCI.BDF.String()
	},
}

// migFacts are what can be said of a MIG device.
var migFacts = map[string]func(migDevice) string{
	"":       func(d migDevice) string { return fmt.Sprintf("%d:%d", d.gpu.Index, d.ci.Index) },
	"gpu":    func(d migDevice) string { return known(d.gpu.Index) },
	"minor":  func(d migDevice) string { return known(d.gpu.Minor) },
	"gi":     func(d migDevice) string { return known(d.gi.ID) },
	"ci":     func(d migDevice) string { return known(d.ci.ID) },
	"uuid":   func(d migDevice) string { return d.ci.UUID },
	"parent": func(d migDevice) string { return d.gpu.UUID },
}

func known(n int) string {
	if n < 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func migDevices(gpus []host.GPU) []migDevice {
	var out []migDevice
	for _, g := range gpus {
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.Instances {
			for _, ci := range gi.Compute {
				out = append(out, migDevice{g, gi, ci})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b migDevice) int {
		if a.gpu.Index != b.gpu.Index {
			return a.gpu.Index - b.gpu.Index
		}
		return a.ci.Index - b.ci.Index
	})
	return out
}

// Bind returns s with its placeholders filled in by what m has. s itself is not
// changed. why says what m lacks; then there is nothing to run.
func Bind(s Scenario, m host.Model) (bound Scenario, why string) {
	if s.Needs == nil {
		return s, ""
	}
	if why := s.Needs.Missing(SupplyOf(m)); why != "" {
		return s, why
	}
	gpus := s.Needs.gpus(m)
	full := slices.DeleteFunc(slices.Clone(gpus), func(g host.GPU) bool { return g.MIG != nil })
	values := map[string]string{}
	for i, name := range ordinals {
		if i < len(full) {
			put(values, name, gpuFacts, full[i])
			if m.Integrated(full[i]) {
				delete(values, name+".pci") // Thor's has an address, by which it is not passed
			}
		}
	}
	for i, d := range migDevices(gpus) {
		if i < len(migNames) {
			put(values, migNames[i], migFacts, d)
		}
	}
	if m.Driver != nil {
		values["driver"] = m.Driver.Version
	}
	missing := map[string]bool{}
	fill := func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(p string) string {
			v := values[strings.Trim(p, "<>")]
			if v == "" {
				missing[p] = true
			}
			return v
		})
	}
	s.Containers = rewritten(s.Containers, fill)
	s.Steps = rewritten(s.Steps, fill)
	s.Expect = rewritten(s.Expect, fill)
	if m.Driver != nil && slices.ContainsFunc(m.GPUs, m.Integrated) {
		for _, want := range s.Expect {
			for soname, version := range want.Library {
				if version == m.Driver.Version { // libraries of a Tegra's own GPU are called .so.1.1
					want.Library[soname] = "host"
				}
			}
		}
	}
	if len(missing) > 0 {
		return s, "the host has nothing for " + strings.Join(slices.Sorted(maps.Keys(missing)), ", ")
	}
	return s, ""
}

func put[T any](values map[string]string, name string, facts map[string]func(T) string, of T) {
	for fact, get := range facts {
		values[dotted(name, fact)] = get(of)
	}
}

func dotted(name, fact string) string {
	if fact == "" {
		return name
	}
	return name + "." + fact
}

// rewritten returns a deep copy of v in which every text, keys of maps too, went
// through fill.
func rewritten[T any](v T, fill func(string) string) T {
	return rewrite(reflect.ValueOf(&v).Elem(), fill).Interface().(T)
}

func rewrite(v reflect.Value, fill func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(fill(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(rewrite(v.Elem(), fill))
			out.Set(p)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(rewrite(v.Field(i), fill))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(rewrite(v.Index(i), fill))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for it := v.MapRange(); it.Next(); {
				out.SetMapIndex(rewrite(it.Key(), fill), rewrite(it.Value(), fill))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

// Placeholders are all that a scenario may have, without the brackets, sorted.
func Placeholders() []string {
	out := []string{"driver"}
	for _, name := range ordinals {
		for fact := range gpuFacts {
			out = append(out, dotted(name, fact))
		}
	}
	for _, name := range migNames {
		for fact := range migFacts {
			out = append(out, dotted(name, fact))
		}
	}
	slices.Sort(out)
	return out
}

// unbound reports whether a text is only known once a host is: its form cannot be
// checked before.
func unbound(text string) bool { return placeholder.MatchString(text) }

// placeholders checks the words in brackets, wherever they stand.
func (c *checker) placeholders(root strictdoc.Path) {
	for key, part := range map[string]any{"containers": c.s.Containers, "steps": c.s.Steps, "expect": c.s.Expect} {
		seen := map[string]bool{}
		rewrite(reflect.ValueOf(part), func(text string) string {
			for _, p := range placeholder.FindAllString(text, -1) {
				if !seen[p] {
					seen[p] = true
					c.placeholder(p, root.Key(key))
				}
			}
			return text
		})
	}
}

func (c *checker) placeholder(p string, w strictdoc.Path) {
	word := strings.Trim(p, "<>")
	switch all := Placeholders(); {
	case !slices.Contains(all, word):
		c.At(w, "Known: "+strings.Join(all, ", ")+".", "unknown placeholder %q%s", p, strictdoc.Meant(word, all))
	case c.s.Needs == nil:
		c.At(w, `Say what the host must have: needs: {gpus: ">=1"}.`, "placeholder %s in a scenario without needs", p)
	}
}
