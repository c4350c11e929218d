package passthrough_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// modules are what a program gets that plans with this package, and nothing else of
// gpurig. A new one is a decision: each program that imports the package takes it.
var modules = []string{
	"github.com/NVIDIA/go-nvlib", "github.com/NVIDIA/go-nvml", "github.com/NVIDIA/nvidia-container-toolkit",
	"github.com/fsnotify/fsnotify", "github.com/google/uuid", "github.com/moby/sys/devices", "github.com/opencontainers/cgroups",
	"github.com/opencontainers/runtime-spec", "github.com/sirupsen/logrus", "go.yaml.in/yaml/v3", "golang.org/x/mod",
	"golang.org/x/sys", "gpurig", "tags.cncf.io/container-device-interface", "tags.cncf.io/container-device-interface/specs-go",
}

// harness matches packages that are there to test the product.
var harness = regexp.MustCompile(`^(testing|gpurig/(fakehw|runner|scenarios|reports|fixtures|hook|cmd)|github\.com/(spf13|onsi|stretchr|testcontainers|hanwen|moby/moby|rogpeppe)/)`)

// A container manager in a module of its own builds with this package and runs, and
// what it takes with it is counted.
func TestAModuleOfItsOwnBuildsWithThisPackageAlone(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/manager")); err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// The versions are ours, so that the module cache has them.
	mod := strings.Replace(string(ours), "module gpurig", "module example.com/manager", 1) +
		"\nrequire gpurig v0.0.0\n\nreplace gpurig => " + root + "\n"
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"go.mod": []byte(mod), "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	var got []string
	for line := range strings.Lines(run("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", ".")) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if harness.MatchString(pkg) {
			t.Errorf("a program that plans takes %s with it", pkg)
		}
		if module != "" && module != "example.com/manager" {
			got = append(got, module)
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, modules) {
		t.Errorf("the build takes %d modules:\n%s\nwant %d:\n%s", len(got), strings.Join(got, "\n"), len(modules), strings.Join(modules, "\n"))
	}
	run("go", "build", "-o", "manager", ".")
	if out := run(filepath.Join(dir, "manager"), "no-name="); out != "refused at request\n" {
		t.Errorf("the program says %q", out)
	}
}
