package runner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// beyond says what of a scenario's expectations no container of a target can
// fulfil, whatever the product does; empty: nothing.
func beyond(t target.Target, v *scenarios.Variant) string {
	if target.Family(t) != "lxd" {
		return ""
	}
	who := manager(t)
	for _, moment := range moments(v) {
		for _, name := range slices.Sorted(maps.Keys(moment)) {
			if why := beyondLXD(moment[name], v.Policy.Tmpfs); why != "" {
				return who + why
			}
		}
	}
	return ""
}

// manager is what people call the manager of containers of family lxd.
func manager(t target.Target) string {
	if strings.HasPrefix(t.Name(), string(lxdapi.Incus)) {
		return lxdapi.Incus.Title()
	}
	return lxdapi.LXD.Title()
}

// beyondLXD knows two things that LXD and Incus do their own way: of a disk's options
// only "ro" reaches the container, and a node is the container's own, made for
// its root. A tmpfs is no disk.
func beyondLXD(e scenarios.Expect, tmpfs []string) string {
	for _, at := range slices.Sorted(maps.Keys(e.Mounts)) {
		if slices.Contains(tmpfs, at) {
			continue
		}
		for _, o := range strings.Split(e.Mounts[at], ",") {
			if o == "nosuid" || o == "nodev" || o == "noexec" {
				return fmt.Sprintf(" mounts no disk with %s, which is expected of %s", o, at)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(e.Nodes)) {
		if e.Nodes[at].Open == "no-mode" {
			return fmt.Sprintf(" gives a container's root every node, and %s is expected not to open for it", at)
		}
	}
	return ""
}
