package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a killed run left goes from every hierarchy of the machine; what belongs to a
// process that lives stays.
func TestSweepReachesEveryHierarchy(t *testing.T) {
	const root = "/sys/fs/cgroup"
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	mounts, err := hierarchies(root)
	if err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf("gpurig-%d-1", ended.Process.Pid)
	lives := fmt.Sprintf("gpurig-%d-sweep", os.Getpid())
	made := map[string][]string{}
	for _, at := range mounts {
		for _, name := range []string{left, lives} {
			dir := filepath.Join(at, name)
			if err := os.MkdirAll(filepath.Join(dir, "c1.pivot"), 0o755); err != nil {
				continue // read-only here
			}
			made[name] = append(made[name], dir)
			t.Cleanup(func() { removeCgroup(dir) })
		}
	}
	if len(made[left]) == 0 {
		t.Skipf("none of %q can be written to", mounts)
	}
	if err := sweepCgroups(root); err != nil {
		t.Fatal(err)
	}
	for _, dir := range made[left] {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s of a dead process is left (%v)", dir, err)
		}
	}
	for _, dir := range made[lives] {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("of a process that lives: %v", err)
		}
	}
}
