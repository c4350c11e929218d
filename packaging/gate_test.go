package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// gate are the numbers that docs/security.md has to list: attacks, bad inputs,
// faults.
var gate = map[string]int{"A": 41, "B": 51, "F": 35}

var (
	gateRow  = regexp.MustCompile("(?m)^\\| ([ABF][0-9]+) \\| (.*) \\| (.*) \\| (.*) \\|$")
	gateTest = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?((?:Test|Fuzz)[A-Za-z0-9_]+)`")
)

// TestGate: every number of the threat model is in the table of docs/security.md,
// once, with a state and at least one test that is in the tree and carries the
// number, or a reason why it does not apply.
func TestGate(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := gateSources(t)
	for _, problem := range gateProblems(string(text), sources) {
		t.Error(problem)
	}
}

// TestGateRefuses is the negative control of the test above.
func TestGateRefuses(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := gateSources(t)
	row := gateRow.FindString(string(text))
	for name, changed := range map[string]string{
		"a number is missing":             strings.Replace(string(text), row, "", 1),
		"a number is there twice":         strings.Replace(string(text), row, row+"\n"+row, 1),
		"a test is not in the tree":       strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", "`TestNoSuchThing`"),
		"a test does not have the number": strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", "`core/device.TestParseNum`"),
		"no test at all":                  strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", ""),
		"a state that is none":            strings.Replace(string(text), "| holds |", "| probably |", 1),
	} {
		if len(gateProblems(changed, sources)) == 0 {
			t.Errorf("%s, and nothing is said", name)
		}
	}
}

// gateSources are the test files of each directory.
func gateSources(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir("..", func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel("..", filepath.Dir(p))
		out[rel] = append(out[rel], string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func gateProblems(text string, sources map[string][]string) []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range gateRow.FindAllStringSubmatch(text, -1) {
		n, tests, state := m[1], strings.TrimSpace(m[3]), m[4]
		if seen[n] {
			out = append(out, n+" is there twice")
		}
		seen[n] = true
		if !slices.ContainsFunc([]string{"holds", "refused", "does not apply: "}, func(s string) bool { return strings.HasPrefix(state, s) }) {
			out = append(out, fmt.Sprintf("%s: state %q: want holds, refused, or why it does not apply", n, state))
		}
		named := gateTest.FindAllStringSubmatch(tests, -1)
		reasonOnly := tests == "" && strings.HasPrefix(state, "does not apply: ")
		if !reasonOnly && len(named) == 0 || len(named) != strings.Count(tests, "`")/2 {
			out = append(out, fmt.Sprintf("%s: %q names no test, or something else", n, tests))
		}
		for _, test := range named {
			dir := test[1]
			if dir == "" {
				dir = "hook"
			}
			i := slices.IndexFunc(sources[dir], func(s string) bool { return strings.Contains(s, "func "+test[2]+"(") })
			if i < 0 {
				out = append(out, fmt.Sprintf("%s: %s has no test %s", n, dir, test[2]))
			} else if !regexp.MustCompile(n + "([^0-9]|$)").MatchString(sources[dir][i]) {
				out = append(out, fmt.Sprintf("%s: %s, where %s is, does not carry the number", n, dir, test[2]))
			}
		}
	}
	for letter, last := range gate {
		for i := 1; i <= last; i++ {
			if n := fmt.Sprint(letter, i); !seen[n] {
				out = append(out, n+" is missing in docs/security.md")
			}
		}
	}
	return out
}
