package passthrough_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpurig/fixtures/ownmodule"
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
	m := ownmodule.Copy(t, "testdata/manager", "../..")
	var got []string
	for line := range strings.Lines(m.Run("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", ".")) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		if harness.MatchString(pkg) {
			t.Errorf("a program that plans takes %s with it", pkg)
		}
		if module != "" && module != ownmodule.Name {
			got = append(got, module)
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, modules) {
		t.Errorf("the build takes %d modules:\n%s\nwant %d:\n%s", len(got), strings.Join(got, "\n"), len(modules), strings.Join(modules, "\n"))
	}
	m.Run("go", "build", "-o", "manager", ".")
	if out := m.Run(filepath.Join(m.Dir, "manager"), "no-name="); out != "refused at request\n" {
		t.Errorf("the program says %q", out)
	}
}
