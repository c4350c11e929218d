package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpurig/fakehw/machine/machinetest"
)

// fence is a fenced block, with the words after the fence and its lines.
var fence = regexp.MustCompile("(?ms)^```(\\S+)(?: (\\S+))?\n(.*?)^```$")

// TestDocumentationTutorial does what the tutorial and such how-tos tell the reader to do: it writes
// each file and runs each command, whose output is as the page has it.
func TestDocumentationTutorial(t *testing.T) {
	for page, least := range map[string]int{"tutorial": 12, "mig": 6, "jetson": 6} {
		t.Run(page, func(t *testing.T) {
			if n := follow(t, "../../docs/"+page+".md"); n < least {
				t.Errorf("%d commands were run; the test looked in the wrong place", n)
			}
		})
	}
}

// follow returns how many commands it has run.
func follow(t *testing.T, file string) (commands int) {
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "gpurig")); err != nil { // TestMain tells it by its name
		t.Fatal(err)
	}
	path := bin + ":" + os.Getenv("PATH")
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		kind, word, text := block[1], block[2], block[3]
		switch {
		case kind == "yaml":
			file := filepath.Join(dir, word)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		case kind != "console":
			t.Errorf("a block of %q: want console or yaml", kind)
		case word == "machine" && os.Getenv(machinetest.RequireEnv) == "" && machinetest.Able() != nil:
			t.Logf("not run: %v", machinetest.Able())
		default:
			for _, said := range strings.Split("\n"+text, "\n$ ")[1:] {
				commands++
				command, want, _ := strings.Cut(said, "\n")
				cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path)
				out, _ := cmd.CombinedOutput() // its exit code is on the page where it is not 0
				if !matches(string(out), want) {
					t.Errorf("$ %s\n%s\nwant\n%s", command, out, want)
				}
			}
		}
	}
	return commands
}

// matches reports whether output is what the page has: … is any text, and on a line of its
// own any lines.
func matches(output, page string) bool {
	var b strings.Builder
	b.WriteString(`^(?s)\s*`)
	for line := range strings.Lines(strings.TrimSpace(page) + "\n") {
		if line == "…\n" {
			b.WriteString(`(.*\n)?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*`))
	}
	return regexp.MustCompile(b.String() + `\s*$`).MatchString(strings.TrimSpace(output) + "\n")
}

// TestTutorialRefuses is the negative control of matches.
func TestTutorialRefuses(t *testing.T) {
	for _, tc := range []struct {
		output, page string
		want         bool
	}{
		{"a\nb\nc\n", "a\n…\nc\n", true},
		{"a\nc\n", "a\n…\nc\n", true},
		{"2 passed in 4ms\n", "2 passed in …\n", true},
		{"", "", true},
		{"a\nb\nc\n", "a\nc\n", false},
		{"a\nb\n", "a\n", false},
		{"3 passed in 4ms\n", "2 passed in …\n", false},
		{"a.b\n", "a+b\n", false},
		{"a\nb\n", "…\nc\n", false},
	} {
		if got := matches(tc.output, tc.page); got != tc.want {
			t.Errorf("matches(%q, %q) = %v", tc.output, tc.page, got)
		}
	}
}
