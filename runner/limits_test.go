package runner

import (
	"testing"

	"gpurig/core/policy"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

func TestBeyondIsOnlyWhatLXDCannot(t *testing.T) {
	in := func(e scenarios.Expect) *scenarios.Variant {
		return &scenarios.Variant{Scenario: scenarios.Scenario{Steps: []scenarios.Step{{Expect: map[string]scenarios.Expect{"c1": e}}}}}
	}
	flags := in(scenarios.Expect{Mounts: map[string]string{"/usr/bin/nvidia-smi": "ro,nosuid"}})
	mode := in(scenarios.Expect{Nodes: map[string]scenarios.NodeExpect{"/dev/nvidia0": {Open: "no-mode"}}})
	for _, tc := range []struct {
		target, family, want string
		v                    *scenarios.Variant
	}{
		{"sim-lxd", "lxd", "LXD mounts no disk with nosuid, which is expected of /usr/bin/nvidia-smi", flags},
		{"incus", "lxd", "Incus mounts no disk with nosuid, which is expected of /usr/bin/nvidia-smi", flags},
		{"incus-native", "lxd", "Incus gives a container's root every node, and /dev/nvidia0 is expected not to open for it", mode},
		{"lxd", "lxd", "LXD mounts no disk with nosuid, which is expected of /usr/bin/nvidia-smi", flags},
		{"lxd", "lxd", "LXD gives a container's root every node, and /dev/nvidia0 is expected not to open for it", mode},
		{"lxc", "lxc", "", flags},
		{"lxc", "lxc", "", mode},
		{"lxd", "lxd", "", in(scenarios.Expect{Mounts: map[string]string{"/usr/bin/nvidia-smi": "ro"}, Nodes: map[string]scenarios.NodeExpect{"/dev/nvidia0": {Open: "denied"}}})},
	} {
		if got := beyond(called{name: tc.target, family: tc.family}, tc.v); got != tc.want {
			t.Errorf("beyond(%s, %v) = %q; want %q", tc.target, tc.v.Steps, got, tc.want)
		}
	}
}

// A called target has a name and a family, and does nothing.
type called struct {
	target.Target
	name, family string
}

func (c called) Name() string   { return c.name }
func (c called) Family() string { return c.family }

func TestBeyondNativeNamesTheManager(t *testing.T) {
	strict := &scenarios.Variant{Scenario: scenarios.Scenario{Containers: map[string]scenarios.Container{"c1": {Strict: true}}}}
	policy := &scenarios.Variant{Scenario: scenarios.Scenario{Policy: policy.Policy{Tmpfs: []string{"/tmp/data"}}}}
	for _, tc := range []struct {
		target, want string
		v            *scenarios.Variant
	}{
		{"lxd-native", "the scenario is about strict, which LXD's own GPU device does not have", strict},
		{"incus-native", "the scenario is about strict, which Incus's own GPU device does not have", strict},
		{"incus-native", "the scenario is about a policy, which Incus's own GPU device does not have", policy},
		{"incus", "", strict},
	} {
		if got := beyondNative(called{name: tc.target, family: "lxd"}, tc.v); got != tc.want {
			t.Errorf("beyondNative(%s) = %q; want %q", tc.target, got, tc.want)
		}
	}
}
