package hook_test

import (
	"debug/elf"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestShippedDependencies holds what cdi-hook is made of against the list that is
// checked in: it runs with root's rights, so a change to it shows in review. The
// import clauses are read here; a test that asked the go command would be
// answered from the test cache.
func TestShippedDependencies(t *testing.T) {
	seen := map[string]bool{}
	imports(t, "gpurig/cmd/cdi-hook", seen)
	got := strings.Join(slices.Sorted(maps.Keys(seen)), "\n") + "\n"
	want, err := os.ReadFile("testdata/deps.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the packages of cdi-hook are not those of testdata/deps.txt:\n%s", differing(string(want), got))
	}
}

// imports collects what a package of this module imports, and what those do.
func imports(t *testing.T, pkg string, seen map[string]bool) {
	t.Helper()
	if seen[pkg] {
		return
	}
	seen[pkg] = true
	own, ok := strings.CutPrefix(pkg, "gpurig/")
	if !ok {
		return
	}
	files, err := filepath.Glob(filepath.Join("..", own, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pkg, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if shipped, err := build.Default.MatchFile(filepath.Split(name)); err != nil || !shipped {
			continue // behind a tag, or of another system
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports(t, path, seen)
		}
	}
}

// TestShippedProgram: the program is static, and not larger than was agreed.
func TestShippedProgram(t *testing.T) {
	name := hookProgram(t)
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC { // A9
			t.Errorf("it has a segment %v: a loader would take part", p.Type)
		}
	}
	text, err := os.ReadFile("testdata/size-limit")
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > limit {
		t.Errorf("it has %d bytes; testdata/size-limit allows %d", st.Size(), limit)
	}
	if st.Size() < limit*8/10 {
		t.Errorf("it has %d bytes; lower testdata/size-limit, which allows %d", st.Size(), limit)
	}
}
