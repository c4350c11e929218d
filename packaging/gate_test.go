package packaging

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// gate are the numbers that docs/security.md has to list: attacks, bad inputs,
// faults, promises, rules.
var gate = map[string]int{"A": 59, "B": 51, "F": 35, "P": 7, "R": 12}

var (
	gateRow = regexp.MustCompile("(?m)^\\| ([ABF][0-9]+) \\| (.*) \\| (.*) \\| (.*) \\|$")
	// A promise or a rule: what it says, where it is in the code, its tests.
	ruleRow  = regexp.MustCompile("(?m)^\\| ([PR][0-9]+) \\| (.*) \\| (.*) \\| (.*) \\|$")
	ruleFile = regexp.MustCompile("`([^`]+)`")
	gateTest = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?((?:Test|Fuzz)[A-Za-z0-9_]+)`")
)

// TestGate: every number of the threat model is in the table of docs/security.md,
// once, with a state and at least one test that is in the tree and itself carries
// the number, or a reason why it does not apply; every promise and rule with files
// and tests that are in the tree.
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
		"a number is missing":              strings.Replace(string(text), row, "", 1),
		"a number is there twice":          strings.Replace(string(text), row, row+"\n"+row, 1),
		"a test is not in the tree":        strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", "`TestNoSuchThing`"),
		"a test does not have the number":  strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", "`core/device.TestParseNum`"),
		"its neighbour in the file has it": strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", "`TestF13LeftOversOfAHostCrash`"),
		"no test at all":                   strings.ReplaceAll(string(text), "`TestA21NoMountLeaks`", ""),
		"a promise is missing":             strings.Replace(string(text), "\n| P3 |", "\n| P |", 1),
		"a rule's test is not there":       strings.Replace(string(text), "`TestShippedDependencies`", "`TestNoSuchThing`", 1),
		"a rule's file is not there":       strings.ReplaceAll(string(text), "`hook/lock.go`", "`hook/key.go`"),
		"a rule has no test":               ruleRow.ReplaceAllString(string(text), "| $1 | $2 | $3 | |"),
		"a state that is none":             strings.Replace(string(text), "| holds |", "| probably |", 1),
	} {
		if len(gateProblems(changed, sources)) == 0 {
			t.Errorf("%s, and nothing is said", name)
		}
	}
}

// gateSources are the texts of all tests with the comments before them, by
// "directory.TestName". The tables that a test names and the functions that it
// calls, in its own directory, belong to it.
func gateSources(t *testing.T) map[string]string {
	t.Helper()
	declared := map[string]map[string]string{} // by directory and name
	err := filepath.WalkDir("..", func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		rel, _ := filepath.Rel("..", filepath.Dir(p))
		if declared[rel] == nil {
			declared[rel] = map[string]string{}
		}
		return declarations(p, declared[rel])
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for dir, texts := range declared {
		for name, text := range texts {
			if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			for _, word := range regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`).FindAllString(text, -1) {
				if !strings.HasPrefix(word, "Test") {
					text += texts[word]
				}
			}
			out[dir+"."+name] = text
		}
	}
	return out
}

// declarations adds the functions and variables of a file by name, each with the
// comment before it and to the end of its last line.
func declarations(name string, into map[string]string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, data, parser.ParseComments)
	if err != nil {
		return err
	}
	cut := func(doc *ast.CommentGroup, n ast.Node) string {
		begin, end := set.Position(n.Pos()).Offset, set.Position(n.End()).Offset
		if doc != nil {
			begin = set.Position(doc.Pos()).Offset
		}
		line, _, _ := strings.Cut(string(data[end:]), "\n")
		return string(data[begin:end]) + line + "\n"
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				into[d.Name.Name] = cut(d.Doc, d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
					into[v.Names[0].Name] = cut(d.Doc, d)
				}
			}
		}
	}
	return nil
}

func gateProblems(text string, sources map[string]string) []string {
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
			if source, ok := sources[dir+"."+test[2]]; !ok {
				out = append(out, fmt.Sprintf("%s: %s has no test %s", n, dir, test[2]))
			} else if !regexp.MustCompile(n + "([^0-9]|$)").MatchString(source) {
				out = append(out, fmt.Sprintf("%s: %s.%s does not carry the number, in its name, its comment or its text", n, dir, test[2]))
			}
		}
	}
	for _, m := range ruleRow.FindAllStringSubmatch(text, -1) {
		n, files, named := m[1], ruleFile.FindAllStringSubmatch(m[3], -1), gateTest.FindAllStringSubmatch(m[4], -1)
		if seen[n] {
			out = append(out, n+" is there twice")
		}
		seen[n] = true
		if len(files) == 0 || len(named) == 0 || len(named) != strings.Count(m[4], "`")/2 {
			out = append(out, fmt.Sprintf("%s: %q and %q name no file, no test, or something else", n, m[3], m[4]))
		}
		for _, file := range files {
			if _, err := os.Stat(filepath.Join("..", file[1])); err != nil {
				out = append(out, fmt.Sprintf("%s: no file %s", n, file[1]))
			}
		}
		for _, test := range named {
			if dir := cmp.Or(test[1], "hook"); sources[dir+"."+test[2]] == "" {
				out = append(out, fmt.Sprintf("%s: %s has no test %s", n, dir, test[2]))
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
