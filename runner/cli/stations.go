package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"

	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/core/show"
	"gpurig/reports"
	"gpurig/runner"
)

// stations are the parts of explain's output that --station selects, in order.
var stations = []string{"host", "spec", "plan", "configuration", "observation"}

// A section is one value on the way of a variant.
type section struct {
	station, step, container string
	title                    string // "plan for c1, step 1: start c1"
	brief                    string // what it has: "9 nodes, 31 mounts"
	text                     func() (string, error)
}

// sections are the values of a trace, in order.
func sections(t runner.Trace) []section {
	var out []section
	for _, step := range t.Steps {
		add := func(station, container, title, brief string, text func() (string, error)) {
			out = append(out, section{station, step.Step, container, title, brief, text})
		}
		ofValue := func(v any) func() (string, error) { return func() (string, error) { return valueText(v) } }
		if step.Host != nil {
			m := step.Host
			brief := fmt.Sprintf("%d GPUs", len(m.GPUs))
			if m.Driver != nil {
				brief += ", NVIDIA driver " + m.Driver.Version
			}
			add("host", "", fmt.Sprintf("host, after step %s: %s", step.Step, t.Variant.Host), brief, ofValue(m))
		}
		if step.Looked != nil {
			add("host", "", "the host as it was found, step "+step.Step, fmt.Sprintf("%d PCI functions", len(step.Looked.Functions)), ofValue(step.Looked))
		}
		for _, c := range step.Containers {
			name := fmt.Sprintf("%s, step %s", c.Container, step.Step)
			for _, src := range c.Specs {
				add("spec", c.Container, fmt.Sprintf("CDI Spec for %s: %s, from %s", name, src.Spec.Kind, src.Where),
					fmt.Sprintf("%s, %d devices", src.Spec.Kind, len(src.Spec.Devices)),
					func() (string, error) { data, err := cdi.Marshal(src.Spec, cdi.YAML); return string(data), err })
			}
			if len(c.Warnings) > 0 {
				add("plan", c.Container, "warnings for "+name, fmt.Sprintf("%d warnings", len(c.Warnings)), func() (string, error) {
					var b strings.Builder
					for _, x := range c.Warnings {
						show.Fprintf(&b, "%s: %s\n", x.Reason, x.Text)
					}
					return b.String(), nil
				})
			}
			if c.Plan != nil {
				add("plan", c.Container, "plan for "+name, planBrief(c.Plan), ofValue(c.Plan))
			}
			if c.VFIOPlan != nil {
				add("plan", c.Container, "plan for "+name, "of a virtual machine", ofValue(c.VFIOPlan))
			}
			if c.Configuration != "" {
				text := strings.TrimRight(c.Configuration, "\n") + "\n"
				add("configuration", c.Container, "configuration of "+name, fmt.Sprintf("%d lines", strings.Count(text, "\n")), func() (string, error) { return text, nil })
			}
			if c.Seen != nil {
				o := c.Seen
				add("observation", c.Container, fmt.Sprintf("observation %s %s", inside(t.Variant.Containers[c.Container].VM), name),
					fmt.Sprintf("%d nodes, %d mounts, %d libraries", len(o.Nodes), len(o.Mounts), len(o.Libraries)), ofValue(o))
			}
			if c.Error != "" {
				add("refused", c.Container, fmt.Sprintf("refused at %s, %s", c.At, name), c.Error, func() (string, error) { return c.Error + "\n", nil })
			}
		}
	}
	return out
}

func planBrief(p *plan.Plan) string {
	return fmt.Sprintf("%d nodes, %d mounts, %d links, %d notes", len(p.Nodes), len(p.Mounts), len(p.Links), len(p.Notes))
}

// inside says where a container, or the monitor of a virtual machine, was looked at.
func inside(vm bool) string {
	if vm {
		return "of the monitor of"
	}
	return "in"
}

// valueText is a value as YAML, with the numbers that people know in another base
// written in that.
func valueText(v any) (string, error) {
	var b strings.Builder
	err := writeYAMLWith(&b, v, rebase)
	return b.String(), err
}

// rebase writes PCI numbers and flags in hexadecimal, and modes in octal.
func rebase(n *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		v := n.Content[i+1]
		x, err := strconv.ParseUint(v.Value, 10, 64)
		if err != nil || v.Kind != yaml.ScalarNode || v.Tag != "!!int" {
			continue
		}
		switch n.Content[i].Value {
		case "vendor", "device", "subVendor", "subDevice", "vendorID", "deviceID":
			v.Value = fmt.Sprintf("0x%04x", x)
		case "class":
			v.Value = fmt.Sprintf("0x%06x", x)
		case "revision", "flags":
			v.Value = fmt.Sprintf("0x%x", x)
		case "mode":
			v.Value = fmt.Sprintf("0%o", x)
		}
	}
	for _, c := range n.Content {
		rebase(c)
	}
}

// explainText prints how a variant came to its verdict: the values of stations, or
// without any a summary.
func explainText(w io.Writer, t runner.Trace, stations []string) error {
	var b strings.Builder
	res := t.Result
	show.Fprintf(&b, "%s: %s\n%s\n%s:%d, host %s\n", res.Key(), res.Verdict, res.Title, res.File, res.Line, res.Host)
	all := sections(t)
	if len(stations) == 0 {
		step := ""
		for _, s := range all {
			if s.step != step {
				show.Fprintf(&b, "\nstep %s\n", s.step)
				step = s.step
			}
			show.Fprintf(&b, "  %-14s %-4s %s\n", s.station, s.container, s.brief)
		}
	}
	for _, s := range all {
		if slices.Contains(stations, s.station) || s.station == "refused" && len(stations) > 0 {
			text, err := s.text()
			if err != nil {
				return err
			}
			show.Fprintf(&b, "\n== %s\n", s.title)
			b.WriteString(text)
		}
	}
	show.Fprintf(&b, "\n== verdict: %s\n", res.Verdict)
	if res.Reason != "" {
		show.Fprintln(&b, res.Reason)
	}
	for _, x := range res.Findings {
		show.Fprintf(&b, "%s:%d: %s\n", res.File, x.Line, x.Text())
		if x.Next != "" {
			show.Fprintf(&b, "  next: %s\n", x.Next)
		}
	}
	if len(stations) == 0 {
		show.Fprintf(&b, "the values themselves: --station %s, or --all\n", strings.Join(stationsOf(all), ","))
	}
	return show.WriteText(w, b.String())
}

// stationsOf are the stations that have a value.
func stationsOf(all []section) []string {
	return slices.DeleteFunc(slices.Clone(stations), func(name string) bool {
		return !slices.ContainsFunc(all, func(s section) bool { return s.station == name })
	})
}

// explainDiff prints the values of two targets that differ, and names the others.
func explainDiff(w io.Writer, a, b runner.Trace) error {
	var out strings.Builder
	for _, t := range []runner.Trace{a, b} {
		show.Fprintf(&out, "%s: %s\n", t.Result.Key(), t.Result.Verdict)
		if t.Result.Reason != "" {
			show.Fprintf(&out, "  %s\n", t.Result.Reason)
		}
	}
	left, right := sections(a), sections(b)
	texts := func(all []section, title string) (string, error) {
		for _, s := range all {
			if s.title == title {
				return s.text()
			}
		}
		return "", nil
	}
	done := map[string]bool{}
	for _, s := range append(slices.Clip(left), right...) {
		if done[s.title] {
			continue
		}
		done[s.title] = true
		x, err := texts(left, s.title)
		if err != nil {
			return err
		}
		y, err := texts(right, s.title)
		if err != nil {
			return err
		}
		if x == y {
			show.Fprintf(&out, "\n== %s: the same\n", s.title)
			continue
		}
		show.Fprintf(&out, "\n== %s\n", s.title)
		_, text, _ := strings.Cut(string(diff.Diff(a.Target, []byte(x), b.Target, []byte(y))), "\n") // without git's line
		out.WriteString(text)
	}
	for _, r := range []reports.Result{a.Result, b.Result} {
		for _, f := range r.Findings {
			show.Fprintf(&out, "\n%s: %s", r.Target, f.Text())
		}
	}
	show.Fprintf(&out, "\n")
	return show.WriteText(w, out.String())
}
