package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpurig/core/plan"
	"gpurig/core/request"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/profiles"
	"gpurig/runner"
	"gpurig/runner/cli"
	"gpurig/runner/image"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

// TestTranslateAsInScenarios: what gpurig translate makes of a container's devices is
// what the scenario has of it: the same plan, the same lines of configuration, or the
// same refusal. Of each scenario whose host and container the command can be told.
func TestTranslateAsInScenarios(t *testing.T) {
	if err := mntns.Able(); err != nil {
		t.Skipf("no Spec can be made here: %v", err)
	}
	words := scenarios.Options{Hosts: profiles.Names(), Images: image.Kinds(), Fault: fault.Check, Try: runner.Profiles{}.Try, Content: image.Check, Ldconfig: image.HasLdconfig}
	for _, m := range runner.AllReasons() {
		words.Reasons = append(words.Reasons, string(m.Reason))
	}
	all, err := scenarios.LoadFS(scenarios.Files, words)
	if err != nil {
		t.Fatal(err)
	}
	var told []scenarios.Variant
	for _, s := range all {
		of := scenarios.ExpandAll([]scenarios.Scenario{s})
		for _, v := range []scenarios.Variant{of[0], of[len(of)-1]} {
			if tellable(v) && (len(told) == 0 || told[len(told)-1].ID() != v.ID()) {
				told = append(told, v)
			}
		}
	}
	if len(told) < 150 {
		t.Fatalf("only %d scenarios can be told", len(told))
	}
	to, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	specs := specgen.New(specgen.Options{})
	defer specs.Close()
	traces := map[string]runner.Trace{}
	_, err = runner.Run(t.Context(), runner.Options{Targets: []target.Target{to}, Specs: specs, Hosts: runner.Profiles{},
		Trace: func(x runner.Trace) { traces[x.Variant.ID()] = x }}, told)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range told {
		t.Run(v.ID(), func(t *testing.T) {
			seen := map[string]bool{}
			for _, step := range traces[v.ID()].Steps {
				for _, c := range step.Containers {
					if !seen[c.Container] && (c.Plan != nil || c.At == verdict.Spec || c.At == verdict.Plan) {
						seen[c.Container] = true
						asTranslated(t, v, c)
					}
				}
			}
		})
	}
}

// tellable reports whether the command has words for a scenario: a shipped host that
// nothing changes, and containers whose devices differ in their ids alone.
func tellable(v scenarios.Variant) bool {
	if v.Needs != nil || v.Driver != "" || len(v.Changes)+len(v.Specs)+len(v.Steps) > 0 || !reflect.ValueOf(v.Policy).IsZero() || !slices.Contains(profiles.Names(), v.Host) || len(v.Targets) > 0 && !slices.Contains(v.Targets, "sim") {
		return false
	}
	for _, c := range v.Containers {
		var first *scenarios.Device
		for _, d := range c.Devices {
			d.ID = ""
			if first == nil {
				first = &d
			} else if *first != d {
				return false
			}
		}
		if c.VM || first == nil || len(c.Config)+len(c.Profiles) > 0 {
			return false
		}
	}
	return true
}

func asTranslated(t *testing.T, v scenarios.Variant, want runner.ContainerTrace) {
	c := v.Containers[want.Container]
	args := []string{"translate", "--host", v.Host, "--output", "json", "--lxc-version", "5.0.2", "--name", "told"}
	for _, f := range v.Faults {
		args = append(args, "--fault", f)
	}
	if c.Strict {
		args = append(args, "--strict")
	}
	if c.Cgroup != "" {
		args = append(args, "--cgroup", c.Cgroup)
	}
	if c.IDMap != "" {
		args = append(args, "--idmap", c.IDMap)
	}
	var common map[string]string
	for _, name := range slices.Sorted(maps.Keys(c.Devices)) {
		common = request.Options(c.Devices[name]).Map()
		args = append(args, "--id="+common["id"])
	}
	if len(common) == 0 {
		args = append(args, "--gputype=physical") // the command takes no option at all for a slip
	}
	for option, value := range common {
		if option != "id" {
			args = append(args, "--"+option+"="+value)
		}
	}
	var out, said bytes.Buffer
	code := cli.Main(context.Background(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said}, args)
	if want.Plan == nil {
		what, _, _ := strings.Cut(want.Error, " (hint: ")
		what, _, _ = strings.Cut(what, "; ") // the first of several
		if i := strings.Index(what, ": "); slices.Contains(slices.Collect(maps.Keys(c.Devices)), what[:max(i, 0)]) {
			what = what[i:] // the command has names of its own
		}
		if code != cli.ExitUsage || !strings.Contains(said.String(), what) {
			t.Errorf("%s: exit code %d: %s\nwant the refusal: %s", want.Container, code, &said, want.Error)
		}
		return
	}
	var got struct {
		Configuration []string
		Plan          plan.Plan
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != cli.ExitOK {
		t.Errorf("%s: exit code %d: %s, %v", want.Container, code, &said, err)
		return
	}
	if a, b := text(t, got.Plan), text(t, want.Plan); a != b {
		t.Errorf("%s: the plan is\n%s\nwant\n%s", want.Container, a, b)
	}
	// Rules alone: other lines have paths of the manager's own. Where no hierarchy is
	// named, the command writes them for both.
	rules := map[string]int{}
	for _, line := range got.Configuration {
		if want.Configuration == "" { // the start is refused, of a plan that is sound
			break
		}
		key, rule, ok := strings.Cut(line, ".devices.allow = ")
		if !ok {
			continue
		}
		rules[key]++
		if c.Cgroup == "" {
			key = "lxc.cgroup2"
		}
		if !strings.Contains(want.Configuration, key+".devices.allow = "+rule+"\n") {
			t.Errorf("%s: %q is not in the scenario's configuration", want.Container, line)
		}
	}
	if keys := len(rules); want.Configuration != "" && len(want.Plan.Nodes) > 0 && (c.Cgroup == "" && keys != 2 || c.Cgroup != "" && keys != 1) || rules["lxc.cgroup"] != rules["lxc.cgroup2"] && keys == 2 {
		t.Errorf("%s: rules for cgroup %q: %v", want.Container, c.Cgroup, rules)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
