package podman_test

import (
	"testing"

	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// Whoever kills a process of ours breaks one scenario at most, and never judges.
func TestKilledHelpers(t *testing.T) {
	for _, helper := range []string{"keep", "podman", "conmon", "runc", "probe"} {
		p, _ := requirePodman(t)
		targettest.Survives(t, p, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"}, helper, "killed", "ended")
	}
}
