// Package gpurigtest runs scenarios as tests of a Go project, and gives its code the
// files of a fake host.
//
// Run has a subtest for each variant of the scenarios of a folder, simulated: no
// privileges, no container and no GPU are needed. Host is a fake host as an afero.Fs:
// code that takes one reads /sys, /proc, /dev and the driver's files of a DGX or a
// Jetson as it would read the machine's own. Ginkgo users declare scenarios with
// DescribeScenarios of package gpurigtest/ginkgotest.
//
// NVIDIA's generator reads the host by name, so it runs in a child process of the
// test program whose root directory is the fake host: TestMain must call Main.
package gpurigtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"gpurig/fakehw"
	"gpurig/fakehw/aferofs"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/mntns"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// Main runs the tests of a package, as TestMain, and ends the program.
func Main(m *testing.M) {
	mntns.Init()
	os.Exit(m.Run())
}

// Options adjust a run. The zero value runs every scenario on its own host.
type Options struct {
	Label  string   // an expression such as "mig && !slow"; empty: all scenarios
	Faults []string // over every host: "off-bus:0". Scenarios whose host cannot have one are skipped
}

// Run runs the scenarios of a folder or of one file, each variant a subtest that has
// its name: "mig/one-of-two[cgroup=v2]". A mistake in a file ends the test with its
// place. A variant that cannot be judged fails, too: it says why.
func Run(t *testing.T, path string, o Options) {
	t.Helper()
	all, err := scenarios.Load(runner.Words(), path)
	if err != nil {
		t.Fatal(err)
	}
	fits, err := scenarios.ParseLabels(o.Label)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	ran := 0
	for _, v := range scenarios.ExpandAll(all) {
		if !fits(v.AllLabels()) {
			continue
		}
		ran++
		t.Run(v.ID(), func(t *testing.T) {
			switch verdict, text := r.Judge(t, v); verdict {
			case reports.Pass:
			case reports.Skip:
				t.Skip(text)
			default:
				t.Error(text)
			}
		})
	}
	if ran == 0 {
		t.Fatalf("%s: no scenario with labels %q", path, o.Label)
	}
}

// A Runner runs variants one after another, and keeps what is made of their hosts.
type Runner struct {
	runner *runner.Runner
	specs  *specgen.Generator
}

// New returns a Runner, which is to be closed. The error is a mistake in o.
func New(o Options) (*Runner, error) {
	var faults fault.List
	for _, text := range o.Faults {
		f, err := fault.Parse(text)
		if err == nil {
			faults, err = faults.With(f)
		}
		if err != nil {
			return nil, err
		}
	}
	simulated, err := sim.New(nil)
	if err != nil {
		return nil, err
	}
	specs := specgen.New(specgen.Options{Children: 1})
	r, err := runner.New(runner.Options{Targets: []target.Target{simulated}, Specs: specs, Hosts: runner.Profiles{}, Jobs: 1, Faults: faults})
	if err != nil {
		return nil, err
	}
	return &Runner{r, specs}, nil
}

// Close ends what the Runner has started.
func (r *Runner) Close() error { return r.specs.Close() }

// Judge runs one variant. The text says why it was not passed: for a failure each
// difference on a line, the first station on the way from host to container before
// the others.
func (r *Runner) Judge(t testing.TB, v scenarios.Variant) (reports.Verdict, string) {
	t.Helper()
	report := r.runner.Run(t.Context(), []scenarios.Variant{v})
	if len(report.Results) != 1 {
		return reports.Broken, "the run was cut short"
	}
	result := report.Results[0]
	if result.Verdict == reports.Pass || result.Verdict == reports.Skip {
		return result.Verdict, result.Reason
	}
	lines := []string{string(result.Verdict) + ": " + v.Title}
	if result.Reason != "" {
		lines = append(lines, result.Reason)
	}
	for _, f := range result.Findings {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", result.File, f.Line, f.Text()))
	}
	lines = append(lines, "again: "+result.Run)
	return result.Verdict, strings.Join(lines, "\n")
}

// Host returns the files of a fake host: of the profile of that name (gpurig host
// list), of a profile in a file ("./lab.yaml") or of a recording ("./lab.txtar").
// Each call returns files of their own; what is written to them stays in memory.
func Host(t testing.TB, name string) afero.Fs {
	t.Helper()
	model, err := runner.Profiles{}.Host(name, "")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := fakehw.Build(model)
	if err != nil {
		t.Fatal(err)
	}
	return aferofs.New(tree)
}
