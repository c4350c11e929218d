package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// Scenarios that people read in the documentation pass as they stand there.
// Those on a recording beside them are read only.
func TestScenariosInTheDocumentationPass(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	words := runner.Words()
	words.HostFile = nil // a page shows the reader's own files
	var variants []scenarios.Variant
	for _, file := range append(files, "../README.md") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(data), "```yaml\n")[1:] {
			text, _, _ := strings.Cut(block, "```")
			if !strings.Contains(text, "\nhost: ") {
				continue
			}
			s, err := scenarios.Parse("docs/example", file, []byte(text), words)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			} else if !strings.HasPrefix(s.Host, "./") {
				variants = append(variants, scenarios.ExpandAll([]scenarios.Scenario{s})...)
			}
		}
	}
	if len(variants) < 2 {
		t.Fatalf("%d scenarios were found; the test looked in the wrong place", len(variants))
	}
	machine, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{machine}, Specs: generator(t, specgen.Options{}), Hosts: runner.Profiles{}}, variants)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if x.Verdict != reports.Pass && x.Verdict != reports.Skip {
			t.Errorf("%s: %s %s %+v", x.Key(), x.Verdict, x.Reason, x.Findings)
		}
	}
}

// Every profile in the documentation is one.
func TestDocumentationHasProfilesThatLoad(t *testing.T) {
	text, err := os.ReadFile("../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
		data, _, _ := strings.Cut(block, "```")
		if !profiles.Is([]byte(data)) {
			continue
		}
		file := filepath.Join(t.TempDir(), fmt.Sprintf("p%d.yaml", i))
		if err := os.WriteFile(file, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := (runner.Profiles{}).Host(file, ""); err != nil {
			t.Errorf("%v\n%s", err, data)
		}
		loaded++
	}
	if loaded < 3 {
		t.Errorf("docs/hosts.md has %d profiles", loaded)
	}
}
