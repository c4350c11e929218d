package liblxc

import (
	"fmt"

	"gpurig/core/emit/lxc"
	"gpurig/runner/target"
)

// Stated is the version that a simulation stands for where none is installed and
// none is asked for.
var Stated = lxc.Version{Major: 5, Minor: 0, Patch: 2}

// Can says why containers of a cgroup version are none of a liblxc's; nil: they are.
func Can(name, cgroup string, v lxc.Version) *target.CannotError {
	if cgroup != "v1" || v.CgroupV1() {
		return nil
	}
	return &target.CannotError{Target: name, Why: fmt.Sprintf("not applicable: LXC %s has no cgroup v1", v), Hint: "use cgroup v2, or an LXC before 7"}
}
