package runner

import (
	"fmt"
	"io/fs"
	"strings"

	"gpurig/core/show"
	"gpurig/core/strictdoc"
	"gpurig/reports"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// locate fills in where the scenario of a result stands, the command that runs it
// again, and of each finding the line that expects it and the command that shows more.
func (o *Options) locate(r *reports.Result, v *scenarios.Variant) {
	with := []string{r.Target}
	for _, a := range r.Across {
		with = append(with, a.With)
	}
	r.File, r.Line, r.Run = v.File, 1, o.command(r, v, "run", "--target", strings.Join(with, ","))
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Line = lineOf(v, f)
		f.Next = o.next(r, v, f)
		if i == 0 {
			r.Line = f.Line
		}
	}
}

// command is a gpurig command about one result.
func (o *Options) command(r *reports.Result, v *scenarios.Variant, verb string, flags ...string) string {
	name := r.ID()
	if _, err := fs.Stat(scenarios.Files, v.File); err != nil { // not a shipped one
		name = v.File + strings.TrimPrefix(name, r.Scenario)
	}
	words := append([]string{"gpurig", verb, name}, flags...)
	return show.Command(append(words, o.Flags...)...)
}

// lineOf is the line of the scenario's file that a finding is about: of what is
// expected there of the thing that was found, else of all that is expected of the
// container then, else of the step or the container.
func lineOf(v *scenarios.Variant, f *reports.Finding) int {
	var step int
	wants := strictdoc.Path("expect").Key(f.Container)
	places := []strictdoc.Path{wants, strictdoc.Path("containers").Key(f.Container)}
	if _, err := fmt.Sscanf(f.Step, "%d:", &step); err == nil && step >= 1 && step <= len(v.Steps) {
		at := strictdoc.Path("steps").Item(step - 1)
		wants = at.Key("expect").Key(f.Container)
		places = []strictdoc.Path{wants, at}
	}
	line := 0
	for p, n := range v.Lines {
		if strings.HasPrefix(string(p), string(wants)+".") && strings.HasSuffix(string(p), "."+f.What) && (line == 0 || n < line) {
			line = n
		}
	}
	for _, p := range places {
		if line == 0 {
			line = v.Lines[p]
		}
	}
	return max(line, 1)
}

// next is the command that shows what comes before a finding and what was found, with a
// comment that says what is known by then.
func (o *Options) next(r *reports.Result, v *scenarios.Variant, f *reports.Finding) string {
	station, known := verdict.Station(f.Station), ""
	var show string
	switch station {
	case verdict.Spec:
		show, known = "host,spec", "the host has it"
	case verdict.Plan:
		show, known = "spec,plan", "the CDI Spec has it right"
		if v.Containers[f.Container].VM {
			show, known = "host,plan", "the host has it right"
		}
	case verdict.Configuration:
		show, known = "plan,configuration", "the plan has it right"
	case verdict.Mounts:
		show, known = "configuration,observation", "the configuration has it right; a later mount on the same path hides it"
	case verdict.Inside:
		show, known = "plan,observation", "all before the container has it right: the hook, the image"
	case verdict.Host:
		show, known = "plan,host", "the container has it right"
	case verdict.Across:
		for _, a := range r.Across {
			if strings.HasSuffix(f.Want, " on "+a.With) {
				return o.command(r, v, "explain", "--diff", a.With+","+r.Target) + "  # one of the two is not like the other"
			}
		}
	}
	flags := []string{"--target", r.Target}
	if r.Verdict == reports.Differ {
		show, known = "plan,configuration", "the manager's own implementation did this"
	}
	if show == "" {
		return o.command(r, v, "explain", flags...)
	}
	return o.command(r, v, "explain", append(flags, "--station", show)...) + "  # " + known
}
