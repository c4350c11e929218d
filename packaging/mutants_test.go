package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
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

// wantCaught is how many mutants the scenarios have to catch, stories not counted. It
// goes up when a scenario is added for one that survives, and never down.
const wantCaught = 82

// A mutant is one small mistake in the product's code: a file of folder mutants,
// whose name begins with the room that it is in. Its comment says what is wrong, in
// one sentence. Lines of it with a word and a colon are:
//
//	target: sim-lxd        the scenarios run on this target, and not on sim
//	caught by: stories     the command's stories catch it, and its test against scenarios, which do not go through this code
//	survives: WHY          why nothing can see it
//
// A section "FILE old" is text that stands once in FILE, of the repository, and the
// section after it, "FILE new", what stands there instead.
type mutant struct {
	name, about      string
	target, survives string
	stories          bool
	attacks          []string // of a naive patch: whose tests fail with it
	changes          []change
}

type change struct{ file, old, new string }

func parseMutant(name string, data []byte) (mutant, error) {
	a := txtar.Parse(data)
	m := mutant{name: name, target: "sim"}
	for line := range strings.Lines(string(a.Comment)) {
		line = strings.TrimSpace(line)
		switch word, value, _ := strings.Cut(line, ": "); word {
		case "target":
			m.target = value
		case "survives":
			m.survives = value
		case "attacks":
			m.attacks = strings.Fields(value)
		case "caught by":
			if m.stories = value == "stories"; !m.stories {
				return m, fmt.Errorf("%s: caught by %q: want stories", name, value)
			}
		default:
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
func (m mutant) mutate() (map[string][]byte, error) { return mutateAll([]mutant{m}) }

// mutateAll returns the files with the changes of all.
func mutateAll(mutants []mutant) (map[string][]byte, error) {
	out := map[string][]byte{}
	var errs []error
	for _, m := range mutants {
		errs = append(errs, m.into(out))
	}
	return out, errors.Join(errs...)
}

func (m mutant) into(out map[string][]byte) error {
	for _, c := range m.changes {
		text, ok := out[c.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join("..", c.file)); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		if n := bytes.Count(text, []byte(c.old)); n != 1 {
			return fmt.Errorf("%s: the old text stands %d times in %s, want once", m.name, n, c.file)
		}
		out[c.file] = bytes.Replace(text, []byte(c.old), []byte(c.new), 1)
	}
	return nil
}

func readMutants(t *testing.T, dir string) []mutant {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", dir, err)
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

// mutantRooms are those of the product: packages of core, the hook, and the command's own
// wiring. Each has mutants.
var mutantRooms = []string{"cdi", "cmd", "hook", "host", "lxc", "lxd", "oci", "passthrough", "place", "pve", "request", "translate"}

// TestMutantsFit: every mutant can be put into the code as it is now, and every room
// has some.
func TestMutantsFit(t *testing.T) {
	mutants := readMutants(t, "mutants")
	if _, err := overlay(mutants); err != nil {
		t.Error(err)
	}
	var of []string
	for _, m := range mutants {
		room, _, _ := strings.Cut(m.name, "-")
		of = append(of, room)
	}
	if of = slices.Compact(of); !slices.Equal(of, mutantRooms) { // files are read by name
		t.Errorf("mutants are in rooms %q, want %q", of, mutantRooms)
	}
}

// TestMutants: the shipped scenarios, simulated, catch nearly every mistake in the
// code that ships: a run with it fails. The checked-in Specs are left out, since the
// generator is part of what is judged. One program has all mistakes, and makes the
// one that it is told; without one it is what ships.
func TestMutants(t *testing.T) {
	which := os.Getenv(mutantsEnv)
	if which == "" {
		t.Skipf("make mutants runs it (%s=all)", mutantsEnv)
	}
	mutants := slices.DeleteFunc(readMutants(t, "mutants"), func(m mutant) bool {
		return which != "all" && !slices.ContainsFunc(strings.Split(which, ","), func(p string) bool { ok, _ := path.Match(p, m.name); return ok })
	})
	r := buildMutants(t, mutants)
	tried := map[string]bool{}
	caught := map[string]int{} // by who catches it
	for _, m := range mutants {
		if by := m.by(); !tried[by] {
			tried[by] = true
			if out, code := r.run(t, mutant{target: m.target, stories: m.stories}); code != 0 {
				t.Fatalf("without any mistake %s end with code %d:\n%s", by, code, out)
			}
		}
		out, code := r.run(t, m)
		switch {
		case code == 1 || code == 3: // scenarios failed, or were broken by it
			caught[m.by()]++
			t.Logf("caught    %s by %s: %s", m.name, m.by(), firstFailure(out))
			if m.survives != "" {
				t.Errorf("%s is caught, and its file says that it survives: %s", m.name, m.survives)
			}
		case m.survives != "":
			t.Logf("survives  %s: %s", m.name, m.survives)
		default:
			t.Errorf("SURVIVES  %s (exit code %d): %s", m.name, code, m.about)
		}
	}
	all, byScenarios := 0, 0
	for by, n := range caught {
		all += n
		if by != (mutant{stories: true}).by() {
			byScenarios += n
		}
		t.Logf("%d are caught by %s", n, by)
	}
	t.Logf("%d of %d mutants are caught, %d of them by scenarios", all, len(mutants), byScenarios)
	if which == "all" && byScenarios < wantCaught {
		t.Errorf("%d mutants are caught by scenarios, want %d", byScenarios, wantCaught)
	}
}

// by is what has to catch it.
func (m mutant) by() string {
	if m.stories {
		return "the command's stories"
	}
	return "scenarios on " + m.target
}

// A mutated is the module with all mistakes in it, built.
type mutated struct {
	dir, program, stories string
}

func buildMutants(t *testing.T, mutants []mutant) mutated {
	t.Helper()
	files, err := overlay(mutants)
	if err != nil {
		t.Fatal(err)
	}
	files["fixtures/specs/specs.go"] = []byte("package specs\n\nimport \"embed\"\n\nvar FS embed.FS\n")
	r := mutated{dir: t.TempDir()}
	build := func(verb string, args ...string) string {
		name := filepath.Join(r.dir, verb+".out")
		cmd := exec.CommandContext(t.Context(), "go", append([]string{verb, "-overlay", writeOverlay(t, r.dir, files), "-o", name}, args...)...)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return name
	}
	r.program = build("build", "./cmd/gpurig")
	if slices.ContainsFunc(mutants, func(m mutant) bool { return m.stories }) {
		r.stories = build("test", "-c", "./runner/cli")
	}
	return r
}

// run runs the scenarios, or the stories, with one mistake; the zero name: with none.
func (r mutated) run(t *testing.T, m mutant) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// Specs of hosts are kept from one run to the next that makes the same.
	cache := filepath.Join(r.dir, "cache")
	if slices.ContainsFunc(m.changes, func(c change) bool {
		return strings.HasPrefix(c.file, "core/cdi/") || strings.HasPrefix(c.file, "core/host/")
	}) {
		cache = filepath.Join(r.dir, "cache-"+m.name)
		defer os.RemoveAll(cache)
	}
	cmd := exec.CommandContext(ctx, r.program, "run", "--timeout", "60s", "--target", m.target)
	if m.stories {
		cmd = exec.CommandContext(ctx, r.stories, "-test.run", "^TestScripts$/^(cdi|translate)$|^TestTranslateAsInScenarios$")
		cmd.Dir = "../runner/cli"
	}
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, mutantEnv+"="+m.name)
	output, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(output), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(output), 0
}

// firstFailure is what a person reads first of a run that failed.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "BROKEN") || strings.Contains(line, "FAIL") && (!strings.Contains(line, "FAIL: Test") || strings.Contains(line, "/")) {
			return strings.TrimSpace(line)
		}
	}
	return "exit code 1"
}
