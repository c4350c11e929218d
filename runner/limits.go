package runner

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gpurig/runner/target"
	"gpurig/scenarios"
)

// beyond says what of a scenario's expectations no container of a target can
// fulfil, whatever the product does; empty: nothing.
func beyond(can target.Capabilities, v *scenarios.Variant) string {
	for _, moment := range moments(v) {
		for _, name := range slices.Sorted(maps.Keys(moment)) {
			if why := beyondManager(can, moment[name], v.Policy.Tmpfs); why != "" {
				return can.Manager + why
			}
		}
	}
	return ""
}

// beyondManager is beyond for one container. A tmpfs is no disk.
func beyondManager(can target.Capabilities, e scenarios.Expect, tmpfs []string) string {
	for _, at := range slices.Sorted(maps.Keys(e.Mounts)) {
		if !can.PlainDisks || slices.Contains(tmpfs, at) {
			continue
		}
		for _, o := range strings.Split(e.Mounts[at], ",") {
			if o == "nosuid" || o == "nodev" || o == "noexec" {
				return fmt.Sprintf(" mounts no disk with %s, which is expected of %s", o, at)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(e.Nodes)) {
		if can.RootOpensNodes && e.Nodes[at].Open == "no-mode" {
			return fmt.Sprintf(" gives a container's root every node, and %s is expected not to open for it", at)
		}
	}
	return ""
}

// beyondNative says what of a scenario the manager's own GPU device has no word for;
// empty: nothing.
func beyondNative(can target.Capabilities, v *scenarios.Variant) string {
	if can.PlanTarget == "" {
		return ""
	}
	own := can.Manager + "'s own GPU device"
	if !reflect.ValueOf(v.Policy).IsZero() {
		return "the scenario is about a policy, which " + own + " does not have"
	}
	for _, c := range v.Containers {
		switch {
		case c.VM:
			return "the scenario is about a virtual machine: none is started here"
		case c.Strict:
			return "the scenario is about strict, which " + own + " does not have"
		case c.Groups != "":
			return "the scenario is about groups, which " + own + " does not map"
		}
	}
	return ""
}
