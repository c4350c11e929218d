package runner

import (
	"testing"

	"gpurig/core/policy"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/scenarios"
)

func TestBeyondIsOnlyWhatLXDCannot(t *testing.T) {
	in := func(e scenarios.Expect) *scenarios.Variant {
		return &scenarios.Variant{Scenario: scenarios.Scenario{Steps: []scenarios.Step{{Expect: map[string]scenarios.Expect{"c1": e}}}}}
	}
	flags := in(scenarios.Expect{Mounts: map[string]string{"/usr/bin/nvidia-smi": "ro,nosuid"}})
	mode := in(scenarios.Expect{Nodes: map[string]scenarios.NodeExpect{"/dev/nvidia0": {Open: "no-mode"}}})
	onLXD, onIncus := lxd.Capabilities(lxdapi.LXD), lxd.Capabilities(lxdapi.Incus)
	for _, tc := range []struct {
		can  target.Capabilities
		want string
		v    *scenarios.Variant
	}{
		{onIncus, "Incus mounts no disk with nosuid, which is expected of /usr/bin/nvidia-smi", flags},
		{onIncus, "Incus gives a container's root every node, and /dev/nvidia0 is expected not to open for it", mode},
		{onLXD, "LXD mounts no disk with nosuid, which is expected of /usr/bin/nvidia-smi", flags},
		{onLXD, "LXD gives a container's root every node, and /dev/nvidia0 is expected not to open for it", mode},
		{target.Capabilities{Family: "lxc"}, "", flags},
		{target.Capabilities{Family: "lxc"}, "", mode},
		{onLXD, "", in(scenarios.Expect{Mounts: map[string]string{"/usr/bin/nvidia-smi": "ro"}, Nodes: map[string]scenarios.NodeExpect{"/dev/nvidia0": {Open: "denied"}}})},
	} {
		if got := beyond(tc.can, tc.v); got != tc.want {
			t.Errorf("beyond(%+v, %v) = %q; want %q", tc.can, tc.v.Steps, got, tc.want)
		}
	}
}

func TestBeyondNativeNamesTheManager(t *testing.T) {
	strict := &scenarios.Variant{Scenario: scenarios.Scenario{Containers: map[string]scenarios.Container{"c1": {Strict: true}}}}
	policy := &scenarios.Variant{Scenario: scenarios.Scenario{Policy: policy.Policy{Tmpfs: []string{"/tmp/data"}}}}
	native := func(f lxdapi.Flavour) target.Capabilities {
		return lxd.NewNative(lxd.Options{Flavour: f}).Capabilities()
	}
	for _, tc := range []struct {
		can  target.Capabilities
		want string
		v    *scenarios.Variant
	}{
		{native(lxdapi.LXD), "the scenario is about strict, which LXD's own GPU device does not have", strict},
		{native(lxdapi.Incus), "the scenario is about strict, which Incus's own GPU device does not have", strict},
		{native(lxdapi.Incus), "the scenario is about a policy, which Incus's own GPU device does not have", policy},
		{lxd.Capabilities(lxdapi.Incus), "", strict},
	} {
		if got := beyondNative(tc.can, tc.v); got != tc.want {
			t.Errorf("beyondNative(%+v) = %q; want %q", tc.can, got, tc.want)
		}
	}
}
