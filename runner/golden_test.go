package runner_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"gpurig/core/cdi/nvidia"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/golden"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
)

const specsDir = "../fixtures/specs"

// A recorder keeps the checked-in file for every request that passes through.
type recorder struct {
	*specgen.Generator
	mu    sync.Mutex
	files map[string][]byte // text by path below specsDir
	errs  []error
}

func (r *recorder) Generate(ctx context.Context, q specgen.Request) (*nvidia.Result, error) {
	res, err := r.Generator.Generate(ctx, q)
	file, text, ferr := specgen.GoldenFile(q, res, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ferr != nil {
		r.errs = append(r.errs, ferr)
	} else {
		r.files[file] = text
	}
	return res, err
}

// runShipped runs every shipped scenario on sim with Specs of this source.
func runShipped(t *testing.T, specs runner.SpecSource) reports.Report {
	t.Helper()
	machine, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{machine}, Specs: specs, Hosts: runner.Profiles{}}, shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

var ran struct {
	sync.Once
	report reports.Report
	rec    *recorder
}

// shippedRun is the run that several tests look at, with Specs made by this
// machine.
func shippedRun(t *testing.T) (reports.Report, *recorder) {
	ran.Do(func() {
		ran.rec = &recorder{Generator: generator(t, specgen.Options{}), files: map[string][]byte{}}
		ran.report = runShipped(t, ran.rec)
	})
	return ran.report, ran.rec
}

func generator(t *testing.T, o specgen.Options) *specgen.Generator {
	g := specgen.New(o)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// The checked-in Specs are what machines use that allow no fake root directory.
// They are what the generator makes now, all that shipped scenarios ask for, and
// nothing more.
func TestGoldenSpecsOfShippedScenariosAreFresh(t *testing.T) {
	report, rec := shippedRun(t)
	for _, r := range report.Results {
		if r.Verdict == reports.Skip {
			t.Skipf("%s: %s", r.Key(), r.Reason) // this machine makes no Spec
		}
	}
	for _, err := range rec.errs {
		t.Error(err)
	}
	files := maps.Clone(rec.files)
	for _, file := range hostsAsTheyAre(t, generator(t, specgen.Options{})) {
		delete(files, file)
	}
	if len(files) < 20 {
		t.Fatalf("only %d requests were seen", len(files))
	}
	there, err := filepath.Glob(specsDir + "/more/*.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		rel, _ := filepath.Rel(specsDir, file)
		if _, asked := files[rel]; asked {
			continue
		}
		if !golden.Updating() {
			t.Errorf("%s answers no shipped scenario; make golden removes it", rel)
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(files)) {
		check(t, filepath.Join(specsDir, rel), files[rel])
	}
}

// hostsAsTheyAre returns the files that would answer for unchanged hosts, which
// have files of their own: asked for the mode that fits the host, by name or not.
func hostsAsTheyAre(t *testing.T, g *specgen.Generator) []string {
	t.Helper()
	var out []string
	for _, name := range profiles.Names() {
		m, err := (runner.Profiles{}).Host(name, "")
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Generate(t.Context(), specgen.Request{Model: m})
		modes := []string{""}
		if res != nil {
			modes = append(modes, res.Mode)
		}
		for _, mode := range modes {
			file, _, ferr := specgen.GoldenFile(specgen.Request{Model: m, Options: nvidia.Options{Mode: mode}}, res, err)
			if ferr != nil {
				t.Fatal(ferr)
			}
			out = append(out, file)
		}
	}
	return out
}

// check compares one file, or writes it anew where its text differs: another
// version of Go may compress the same text to other bytes.
func check(t *testing.T, file string, text []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		data, err = specgen.Expand(data)
	}
	switch {
	case err == nil && bytes.Equal(data, text):
	case !golden.Updating():
		t.Errorf("%s: not what the generator makes for a shipped scenario now; make golden rewrites it: %v", file, cmp.Or(err, errors.New("another text")))
	default:
		packed, err := specgen.Compress(text)
		if err == nil {
			err = os.WriteFile(file, packed, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// On a machine that allows neither user namespaces nor FUSE every shipped
// scenario is judged all the same.
func TestShippedScenariosNeedNoPrivilegeAtAll(t *testing.T) {
	if golden.Updating() {
		t.Skip("the checked-in Specs are being rewritten")
	}
	report := runShipped(t, generator(t, specgen.Options{NoChild: true}))
	for _, r := range report.Results {
		if r.Verdict != reports.Pass {
			t.Errorf("%s: %s: %s", r.Key(), r.Verdict, r.Reason)
		}
	}
	if report.Totals.Pass == 0 {
		t.Error("nothing was judged")
	}
}
