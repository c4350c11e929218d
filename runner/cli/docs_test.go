package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpurig/runner/cli"
)

// spans are code spans of one line, within prose and tables.
var spans = regexp.MustCompile("`((?:bin/)?gpurig [a-z][^`]*)`")

// documented are the command lines of gpurig that people read: in fenced blocks of the
// documentation and the help of every command, and in prose, which may name no more
// than a command and a flag.
func documented(t *testing.T) (lines, prose map[string][]string) {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	lines, prose = map[string][]string{}, map[string][]string{}
	add := func(to map[string][]string, where, line string) {
		if words := commandOf(line); words != nil && words[0] != "recorded" { // the first line of a recording
			to[where+": "+strings.TrimSpace(line)] = words
		}
	}
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split("\n"+string(data), "\n```") {
			if i%2 == 1 { // within a fence
				for line := range strings.Lines(part) {
					add(lines, filepath.Base(file), line)
				}
				continue
			}
			for _, m := range spans.FindAllStringSubmatch(strings.ReplaceAll(part, "\n", " "), -1) {
				add(prose, filepath.Base(file), m[1])
			}
		}
	}
	for _, e := range cli.HelpExamples() {
		for line := range strings.Lines(e) {
			add(lines, "help", line)
		}
	}
	return lines, prose
}

// commandOf returns the arguments of the first gpurig that a line of shell starts, as
// far as it can be told without a shell; nil: none.
func commandOf(line string) []string {
	var words []string
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
scan:
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n':
			end()
		case c == '#' && !begun || strings.ContainsRune("|&;<>", c):
			break scan
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	end()
	i := slices.IndexFunc(words, func(w string) bool { return w == "gpurig" || w == "bin/gpurig" })
	if i < 0 || i+1 == len(words) {
		return nil
	}
	for _, w := range words[:i] {
		if w != "sudo" && !strings.Contains(w, "=") {
			return nil // an argument of something else
		}
	}
	return words[i+1:]
}

// Every command line in the documentation and in the help is one: its command is there,
// and its flags and arguments are.
func TestCommandsInTheDocumentationAreUnderstood(t *testing.T) {
	lines, prose := documented(t)
	if len(lines) < 60 || len(prose) < 10 {
		t.Fatalf("%d command lines were found, and %d in prose; the test looked in the wrong place", len(lines), len(prose))
	}
	for where, args := range lines {
		if err := cli.Understand(args); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	for where, args := range prose {
		if err := cli.Named(args); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// Those that only read and say something about a fake host do so, as they stand there.
func TestCommandsInTheDocumentationRun(t *testing.T) {
	recording, err := os.ReadFile("../../fixtures/hosts/a100-mig-2g-3g/host.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := documented(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"dgx.txtar", "lab.txtar"} {
		if err := os.WriteFile(name, recording, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for where, args := range all {
		if !harmless(args) {
			continue
		}
		ran++
		var out, errs bytes.Buffer
		code := cli.Main(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, args)
		differ := code == cli.ExitFailed && slices.Contains(args, "diff")
		refused := code == cli.ExitUsage && strings.Contains(where, "nvml:Init") // where NVML does not start there is no Spec
		if code != cli.ExitOK && !differ && !refused || out.Len() == 0 && !refused {
			t.Errorf("%s: exit code %d, %d bytes of output, %s", where, code, out.Len(), errs.String())
		}
	}
	if ran < 15 {
		t.Errorf("%d command lines were run; the test chose the wrong ones", ran)
	}
}

// harmless reports whether a documented command reads only what a test has.
func harmless(args []string) bool {
	placeholder := slices.ContainsFunc(args, func(a string) bool { return strings.ToUpper(a) == a && strings.ToLower(a) != a })
	if placeholder || slices.Contains(args, "this") || slices.Contains(args, "--policy") || slices.Contains(args, "--write-hook") {
		return false
	}
	two := strings.Join(args[:min(len(args), 2)], " ")
	switch {
	case slices.Contains([]string{"host show", "host list", "host diff"}, two), args[0] == "list", args[0] == "policy":
		return true
	case two == "cdi generate", two == "cdi list":
		return slices.Contains(args, "--host")
	case args[0] == "translate": // the recording is not of the machine that the pages have
		return slices.Contains(args, "--host") && !slices.Contains(args, "./dgx.txtar")
	case args[0] == "explain":
		return !slices.Contains(args, "--target")
	}
	return false
}
