package lxc_test

import (
	"testing"

	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// Whoever kills a process of ours breaks one scenario at most, and never judges.
func TestKilledHelpers(t *testing.T) {
	for _, helper := range []string{"keep", "lxc-start", "probe"} {
		l := requireLXC(t, anyCgroup()).l
		targettest.Survives(t, l, target.Config{Name: "c1", Image: "glibc", Cgroup: anyCgroup()}, helper, "killed", "ended")
	}
}
