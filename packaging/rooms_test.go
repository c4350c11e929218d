// Package packaging has how the repository is built, checked and shipped. Its
// test keeps the rooms apart: who may import whom.
package packaging

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms say what the non-test code of each room may import beyond the standard
// library; the first prefix that fits a package counts. Every room of core may
// import the words core/pci, core/device, core/refuse, core/show and core/suggest.
//
// The import clauses are parsed here: a test that asked the go command would be
// answered from the test cache and stay green after a bad import.
var rooms = []struct {
	room string
	may  []string
}{
	{"core/pci", nil},
	{"core/device", nil},
	{"core/refuse", nil},
	{"core/show", nil},
	{"core/suggest", nil},
	{"core/elf", nil},
	{"core/ldcache", []string{"core/elf"}},
	{"core/hookspec", nil},
	{"core/plan", nil},
	{"core/strictdoc", []string{"go.yaml.in/yaml/v3"}},
	{"core/policy/policyfile", []string{"core/host", "core/policy", "core/strictdoc"}},
	{"core/memo", nil},
	{"core/policy", nil},
	{"core/host", []string{"core/host", "core/ldcache", "golang.org/x/sys/unix"}},
	{"core/cdi/nvidia", []string{"core/host", "core/cdi", "github.com/NVIDIA/", "tags.cncf.io/container-device-interface"}},
	{"core/cdi/pgpu", []string{"core/host", "core/cdi", "core/vfio", "tags.cncf.io/container-device-interface"}},
	{"core/cdi/drm", []string{"core/host", "core/cdi", "tags.cncf.io/container-device-interface"}},
	{"core/cdi", []string{"core/host", "core/cdi", "core/strictdoc", "tags.cncf.io/container-device-interface", "go.yaml.in/yaml/v3"}},
	{"core/request", []string{"core/host", "core/cdi"}},
	{"core/vfio", []string{"core/host", "core/cdi", "core/request"}},
	{"core/translate", []string{"core/host", "core/cdi", "core/plan", "core/policy", "tags.cncf.io/container-device-interface/specs-go"}},
	{"core/passthrough", []string{"core/host", "core/cdi", "core/memo", "core/plan", "core/policy", "core/request", "core/translate", "core/vfio", "github.com/NVIDIA/go-nvml", "tags.cncf.io/container-device-interface/specs-go"}},
	{"core/legacy", []string{"core/host", "core/passthrough", "core/plan", "core/request"}},
	{"core/place", []string{"core/plan", "core/hookspec"}},
	{"core/emit/lxc", []string{"core/place", "core/plan", "core/policy", "core/hookspec"}},
	{"core/emit/pve", []string{"core/plan", "core/hookspec", "core/emit/lxc"}},
	{"core/emit/oci", []string{"core/place", "core/plan", "core/hookspec", "github.com/opencontainers/runtime-spec/specs-go"}},
	{"core/emit/lxd", []string{"core/place", "core/plan", "core/hookspec", "core/emit/lxc"}},
	// What has the host's rights and plans: it changes a root by the hook's ways alone.
	{"hook/containercli", []string{"core/device", "core/refuse", "core/show", "core/host", "core/hookspec", "core/legacy", "core/passthrough", "core/place", "core/plan", "core/policy/policyfile", "hook/inroot", "github.com/NVIDIA/go-nvml", "golang.org/x/sys/unix"}},
	{"hook", []string{"hook", "core/hookspec", "core/ldcache", "core/elf", "golang.org/x/sys/unix"}},
	{"fakehw", []string{"fakehw", "fixtures/hosts", "fixtures/records", "core/host", "core/cdi/nvidia", "core/elf", "core/ldcache", "core/plan", "github.com/spf13/afero", "github.com/hanwen/go-fuse", "github.com/NVIDIA/go-nvml", "golang.org/x/sys/unix"}},
	{"scenarios", []string{"core/host", "core/device", "core/pci", "core/policy", "core/strictdoc", "github.com/onsi/ginkgo/v2/types"}},
	{"reports", []string{"core/show", "golang.org/x/term"}},
	{"fixtures", []string{"core/show", "github.com/google/go-cmp"}},
	{"cmd/cdi-hook", []string{"hook"}},
	{"cmd/nvidia-container-cli", []string{"hook/containercli"}},
	{"cmd/gpurig-probe", []string{"core/show", "runner/observe", "runner/target/agent"}},
	{"cmd/gpurig-smoke", []string{"runner/smoke"}},
	{"cmd/gpurig-docker", []string{"runner/cli", "runner/target"}},
	{"cmd/gpurig", []string{"runner/cli"}},
	{"packaging/clibs", []string{"fakehw/cudalib", "fakehw/nvmllib", "fakehw/smi"}},
	{"packaging/manual", []string{"runner/cli", "github.com/spf13/cobra"}},
	{"packaging/sbom", nil},
	{"packaging/site", []string{"runner/cli", "github.com/spf13/cobra", "github.com/yuin/goldmark"}},
}

// harnessOnly matches what core never imports. The room runner may import
// everything but cmd and hook, which it runs as programs; runner/target/sim does
// what the hook does in a root by the hook's own code.
var harnessOnly = regexp.MustCompile(`^(testing|github\.com/(spf13/afero|onsi/|stretchr/))`)

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	seen := map[string]bool{}
	each(t, func(file, pkg string, imports []string) {
		for _, imp := range imports {
			if problem := judge(pkg, imp); problem != "" {
				t.Errorf("%s imports %s: %s", file, imp, problem)
			}
		}
		seen[pkg] = true
	})
	if len(seen) < 10 {
		t.Fatalf("only %d packages were found; the test looked in the wrong place", len(seen))
	}
}

// TestJudgeRefuses is the negative control of the test above.
func TestJudgeRefuses(t *testing.T) {
	for _, tc := range []struct{ pkg, imp string }{
		{"core/plan", "gpurig/core/host"},
		{"core/host", "github.com/spf13/afero"},
		{"core/translate", "gpurig/fakehw/tree"},
		{"hook", "gpurig/runner/observe"},
		{"hook/inroot", "github.com/cyphar/filepath-securejoin"},
		{"fakehw/tree", "gpurig/runner"},
		{"runner", "gpurig/hook"},
		{"runner/target/lxc", "gpurig/hook/stage"},
		{"runner/target/sim", "gpurig/hook"},
		{"runner/cli", "gpurig/cmd/gpurig"},
		{"core/emit/lxc", "testing"},
		{"hook/containercli", "gpurig/hook/stage"},
		{"reports", "gpurig/runner"},
	} {
		if judge(tc.pkg, tc.imp) == "" {
			t.Errorf("%s may import %s; it must not", tc.pkg, tc.imp)
		}
	}
}

func judge(pkg, imp string) string {
	own := strings.TrimPrefix(imp, "gpurig/")
	if strings.HasPrefix(pkg, "core") && harnessOnly.MatchString(imp) {
		return "core does not know that it is being tested"
	}
	if std := !strings.Contains(strings.Split(imp, "/")[0], ".") && own == imp; std || imp == "gpurig" {
		return ""
	}
	if strings.HasPrefix(pkg, "runner") {
		simulated := within(pkg, "runner/target/sim") && (own == "hook/stage" || own == "hook/inroot")
		if within(own, "hook") && !simulated || within(own, "cmd") {
			return "runner runs the hook as a program"
		}
		return ""
	}
	for _, r := range rooms {
		if !within(pkg, r.room) {
			continue
		}
		if strings.HasPrefix(r.room, "core") && slices.ContainsFunc([]string{"core/pci", "core/device", "core/refuse", "core/show", "core/suggest"}, func(w string) bool { return own == w }) {
			return ""
		}
		for _, may := range r.may {
			if within(own, strings.TrimSuffix(may, "/")) && (own != imp || strings.Contains(may, ".")) {
				return ""
			}
		}
		if strings.HasPrefix(r.room, "fakehw") && within(own, "core") {
			return ""
		}
		return "the room " + r.room + " may not; see the table in this test"
	}
	return "no room of the table is " + pkg
}

// within compares whole path components.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// TestCoreDoesNotKnowThatItIsBeingTested looks for the harness's words in
// core's own code.
func TestCoreDoesNotKnowThatItIsBeingTested(t *testing.T) {
	word := regexp.MustCompile(`(?i)\b(fake|mock|scenario)s?\b`)
	each(t, func(file, pkg string, _ []string) {
		if !within(pkg, "core") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join("..", file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Comments {
			if w := word.FindString(c.Text()); w != "" {
				t.Errorf("%s: a comment says %q", set.Position(c.Pos()), w)
			}
		}
	})
}

// each calls f for every non-test Go file below the module's root.
func each(t *testing.T, f func(file, pkg string, imports []string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("..", p)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || rel == "bin" || rel == "out") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, path)
		}
		f(rel, filepath.ToSlash(filepath.Dir(rel)), imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
