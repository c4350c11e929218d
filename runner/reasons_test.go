package runner_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpurig/fixtures/golden"
	"gpurig/runner"
)

// Every reason of core has a name that begins with Reason and stands in the table
// that "gpurig explain --reasons" prints, with one sentence.
func TestEveryReasonIsInTheTable(t *testing.T) {
	var table strings.Builder
	listed := map[string]string{}
	for _, m := range runner.AllReasons() {
		word := string(m.Reason)
		if m.Meaning == "" || !strings.HasSuffix(m.Meaning, ".") {
			t.Errorf("%s: %q is not a sentence", word, m.Meaning)
		}
		listed[word] = m.Meaning
		fmt.Fprintf(&table, "%-32s %s\n", word, m.Meaning)
	}
	golden.Equal(t, "testdata/reasons.txt", []byte(table.String()))
	found := 0
	err := filepath.WalkDir("../core", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			typ, _ := v.Type.(*ast.SelectorExpr)
			for i, name := range v.Names {
				if (typ == nil || typ.Sel.Name != "Reason") && !strings.HasPrefix(name.Name, "Reason") || i >= len(v.Values) {
					continue
				}
				text, ok := v.Values[i].(*ast.BasicLit)
				if !ok {
					continue
				}
				found++
				word, _ := strconv.Unquote(text.Value)
				if !strings.HasPrefix(name.Name, "Reason") {
					t.Errorf("%s: the reason %s is called %s", file, word, name.Name)
				}
				if listed[word] == "" {
					t.Errorf("%s: the reason %s is not in the table", file, word)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 150 {
		t.Errorf("%d reasons were found: %v", found, err)
	}
}
