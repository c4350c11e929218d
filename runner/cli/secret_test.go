package cli_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/runner/cli"
	"gpurig/scenarios"
)

// secretText is what the hosts of scenarios keep to their root. Where a scenario names it
// here, that is spelled otherwise: whatever has these bytes has read the file.
const (
	secretText  = "canary-5f1c7e"
	secretYAML  = `\x63anary-5f1c7e`
	readable    = `modes: {/srv/share/secret: "0600"}`
	readableNow = `modes: {/srv/share/secret: "0644"}`
)

// A46: what only the host's root may read is in no report of a run, nor in what a run or
// an explanation says. The twin, in which all may read it and a scenario compares it, is
// in each report: they would show it.
func TestASecretIsInNoReport(t *testing.T) {
	names, err := fs.Glob(scenarios.Files, "images/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, name := range names {
		data, err := fs.ReadFile(scenarios.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(string(data), "["+secretText+"]", `["`+secretYAML+`"]`), secretText, secretYAML)
		if text == string(data) || !strings.Contains(text, readable) {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			for where, text := range everyReport(t, text, cli.ExitOK) {
				if strings.Contains(text, secretText) {
					t.Errorf("%s has the secret: %s", where, text)
				}
			}
			if !strings.Contains(text, "mounts: {/mnt/share") { // its container does not start
				return
			}
			twin := strings.Replace(strings.Replace(text, readable, readableNow, 1), `nowhere: ["`+secretYAML+`"]`, `contents: {/mnt/share/secret: other}`, 1)
			for where, text := range everyReport(t, twin, cli.ExitFailed) {
				if strings.HasPrefix(where, "report") && !strings.Contains(text, secretText) {
					t.Errorf("%s does not show what a container has read: %s", where, text)
				}
			}
		})
	}
	if tried < 5 {
		t.Errorf("%d scenarios have a secret of the host, want 5 at least", tried)
	}
}

// everyReport runs a scenario, and returns its reports and what is said of it.
func everyReport(t *testing.T, scenario string, want int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(file, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	command := func(args ...string) int {
		var o, e bytes.Buffer
		code := cli.Main(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e}, args)
		out[args[0]] = o.String() + e.String()
		return code
	}
	run := []string{"run", file}
	names := []string{"report.json", "report.html", "report.md", "report.xml"}
	for _, n := range names {
		run = append(run, "--report", filepath.Join(dir, n))
	}
	if code := command(run...); code != want {
		t.Fatalf("exit code %d, want %d: %s", code, want, out["run"])
	}
	if code := command("explain", file); code > cli.ExitFailed {
		t.Errorf("explain: exit code %d: %s", code, out["explain"])
	}
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		out[n] = string(data)
	}
	return out
}
