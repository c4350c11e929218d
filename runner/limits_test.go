package runner

import (
	"testing"

	"gpurig/scenarios"
)

func TestBeyondIsOnlyWhatLXDCannot(t *testing.T) {
	in := func(e scenarios.Expect) *scenarios.Variant {
		return &scenarios.Variant{Scenario: scenarios.Scenario{Steps: []scenarios.Step{{Expect: map[string]scenarios.Expect{"c1": e}}}}}
	}
	flags := in(scenarios.Expect{Mounts: map[string]string{"/usr/bin/nvidia-smi": "ro,nosuid"}})
	mode := in(scenarios.Expect{Nodes: map[string]scenarios.NodeExpect{"/dev/nvidia0": {Open: "no-mode"}}})
	for _, tc := range []struct {
		family, want string
		v            *scenarios.Variant
	}{
		{"lxd", "LXD mounts no disk with nosuid, which is expected of /usr/bin/nvidia-smi", flags},
		{"lxd", "LXD gives a container's root every node, and /dev/nvidia0 is expected not to open for it", mode},
		{"lxc", "", flags},
		{"lxc", "", mode},
		{"lxd", "", in(scenarios.Expect{Mounts: map[string]string{"/usr/bin/nvidia-smi": "ro"}, Nodes: map[string]scenarios.NodeExpect{"/dev/nvidia0": {Open: "denied"}}})},
	} {
		if got := beyond(tc.family, tc.v); got != tc.want {
			t.Errorf("beyond(%s, %v) = %q; want %q", tc.family, tc.v.Steps, got, tc.want)
		}
	}
}
