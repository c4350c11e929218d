package packaging

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// printers are the rooms and files that write for people to read. There, core/show alone
// formats: what fmt writes has the text of others raw in it.
var printers = []string{"runner/cli", "runner/doctor", "runner/smoke/workload", "fakehw/machine/serve.go", "fakehw/machine/sockets.go",
	"fakehw/machine/enter.go", "fakehw/machine/child.go", "fakehw/mntns", "fakehw/userspace",
	"cmd", "reports/summary.go", "reports/compare.go"}

// plainPrinters are files elsewhere that may print to standard output or error as they
// like, and why.
var plainPrinters = map[string]string{
	"fakehw/cudalib/internal/gen/main.go":  "a generator, run while building",
	"fakehw/nvmllib/internal/gen/main.go":  "a generator, run while building",
	"fakehw/nvmlfake/internal/gen/main.go": "a generator, run while building",
	"runner/target/targettest/victim.go":   "a test's program that is killed",
	"packaging/clibs/main.go":              "run while packaging",
	"packaging/manual/main.go":             "run while packaging",
	"packaging/sbom/main.go":               "run while packaging",
	"packaging/site/main.go":               "run while packaging",
}

// A42: text is printed through core/show, wherever it is printed.
func TestOnlyShowPrints(t *testing.T) {
	files := 0
	each(t, func(file, pkg string, _ []string) {
		if plainPrinters[file] != "" || within(pkg, "hook") && pkg != "hook/containercli" || pkg == "cmd/cdi-hook" { // which escapes and bounds in hook/out.go
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join("..", file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if prints(file) {
			files++
		}
		for _, problem := range printing(set, f, prints(file)) {
			t.Error(problem)
		}
	})
	if files < 30 {
		t.Fatalf("only %d files were looked at; the test looked in the wrong place", files)
	}
}

func prints(file string) bool {
	return slices.ContainsFunc(printers, func(p string) bool { return within(filepath.ToSlash(file), p) })
}

// TestOnlyShowPrintsRefuses is the negative control of the test above.
func TestOnlyShowPrintsRefuses(t *testing.T) {
	for code, anywhere := range map[string]bool{
		`fmt.Println("x")`:              true,
		`fmt.Fprintf(os.Stderr, "x")`:   true,
		`println("x")`:                  true,
		`os.Stdout.WriteString("x")`:    true,
		`fmt.Fprint(w, "x")`:            false,
		`fmt.Fprintln(s.Out, "x")`:      false,
		`io.WriteString(s.Err, "x")`:    false,
		`io.WriteString(os.Stderr, "")`: true,
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "x.go", "package x\nfunc f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(printing(set, f, true)) == 0 {
			t.Errorf("%s in a room that prints: nothing is said", code)
		}
		if (len(printing(set, f, false)) > 0) != anywhere {
			t.Errorf("%s elsewhere: %v", code, printing(set, f, false))
		}
	}
}

// printing lists the calls of a file that print without core/show: to the process's own
// streams, and in rooms that print to any.
func printing(set *token.FileSet, f *ast.File, room bool) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := text(call.Fun)
		to := ""
		if len(call.Args) > 0 {
			to = text(call.Args[0])
		}
		standard := to == "os.Stdout" || to == "os.Stderr"
		switch {
		case strings.HasPrefix(name, "fmt.Print"), name == "print", name == "println",
			strings.HasPrefix(name, "os.Stdout.Write"), strings.HasPrefix(name, "os.Stderr.Write"):
		case (strings.HasPrefix(name, "fmt.Fprint") || name == "io.WriteString") && (room || standard):
		default:
			return true
		}
		out = append(out, fmt.Sprintf("%s: %s prints text of others as it is: take core/show", set.Position(call.Pos()), name))
		return true
	})
	return out
}

// text is an expression of names and dots as it is written; empty: it is another one.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x := text(e.X); x != "" {
			return x + "." + e.Sel.Name
		}
	}
	return ""
}
