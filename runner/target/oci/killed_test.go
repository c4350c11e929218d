package oci_test

import (
	"testing"

	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// Whoever kills a process of ours breaks one scenario at most, and never judges.
func TestKilledHelpers(t *testing.T) {
	for _, helper := range []string{"keep", "runc", "probe"} {
		o := requireOCI(t, "runc").t
		targettest.Survives(t, o, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"}, helper, "killed", "ended")
	}
}
