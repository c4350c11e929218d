package lxd_test

import (
	"testing"

	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// Whoever kills a process of ours breaks one scenario at most, and never judges.
func TestKilledHelpers(t *testing.T) { each(t, killedHelpers) }

func killedHelpers(t *testing.T, f lxdapi.Flavour) {
	daemon := map[lxdapi.Flavour]string{lxdapi.LXD: "lxd", lxdapi.Incus: "incusd"}[f]
	for _, helper := range []string{daemon, "[lxc monitor]", "forkstart", "probe"} {
		targettest.Survives(t, requireLXD(t, f, "v1").l, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"}, helper, "killed", "ended", "no answer from the container")
	}
}
