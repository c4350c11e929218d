package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gpurig/core/cdi/nvidia"
	"gpurig/fakehw"
	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/observe"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// hardware is a machine at hand that is a fake host in memory.
func hardware(t *testing.T, name string) *runner.Hardware {
	t.Helper()
	p, err := profiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	root, err := fakehw.Build(m)
	if err != nil {
		t.Fatal(err)
	}
	return &runner.Hardware{Root: root, Model: m, NVIDIA: func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
		return (&fakeSpecs{}).Generate(ctx, specgen.Request{Model: m, Options: o})
	}}
}

const portable = `
needs: {gpus: ">=1", vendor: nvidia}
host: t4-server
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=<first>}}}}
`

// On hardware a scenario runs, is skipped or is broken, each with its reason, and the
// machine's faults are no failures of the product.
func TestHardware(t *testing.T) {
	busy := errors.New("init: cuda-error: out of memory")
	works := func(answers ...error) func(context.Context) error {
		return func(context.Context) error {
			err := answers[0]
			if len(answers) > 1 {
				answers = answers[1:]
			}
			return err
		}
	}
	seen := portable + "expect: {c1: {nodes: {/dev/nvidia<first.minor>: {number: \"195:<first.minor>\"}}}}"
	smoke := portable + "expect: {c1: {smoke: {devices: 1, kernels: pass, uuids: [<first.uuid>]}}}"
	for _, tc := range []struct {
		name, host, text string
		problem          string
		works            func(context.Context) error
		look             func(*observe.Observation)
		want             reports.Verdict
		why              string
	}{
		{name: "placeholders bind to what is there", host: "a100-mig-mixed", text: seen, want: reports.Pass},
		{name: "a node is not seen", host: "dgx-a100", text: seen, look: func(o *observe.Observation) { o.Nodes = nil }, want: reports.Fail, why: "/dev/nvidia0"},
		{name: "names a fake host", host: "t4-server", text: one, want: reports.Skip, why: "names the fake host dgx-a100"},
		{name: "no full GPU", host: "a100-mig-2g-3g", text: seen, want: reports.Skip, why: "<first>"},
		{name: "another vendor", host: "amd-mi300x", text: seen, want: reports.Skip, why: "needs >=1 GPUs of nvidia"},
		{name: "no driver", host: "no-driver", text: seen, want: reports.Skip, why: "driver, and it is not loaded"},
		{name: "a problem of the machine", host: "t4-server", text: seen, problem: "the library does not start", want: reports.Skip, why: "the library does not start"},
		{name: "a reboot", host: "t4-server", text: seen + "\nsteps: [{start: c1}, {reboot: true}]", want: reports.Skip, why: "changes its host (step 2: reboot)"},
		{name: "a change before", host: "t4-server", text: seen + "\nchanges: [{unload: true}]", want: reports.Skip, why: "begins with changes"},
		{name: "a GPU that is busy", host: "t4-server", text: smoke, works: works(busy), want: reports.Skip, why: "outside of any container: init: cuda-error: out of memory"},
		{name: "a GPU that becomes busy", host: "t4-server", text: smoke, works: works(nil, busy), look: func(o *observe.Observation) {
			o.Smoke = &observe.Smoke{Step: "init", Cause: "cuda-error"}
		}, want: reports.Broken, why: "not work outside of containers any more"},
		{name: "a workload that fails inside alone", host: "t4-server", text: smoke, works: works(nil), look: func(o *observe.Observation) {
			o.Smoke = &observe.Smoke{Step: "init", Cause: "node-forbidden"}
		}, want: reports.Fail, why: "smoke workload"},
		{name: "another GPU than was asked for", host: "t4-server", text: smoke, works: works(nil), look: func(o *observe.Observation) {
			o.Smoke = &observe.Smoke{Devices: []string{"GPU-other"}, Kernels: "pass"}
		}, want: reports.Fail, why: "GPU-other"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hardware(t, tc.host)
			h.Problem, h.Works = tc.problem, tc.works
			opts := runner.Options{Hardware: h, Targets: []target.Target{&fakeTarget{name: "fake", look: tc.look}}}
			r := run(t, t.Context(), opts, runner.OnHardware(parse(t, tc.text)))
			got := r.Results[0]
			why := got.Reason
			for _, f := range got.Findings {
				why += f.Line()
			}
			if got.Verdict != tc.want || !strings.Contains(why, tc.why) {
				t.Errorf("%s: %q; want %s: %q", got.Verdict, why, tc.want, tc.why)
			}
			if tc.want == reports.Pass && got.Host != runner.ThisMachine {
				t.Errorf("host %q", got.Host)
			}
		})
	}
}

// Which fake host a scenario would be run on does not matter on hardware.
func TestOnHardwareHostsFallTogether(t *testing.T) {
	text := strings.Replace(portable, "host: t4-server", "matrix: {host: [t4-server, dgx-a100], cgroup: [v1, v2]}", 1) + "expect: {c1: {running: true}}"
	all := parse(t, text)
	var ids []string
	for _, v := range runner.OnHardware(all) {
		ids = append(ids, v.ID())
	}
	if got := strings.Join(ids, " "); len(all) != 4 || got != "test/one[cgroup=v1] test/one[cgroup=v2]" {
		t.Errorf("%d variants became %s", len(all), got)
	}
	if got := runner.OnHardware([]scenarios.Variant{all[0]})[0].Host; got != runner.ThisMachine || all[0].Host != "t4-server" {
		t.Errorf("host %q; the variant itself has %q", got, all[0].Host)
	}
}
