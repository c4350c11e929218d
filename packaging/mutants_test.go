package packaging

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// mutantsEnv has the mutants built and run, which takes a quarter of an hour: make
// mutants sets it. Its value names those to run, as path.Match patterns between
// commas; "all": every one.
const mutantsEnv = "GPURIG_MUTANTS"

// wantCaught is the share of mutants, in percent, that scenarios have to catch.
const wantCaught = 90

// A mutant is one small mistake in the product's code: a file of folder mutants,
// whose name begins with the room that it is in. Its comment says what is wrong, in
// one sentence. A line "survives: WHY" is a reason why no scenario can see it.
//
// A section "FILE old" is text that stands once in FILE, of the repository, and the
// section after it, "FILE new", what stands there instead.
type mutant struct {
	name, about, survives string
	changes               []change
}

type change struct{ file, old, new string }

func parseMutant(name string, data []byte) (mutant, error) {
	a := txtar.Parse(data)
	m := mutant{name: name}
	for line := range strings.Lines(string(a.Comment)) {
		line = strings.TrimSpace(line)
		if why, ok := strings.CutPrefix(line, "survives: "); ok {
			m.survives = why
		} else if line != "" {
			m.about = strings.TrimSpace(m.about + " " + line)
		}
	}
	if m.about == "" {
		return m, fmt.Errorf("%s: no comment says what is wrong", name)
	}
	for i := 0; i < len(a.Files); i += 2 {
		file, isOld := strings.CutSuffix(a.Files[i].Name, " old")
		if !isOld || i+1 == len(a.Files) || a.Files[i+1].Name != file+" new" {
			return m, fmt.Errorf("%s: section %q: want pairs \"FILE old\", \"FILE new\"", name, a.Files[i].Name)
		}
		m.changes = append(m.changes, change{file, string(a.Files[i].Data), string(a.Files[i+1].Data)})
	}
	if len(m.changes) == 0 {
		return m, fmt.Errorf("%s: nothing is changed", name)
	}
	return m, nil
}

// mutate returns the changed files.
func (m mutant) mutate() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, c := range m.changes {
		text, ok := out[c.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join("..", c.file)); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
		if n := bytes.Count(text, []byte(c.old)); n != 1 {
			return nil, fmt.Errorf("%s: the old text stands %d times in %s, want once", m.name, n, c.file)
		}
		text = bytes.Replace(text, []byte(c.old), []byte(c.new), 1)
		if _, err := format.Source(text); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", m.name, c.file, err)
		}
		out[c.file] = text
	}
	return out, nil
}

func readMutants(t *testing.T) []mutant {
	t.Helper()
	files, err := filepath.Glob("mutants/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	var out []mutant
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMutant(strings.TrimSuffix(filepath.Base(f), ".txtar"), data)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// TestMutantsFit: every mutant can be put into the code as it is now.
func TestMutantsFit(t *testing.T) {
	for _, m := range readMutants(t) {
		if _, err := m.mutate(); err != nil {
			t.Error(err)
		}
	}
}

// TestMutants: the shipped scenarios, simulated, catch nearly every mistake in the
// code that ships: a run with it fails. The checked-in Specs are left out, since the
// generator is part of what is judged.
func TestMutants(t *testing.T) {
	which := os.Getenv(mutantsEnv)
	if which == "" {
		t.Skipf("make mutants runs it (%s=all)", mutantsEnv)
	}
	dir := t.TempDir()
	if out, code := runMutated(t, dir, nil); code != 0 {
		t.Fatalf("without any mistake the scenarios end with code %d:\n%s", code, out)
	}
	caught, all := 0, 0
	for _, m := range readMutants(t) {
		if which != "all" && !slices.ContainsFunc(strings.Split(which, ","), func(p string) bool { ok, _ := filepath.Match(p, m.name); return ok }) {
			continue
		}
		changed, err := m.mutate()
		if err != nil {
			t.Fatal(err)
		}
		all++
		out, code := runMutated(t, dir, changed)
		switch {
		case code == 1:
			caught++
			t.Logf("caught    %s: %s", m.name, firstFailure(out))
			if m.survives != "" {
				t.Errorf("%s is caught, and its file says that it survives: %s", m.name, m.survives)
			}
		case m.survives != "":
			t.Logf("survives  %s: %s", m.name, m.survives)
		default:
			t.Errorf("SURVIVES  %s (exit code %d): %s", m.name, code, m.about)
		}
	}
	t.Logf("%d of %d mutants are caught by scenarios", caught, all)
	if which == "all" && caught*100 < all*wantCaught {
		t.Errorf("%d of %d mutants are caught, want %d %%", caught, all, wantCaught)
	}
}

// runMutated builds gpurig with these files changed and runs all scenarios, simulated.
func runMutated(t *testing.T, dir string, changed map[string][]byte) (out string, code int) {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	put := func(file string, data []byte) {
		p := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(top, file)] = p
	}
	put("fixtures/specs/specs.go", []byte("package specs\n\nimport \"embed\"\n\nvar FS embed.FS\n"))
	for file, data := range changed {
		put(file, data)
	}
	text, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	program := filepath.Join(dir, "gpurig")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/gpurig")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.CommandContext(ctx, program, "run", "--timeout", "30s")
	run.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	output, err := run.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
		t.Fatal(err)
	}
	return string(output), code
}

// firstFailure is what a person reads first of a run that failed.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "FAIL") {
			return cmp.Or(strings.TrimSpace(line), line)
		}
	}
	return "exit code 1"
}
