package containercli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"gpurig/core/place"
	"gpurig/core/refuse"
)

// ReasonCgroup is why the container's device cgroup cannot be changed.
const ReasonCgroup refuse.Reason = "device-cgroup"

// allow adds rules to the device cgroup of the container's process.
func (c *call) allow(rules []place.Rule) error {
	process := "self"
	if c.pid != 0 {
		process = fmt.Sprint(c.pid)
	}
	text, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	dir, v2, err := deviceCgroup(string(text), string(mounts))
	if err != nil {
		return refuse.New(ReasonCgroup, "", "process %s: %v", process, err).WithHint("Give --no-cgroups where the container manager allows the devices itself.")
	}
	if v2 {
		c.logf("%s: a device program that allows %v first", dir, rules)
		if err := allowV2(dir, rules); err != nil {
			return refuse.New(ReasonCgroup, dir, "its device program").WithErr(err)
		}
		return nil
	}
	for _, r := range rules {
		line := fmt.Sprintf("%s %s %s", r.Type, r.Num, r.Access)
		c.logf("%s/devices.allow: %s", dir, line)
		if err := os.WriteFile(dir+"/devices.allow", []byte(line), 0); err != nil {
			return refuse.New(ReasonCgroup, "", "%s", line).WithErr(err)
		}
	}
	return nil
}

// deviceCgroup finds the folder of a process's device cgroup, by proc_pid_cgroup(5)
// and proc_pid_mountinfo(5): of version 1 where that has a device controller, else of
// version 2, whose rules are a program.
func deviceCgroup(cgroup, mountinfo string) (dir string, v2 bool, err error) {
	of := map[string]string{}
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			of[controller] = f[2]
		}
	}
	for _, kind := range []struct{ fs, controller string }{{"cgroup", "devices"}, {"cgroup2", ""}} {
		at, ok := of[kind.controller]
		if !ok {
			continue
		}
		for line := range strings.Lines(mountinfo) {
			f := strings.Fields(line)
			head, tail, ok := strings.Cut(line, " - ")
			t := strings.Fields(tail)
			if !ok || len(f) < 5 || len(t) < 3 || t[0] != kind.fs || head == "" {
				continue
			}
			if kind.controller != "" && !strings.Contains(","+t[2]+",", ","+kind.controller+",") {
				continue
			}
			below, ok := strings.CutPrefix(at, strings.TrimSuffix(f[3], "/"))
			if !ok || strings.HasPrefix(below, "/..") {
				continue
			}
			return strings.TrimSuffix(f[4]+below, "/"), kind.controller == "", nil
		}
	}
	return "", false, errors.New("its device cgroup is mounted nowhere")
}
