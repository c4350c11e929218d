package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/observe"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

const one = `
host: dgx-a100
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=1}}}}
expect: {c1: {nodes: {/dev/nvidia1: {number: "195:1"}}}}
`

func run(t *testing.T, ctx context.Context, opts runner.Options, vs []scenarios.Variant) reports.Report {
	t.Helper()
	if opts.Specs == nil {
		opts.Specs = &fakeSpecs{}
	}
	opts.Hosts = runner.Profiles{}
	r, err := runner.Run(ctx, opts, vs)
	if err != nil {
		t.Fatal(err)
	}
	for _, tg := range opts.Targets {
		tg.(*fakeTarget).left(t)
	}
	return r
}

// F35: the four verdicts are kept apart, a panic and a missing privilege among
// them, and whatever happens the container is removed.
func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		target *fakeTarget // nil: one that does as it is told
		specs  error
		text   string
		want   reports.Verdict
		why    string // part of the reason, or of the first finding
	}{
		{name: "all as expected", want: reports.Pass},
		{name: "the machine cannot", target: &fakeTarget{can: &target.CannotError{Target: "fake", Why: "needs root"}}, want: reports.Skip, why: "needs root"},
		{name: "a scenario for another target", text: one + "targets: [lxc]", want: reports.Skip, why: "the scenario is for lxc"},
		{name: "no Spec can be had", specs: &specgen.NeedsSpecError{Golden: specgen.ErrNoGolden, Err: errors.New("no user namespaces")}, want: reports.Skip, why: "no user namespaces"},
		{name: "the generator fails", specs: errors.New("pipe broke"), want: reports.Broken, why: "pipe broke"},
		{name: "a node is not seen", target: &fakeTarget{look: func(o *observe.Observation) { o.Nodes = nil }}, want: reports.Fail, why: "/dev/nvidia1"},
		{name: "the observation is incomplete", target: &fakeTarget{look: func(o *observe.Observation) { o.Problems = []string{"mount table: EIO"} }}, want: reports.Broken, why: "mount table: EIO"},
		{name: "the container is lost", target: &fakeTarget{start: func(plan.Plan) error { return fmt.Errorf("monitor died: %w", target.ErrBroken) }}, want: reports.Broken, why: "monitor died"},
		{name: "liblxc says no", target: &fakeTarget{start: func(plan.Plan) error { return errors.New("mount entry 3: ENOENT") }}, want: reports.Fail, why: "mount entry 3: ENOENT"},
		{name: "a panic", target: &fakeTarget{start: func(plan.Plan) error { panic("oh") }}, want: reports.Broken, why: "run_test.go"},
		{name: "a container cannot be removed", target: &fakeTarget{remove: errors.New("busy")}, want: reports.Broken, why: "busy"},
		{name: "an unknown host", text: strings.Replace(one, "dgx-a100", "no-such-host", 1), want: reports.Broken, why: "no-such-host"},
		{name: "an impossible change", text: one + "changes: [{remove-gpu: 63}]", want: reports.Broken, why: "not possible on this host"},
		{name: "a refusal that nobody expects", text: strings.Replace(one, "gpu=1", "gpu=15", 1), want: reports.Fail, why: "nvidia.com/gpu=15"},
		{name: "a refusal that is expected", text: "host: dgx-a100\ncontainers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=15}}}}\nexpect: {c1: {refused: not-found, running: false}}", want: reports.Pass},
		{
			name: "a stop of what was refused", want: reports.Fail, why: "nvidia.com/gpu=15",
			text: strings.Replace(one, "gpu=1", "gpu=15", 1) + "steps: [{start: c1}, {stop: c1}]",
		},
		{
			name: "a stop of what was refused as expected", want: reports.Broken, why: "2: stop c1: c1 does not run",
			text: "host: dgx-a100\ncontainers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=15}}}}\nsteps: [{start: c1, expect: {c1: {refused: not-found}}}, {stop: c1}]",
		},
		{
			name: "a start of what was to be refused and was not", want: reports.Fail, why: "it was carried out",
			text: one + "steps: [{start: c1, expect: {c1: {refused: not-found, running: false}}}, {start: c1}]",
		},
		{name: "a start of what runs", text: one + "steps: [{start: c1}, {start: c1}]", want: reports.Broken, why: "2: start c1: c1 runs already"},
		{name: "a stop of what does not run", text: one + "steps: [{stop: c1}]", want: reports.Broken, why: "1: stop c1: c1 does not run"},
		{
			name: "a refusal that is overtaken by the next start", want: reports.Fail, why: "nvidia.com/gpu=7",
			text: strings.Replace(one, "gpu=1", "gpu=7", 1) + "changes: [{remove-gpu: 7}]\nsteps: [{start: c1}, {restart: c1}]",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.text == "" {
				tc.text = one
			}
			if tc.target == nil {
				tc.target = &fakeTarget{}
			}
			tc.target.name = "fake"
			r := run(t, t.Context(), runner.Options{Targets: []target.Target{tc.target}, Specs: &fakeSpecs{err: tc.specs}}, parse(t, tc.text))
			if len(r.Results) != 1 || !r.Complete {
				t.Fatalf("report: %+v; want one result", r)
			}
			got := r.Results[0]
			words := got.Reason
			for _, f := range got.Findings {
				words += " " + f.What + " " + f.Got
			}
			if got.Verdict != tc.want || !strings.Contains(words, tc.why) {
				t.Errorf("verdict %s, %q; want %s with %q", got.Verdict, words, tc.want, tc.why)
			}
			if (got.Verdict == reports.Pass || got.Verdict == reports.Skip) && len(got.Findings) > 0 || got.Verdict == reports.Fail && len(got.Findings) == 0 {
				t.Errorf("%s with findings %+v", got.Verdict, got.Findings)
			}
		})
	}
}

func TestARunningContainerKeepsItsPlan(t *testing.T) {
	specs := &fakeSpecs{}
	var traces []runner.Trace
	r := run(t, t.Context(), runner.Options{
		Targets: []target.Target{&fakeTarget{name: "fake"}}, Specs: specs, Trace: func(tr runner.Trace) { traces = append(traces, tr) },
	}, parse(t, `
host: t4-server
driver: 535
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=0}}}}
steps:
  - start: c1
  - change: {driver: 550}
    expect: {c1: {absent: ["/usr/lib/x86_64-linux-gnu/libcuda.so.550*"], mounts: {/usr/lib/x86_64-linux-gnu/libcuda.so.535.113.01: ro}}}
  - restart: c1
expect: {c1: {absent: ["/usr/lib/x86_64-linux-gnu/libcuda.so.535*"]}}
`))
	if r.Totals.Pass != 1 {
		t.Errorf("results: %+v", r.Results)
	}
	if n := specs.calls.Load(); n != 2 {
		t.Errorf("%d Specs were made; want one for each state of the host", n)
	}
	if len(traces) != 1 || len(traces[0].Steps) < 4 || traces[0].Steps[0].Host == nil || traces[0].Result.Verdict != reports.Pass {
		t.Fatalf("traces: %+v", traces)
	}
	s := r.Results[0].Stations
	if len(s.Host) != 12 || len(s.Spec) != 12 || len(s.Plan["c1"]) != 12 || len(s.Seen["c1"]) != 12 {
		t.Errorf("stations: %+v; want digests of all", s)
	}
}

func TestPlugAndUnplug(t *testing.T) {
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{&fakeTarget{name: "fake"}}}, parse(t, `
host: dgx-a100
containers:
  c1: {devices: {gpu0: {id: nvidia.com/gpu=0}}}
  c2: {devices: {gpu0: {id: nvidia.com/gpu=0}, gpu1: {id: nvidia.com/gpu=1}}}
  c3: {devices: {}}
steps:
  - start: c1
  - start: c2
  - plug: {container: c1, name: gpu1, device: {id: nvidia.com/gpu=1}}
    expect: {c1: {same-as: c2}}
  - plug: {container: c1, name: gpu9, device: {id: nvidia.com/gpu=99}}
    expect: {c1: {refused: not-found, same-as: c2}}
  - change: {unload: true}
  - unplug: {container: c1, name: gpu1}
    expect: {c1: {only-nodes: [/dev/nvidia0]}}
  - unplug: {container: c1, name: gpu0}
expect: {c1: {only-nodes: [], running: true}}
`))
	if r.Totals.Pass != 1 {
		t.Errorf("results: %+v", r.Results)
	}
}

func TestTargetsAreCompared(t *testing.T) {
	other := &fakeTarget{name: "other", look: func(o *observe.Observation) {
		o.Nodes = append(o.Nodes, observe.Node{Path: "/dev/extra", Type: device.Char, Num: device.Num{Major: 1, Minor: 1}})
	}}
	opts := runner.Options{Targets: []target.Target{&fakeTarget{name: "fake"}, other}}
	// The expectation is met on both; only the comparison sees the difference.
	r := run(t, t.Context(), opts, parse(t, "host: no-gpu\ncontainers: {c1: {devices: {}}}\nexpect: {c1: {running: true}}"))
	found := slices.ContainsFunc(r.Results[1].Findings, func(f reports.Finding) bool {
		return f.Station == "across" && f.What == "nodes /dev/extra" && f.Want == "nothing on fake"
	})
	if r.Results[0].Verdict != reports.Pass || r.Results[1].Verdict != reports.Fail || !found {
		t.Errorf("results: %+v; want a finding across the targets", r.Results)
	}
	other.look = nil
	if r := run(t, t.Context(), opts, parse(t, one)); r.Totals.Pass != 2 {
		t.Errorf("results of equal targets: %+v", r.Results)
	}
}

// A target that lies about one entry, of whatever part, is found out: the count is one
// short, and the finding has both sides.
func TestALieAboutOneEntryShows(t *testing.T) {
	honest := func(o *observe.Observation) {
		o.Links = []observe.Link{{Path: "/usr/lib/libcuda.so.1", Target: "libcuda.so.535", Final: "/usr/lib/libcuda.so.535"}}
		o.Libraries = []observe.Library{{SONAME: "libcuda.so.1", Path: "/usr/lib/libcuda.so.1", Final: "/usr/lib/libcuda.so.535", Via: "cache"}}
		o.Files = []observe.File{{Path: "/etc/x", Type: "file", Size: 1}}
		o.Env, o.Groups = []string{"A=1"}, []uint32{44}
		o.Smoke = &observe.Smoke{Devices: []string{"GPU-1"}, Kernels: "pass"}
	}
	for what, lie := range map[string]func(o *observe.Observation){
		"nodes /dev/nvidia1": func(o *observe.Observation) { o.Nodes[0].Open = observe.Denied },
		"mounts /usr/lib/x86_64-linux-gnu/libcuda.so.535.113.01": func(o *observe.Observation) { o.Mounts[0].Options = []string{"rw"} },
		"links /usr/lib/libcuda.so.1":                            func(o *observe.Observation) { o.Links[0].Final = "" },
		"libraries libcuda.so.1":                                 func(o *observe.Observation) { o.Libraries[0].Via = "path" },
		"files /etc/x":                                           func(o *observe.Observation) { o.Files[0].Size = 2 },
		"env A":                                                  func(o *observe.Observation) { o.Env[0] = "A=2" },
		"groups 44":                                              func(o *observe.Observation) { o.Groups = nil },
		"smoke smoke workload":                                   func(o *observe.Observation) { o.Smoke.Kernels = "wrong" },
	} {
		liar := &fakeTarget{name: "liar", look: func(o *observe.Observation) { honest(o); lie(o) }}
		opts := runner.Options{Targets: []target.Target{&fakeTarget{name: "fake", look: honest}, liar}}
		r := run(t, t.Context(), opts, parse(t, one))
		var across []reports.Finding
		for _, f := range r.Results[1].Findings {
			if f.Station == "across" {
				across = append(across, f)
			}
		}
		if len(across) != 1 || across[0].What != what || !strings.HasSuffix(across[0].Want, " on fake") || !strings.HasSuffix(across[0].Got, " on liar") {
			t.Errorf("%s: findings %+v", what, across)
		}
		sums := reports.Across(r.Results)
		if len(sums) != 1 || sums[0].Scenarios != 1 || sums[0].Agree != sums[0].Entries-1 || sums[0].Entries < 9 {
			t.Errorf("%s: %+v; want one entry that does not agree", what, sums)
		}
	}
}

func TestOnlyTargetsOfOneFamilyAreCompared(t *testing.T) {
	extra := func(o *observe.Observation) { o.Env = append(o.Env, "EXTRA=1") }
	for family, want := range map[string]reports.Verdict{"lxc": reports.Fail, "oci-runc": reports.Pass} {
		a, b := &fakeTarget{name: "a", family: "lxc"}, &fakeTarget{name: "b", family: family, look: extra}
		r := run(t, t.Context(), runner.Options{Targets: []target.Target{a, b}}, parse(t, one))
		if r.Results[0].Verdict != reports.Pass || r.Results[1].Verdict != want {
			t.Errorf("family %s: %+v; want %s", family, r.Results, want)
		}
	}
}

// What no container of a target can have done to it is no failure.
func TestWhatATargetCannotDoIsSkipped(t *testing.T) {
	f := &fakeTarget{name: "fake"}
	f.start = func(p plan.Plan) error {
		if len(p.Devices) > 1 {
			return &target.CannotError{Target: "fake", Why: "not applicable: nothing is plugged in"}
		}
		return nil
	}
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{f}}, parse(t, `
host: dgx-a100
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=0}}}}
steps:
  - start: c1
  - plug: {container: c1, name: gpu1, device: {id: nvidia.com/gpu=1}}
expect: {c1: {running: true}}
`))
	if r.Totals.Skip != 1 || r.Results[0].Reason != "not applicable: nothing is plugged in" {
		t.Errorf("results: %+v; want a skip with the reason", r.Results)
	}
	f.left(t)
}

func TestSpecsAreMadeOncePerHost(t *testing.T) {
	specs := &fakeSpecs{}
	vs := parse(t, one+"matrix: {cgroup: [v1, v2], idmap: [none, default], image: [glibc, musl, none]}")
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{&fakeTarget{name: "fake"}}, Specs: specs, Jobs: 4}, vs)
	if r.Totals.Pass != len(vs) || specs.calls.Load() != 1 {
		t.Errorf("totals %+v of %d with %d Specs made; want all passed with one", r.Totals, len(vs), specs.calls.Load())
	}
}

// Ctrl-C: containers are removed, nothing is called pass, and the report says
// that it is not complete.
func TestCancelLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tg := &fakeTarget{name: "fake", start: func(plan.Plan) error { cancel(); return nil }}
	vs := parse(t, one+"matrix: {image: [a, b, c, d, e, f]}\nsteps: [{start: c1}, {stop: c1}, {start: c1}]")
	r := run(t, ctx, runner.Options{Targets: []target.Target{tg}, Jobs: 2}, vs)
	if r.Complete || len(r.Results) > 0 {
		t.Errorf("complete %v with %d results; want an incomplete report without any", r.Complete, len(r.Results))
	}
}

func TestASlowScenarioIsBroken(t *testing.T) {
	tg := &fakeTarget{name: "fake"}
	tg.start = func(plan.Plan) error { time.Sleep(20 * time.Millisecond); return nil }
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{tg}, Timeout: time.Millisecond}, parse(t, one+"steps: [{start: c1}, {stop: c1}]"))
	if r.Totals.Broken != 1 || !strings.Contains(r.Results[0].Reason, "took too long: 1ms") {
		t.Errorf("results: %+v; want broken after 1ms", r.Results)
	}
}

// What the kernel refuses to a program of the host ends the scenario, and is no fault
// of the product.
func TestAWriteThatIsRefusedIsBroken(t *testing.T) {
	const write = "{write: {/sys/bus/pci/drivers/nvidia/unbind: \"0000:99:00.0\"}}"
	for _, text := range []string{one + "changes: [" + write + "]", one + "steps: [{start: c1}, {change: " + write + "}]"} {
		r := run(t, t.Context(), runner.Options{Targets: []target.Target{&fakeTarget{name: "fake"}}}, parse(t, text))
		if r.Totals.Broken != 1 || !strings.Contains(r.Results[0].Reason, "unbind: no such device") {
			t.Errorf("results: %+v; want broken by ENODEV", r.Results)
		}
	}
}

// What was written to sysfs is forgotten by a boot; what was installed stays.
func TestABootForgetsWhatWasWritten(t *testing.T) {
	const write = `{write: {/sys/bus/pci/drivers/nvidia/unbind: "0000:0f:00.0"}}`
	for _, text := range []string{
		"changes: [" + write + `, {driver: "570"}]` + "\nsteps: [{reboot: true}, {start: c1}]",
		"steps: [{change: " + write + `}, {change: {driver: "570"}}, {reboot: true}, {start: c1}]`,
	} {
		text = "host: dgx-a100\n" + text + `
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=1}}}}
expect: {c1: {mounts: {/usr/lib/x86_64-linux-gnu/libcuda.so.570.153.02: ""}, nodes: {/dev/nvidia1: {}}, host: {functions: {"0000:0f:00.0": {driver: nvidia}}}}}
`
		r := run(t, t.Context(), runner.Options{Targets: []target.Target{&fakeTarget{name: "fake"}}}, parse(t, text))
		if r.Totals.Pass != 1 {
			t.Errorf("%s: %+v", text, r.Results)
		}
	}
}
