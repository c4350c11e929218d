package gpurigtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fixtures/ownmodule"
)

// A project in a module of its own runs its scenarios, and a wrong expectation makes
// its go test fail with the place in the file.
func TestAModuleOfItsOwnRunsItsScenarios(t *testing.T) {
	m := ownmodule.Copy(t, "testdata/module", "../..")
	scenario, err := os.ReadFile("testdata/lab/one-gpu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(m.Dir, "scenarios", "one-gpu.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(m.Dir, "scenarios"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(string(scenario))
	if out := m.Run("go", "test", "-v", "."); !strings.Contains(out, "--- PASS: TestScenarios/") {
		t.Errorf("no scenario is a test:\n%s", out)
	}
	write(strings.Replace(string(scenario), "/dev/nvidia0", "/dev/nvidia7", 1))
	if out, err := m.Command("go", "test", ".").CombinedOutput(); err == nil || !strings.Contains(string(out), "one-gpu.yaml:") {
		t.Errorf("a wrong expectation: %v\n%s", err, out)
	}
}
