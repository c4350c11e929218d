package packaging

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutantEnv tells the built program which mistake to make. It is a variable that
// this module's programs hand to those of their own that have no other environment:
// those make CDI Specs.
const mutantEnv = "GOCOVERDIR"

// mutantSwitch is added to every package that has a mistake.
const mutantSwitch = "package %s\n\nimport \"os\"\n\nvar mutantName = os.Getenv(%q)\n\nfunc isMutant(name string) bool { return mutantName == name }\n"

// overlay returns the files of the repository with all mutants in them, by path:
// each function that a mutant changes begins with a copy of the changed one, for
// when it is told to be that mutant.
func overlay(mutants []mutant) (map[string][]byte, error) {
	type insertion struct {
		at   int
		text string
	}
	out := map[string][]byte{}
	insertions := map[string][]insertion{}
	var errs []error
	for _, m := range mutants {
		changed, err := m.mutate()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for file, text := range changed {
			was, err := os.ReadFile(filepath.Join("..", file))
			if err != nil {
				return nil, err
			}
			pkg, before, err1 := functions(file, was)
			_, after, err2 := functions(file, text)
			if err := errors.Join(err1, err2); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
				continue
			}
			n := 0
			for name, f := range after {
				if old, ok := before[name]; ok && old.body != f.body {
					n++
					end := "\n"
					if !f.returns {
						end = "\nreturn\n"
					}
					insertions[file] = append(insertions[file], insertion{old.at, fmt.Sprintf("\nif isMutant(%q) {\n%s%s}\n", m.name, f.body, end)})
				}
			}
			if n == 0 || len(before) != len(after) {
				errs = append(errs, fmt.Errorf("%s: %s: want a change within functions", m.name, file))
			}
			out[file] = was
			out[path.Join(path.Dir(file), "zz_mutants.go")] = fmt.Appendf(nil, mutantSwitch, pkg, mutantEnv)
		}
	}
	for file, list := range insertions {
		slices.SortStableFunc(list, func(a, b insertion) int { return b.at - a.at }) // from the end, so that places stay
		for _, x := range list {
			out[file] = slices.Concat(out[file][:x.at], []byte(x.text), out[file][x.at:])
		}
	}
	return out, errors.Join(errs...)
}

// A function is one of a file: the place behind its opening brace, and what stands
// between that and the closing one.
type function struct {
	at      int
	body    string
	returns bool // it has results
}

// functions returns the functions of a file, by receiver and name.
func functions(file string, text []byte) (pkg string, all map[string]function, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	all = map[string]function{}
	for _, d := range f.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		from, to := set.Position(d.Body.Lbrace).Offset+1, set.Position(d.Body.Rbrace).Offset
		head := string(text[set.Position(d.Pos()).Offset:from])
		all[head] = function{from, string(text[from:to]), d.Type.Results != nil}
	}
	return f.Name.Name, all, nil
}

// writeOverlay writes the files into dir and returns the file that go build is told
// of them by.
func writeOverlay(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range files {
		p := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(p, text, 0o600); err != nil {
			t.Fatal(err)
		}
		list.Replace[filepath.Join(top, file)] = p
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "overlay.json")
}
