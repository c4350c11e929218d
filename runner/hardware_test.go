package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/passthrough"
	"gpurig/fakehw"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/observe"
	"gpurig/runner/partition"
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
	return &runner.Hardware{Host: passthrough.New(root, nvmlfake.New(m, nvmlfake.Options{}), passthrough.HostOptions{
		Generate: func(ctx context.Context, o nvidia.Options) (*nvidia.Result, error) {
			return (&fakeSpecs{}).Generate(ctx, specgen.Request{Model: m, Options: o})
		},
	})}
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
		{name: "a virtual machine", host: "vgpu-a40", text: "host: vgpu-a40\nneeds: {gpus: \">=1\"}\ncontainers: {vm1: {vm: true, devices: {gpu0: {pci: <first.pci>}}}}\nexpect: {vm1: {running: true}}", want: reports.Skip, why: "hands GPUs to virtual machines"},
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
				why += f.Text()
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

// A machine that was re-partitioned is put back whatever came of the scenario; where
// that fails nothing is passed over in silence.
func TestWhatWasChangedIsPutBack(t *testing.T) {
	cut := portable + "changes: [{mig: {gpu: 1, profiles: [1g.5gb]}}]\nexpect: {c1: {running: true}}"
	for _, tc := range []struct {
		name, text string
		look       func(*observe.Observation)
		change     error
		back       error
		want       reports.Verdict
		why        string
		undone     int
	}{
		{name: "passed", text: cut, want: reports.Pass, undone: 1},
		{name: "failed", text: portable + "changes: [{mig: {gpu: 1}}]\nexpect: {c1: {absent: [/dev/nvidia0]}}", want: reports.Fail, undone: 1},
		{name: "in a step", text: portable + "steps: [{start: c1}, {change: {mig: {gpu: 1}}}, {restart: c1}]\nexpect: {c1: {running: true}}", want: reports.Pass, undone: 1},
		{name: "nothing to bind to", text: strings.Replace(cut, "<first>", "<mig>", 1), want: reports.Skip, why: "<mig>", undone: 1},
		{name: "panicked", text: cut, look: func(*observe.Observation) { panic("look") }, want: reports.Broken, why: "look", undone: 1},
		{name: "not put back", text: cut, back: errors.New("in use"), want: reports.Broken, why: "this machine is not as it was: in use", undone: 1},
		{name: "skipped and not put back", text: strings.Replace(cut, "<first>", "<mig>", 1), back: errors.New("in use"), want: reports.Broken, why: "not as it was", undone: 1},
		{name: "the GPU cannot", text: cut, change: fmt.Errorf("%w: no profile", partition.ErrCannot), want: reports.Skip, why: "cannot be re-partitioned: no profile"},
		{name: "the change fails", text: cut, change: errors.New("GPU is lost"), want: reports.Broken, why: "GPU is lost"},
		{name: "another change", text: portable + "changes: [{unload: true}]\nexpect: {c1: {running: true}}", want: reports.Skip, why: "left as it is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hardware(t, "dgx-a100")
			undone := 0
			found := 0
			h.Reopen = func() *passthrough.Host { found++; return h.Host }
			h.Partition = func(c scenarios.MIGChange) (func() error, error) {
				if tc.change != nil {
					return nil, tc.change
				}
				return func() error { undone++; return tc.back }, nil
			}
			ft := &fakeTarget{name: "fake", look: tc.look}
			r := run(t, t.Context(), runner.Options{Hardware: h, Targets: []target.Target{ft}}, runner.OnHardware(parse(t, tc.text)))
			got := r.Results[0]
			if found != 2*tc.undone {
				t.Errorf("the machine was looked at %d times; want after the change, and after it was put back", found)
			}
			if got.Verdict != tc.want || !strings.Contains(got.Reason, tc.why) || undone != tc.undone {
				t.Errorf("%s: %q %+v, put back %d times; want %s: %q, %d times", got.Verdict, got.Reason, got.Findings, undone, tc.want, tc.why, tc.undone)
			}
		})
	}
}
