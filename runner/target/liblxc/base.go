package liblxc

import (
	"fmt"

	"gpurig/core/emit/lxc"
	"gpurig/core/plan"
)

// Base returns the lines that stand before those of a plan. cgroup is "v1" or
// "v2". What differs from machine to machine (names, paths) is not among them.
func Base(cgroup string, idmap []plan.IDMap) []string {
	lines := []string{
		"lxc.autodev = 1",
		"lxc.tty.max = 0",
		"lxc.pty.max = 16",
		"lxc.console.path = none",
		"lxc.mount.auto = proc:mixed sys:mixed",
		"lxc.net.0.type = empty",
	}
	for _, m := range idmap {
		for _, t := range []string{"u", "g"} {
			lines = append(lines, fmt.Sprintf("lxc.idmap = %s %d %d %d", t, m.Container, m.Host, m.Count))
		}
	}
	return append(lines, lxc.DeviceBase(DeviceKey(cgroup))...)
}

// DeviceKey returns the key of device rules without ".allow" or ".deny".
func DeviceKey(cgroup string) string {
	if cgroup == "v1" {
		return "lxc.cgroup.devices"
	}
	return "lxc.cgroup2.devices"
}
