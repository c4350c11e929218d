package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// One container's cgroups go while those of another, whose name starts with its name,
// are in use or just being made.
func TestRemoveCgroupsLeavesThoseOfOtherContainers(t *testing.T) {
	root, prefix := t.TempDir(), prefixStart+"1-1"
	at := func(name string) string { return filepath.Join(root, "devices", prefix, name) }
	for _, name := range []string{"c1/inner", "c1.monitor", "c1.pivot", "c12", "c12.monitor"} {
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeCgroups([]string{filepath.Join(root, "devices")}, containerCgroups(prefix, "c1")...); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(at(""))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{"c12", "c12.monitor"}; !slices.Equal(names, want) {
		t.Errorf("left are %q, want %q", names, want)
	}
}
