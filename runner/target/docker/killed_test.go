package docker_test

import (
	"testing"

	"gpurig/runner/target/targettest"
)

// Whoever kills a process of ours breaks one scenario at most, and never judges.
func TestKilledHelpers(t *testing.T) {
	for _, helper := range []string{"dockerd", "containerd", "containerd-shim-runc-v2", "probe"} {
		targettest.Survives(t, requireDocker(t, config).d, config, helper, "killed", "ended", "containerd")
	}
}
