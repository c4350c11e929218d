package runner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/scenarios"
)

// beyond says what of a scenario's expectations no container of a family can
// fulfil, whatever the product does; empty: nothing.
func beyond(family string, v *scenarios.Variant) string {
	if family != "lxd" {
		return ""
	}
	for _, moment := range moments(v) {
		for _, name := range slices.Sorted(maps.Keys(moment)) {
			if why := beyondLXD(moment[name], v.Policy.Tmpfs); why != "" {
				return why
			}
		}
	}
	return ""
}

// beyondLXD knows two things that LXD does its own way: of a disk's options
// only "ro" reaches the container, and a node is the container's own, made for
// its root. A tmpfs is no disk.
func beyondLXD(e scenarios.Expect, tmpfs []string) string {
	for _, at := range slices.Sorted(maps.Keys(e.Mounts)) {
		if slices.Contains(tmpfs, at) {
			continue
		}
		for _, o := range strings.Split(e.Mounts[at], ",") {
			if o == "nosuid" || o == "nodev" || o == "noexec" {
				return fmt.Sprintf("LXD mounts no disk with %s, which is expected of %s", o, at)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(e.Nodes)) {
		if e.Nodes[at].Open == "no-mode" {
			return fmt.Sprintf("LXD gives a container's root every node, and %s is expected not to open for it", at)
		}
	}
	return ""
}
