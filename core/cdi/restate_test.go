package cdi_test

import (
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
)

func TestRestate(t *testing.T) {
	edits := func(e specs.ContainerEdits) *specs.Spec {
		return &specs.Spec{Version: "1.1.0", Kind: "vendor.com/device", Devices: []specs.Device{{Name: "one", ContainerEdits: e}}}
	}
	groups := specs.ContainerEdits{Env: []string{"A=b"}, AdditionalGIDs: []uint32{44, 105}}
	for _, tc := range []struct {
		name, version string
		spec          *specs.Spec
		left          []string
		refused       string // texts of the refusal, if there is one
	}{
		{"nothing to leave out", "0.3.0", edits(specs.ContainerEdits{Env: []string{"A=b"}}), nil, ""},
		{"groups", "0.5.0", edits(groups), []string{"device one: containerEdits.additionalGids 44 105"}, ""},
		{"groups that the version has", "0.7.0", edits(groups), nil, ""},
		{"annotations", "0.5.0", &specs.Spec{Kind: "vendor.com/device", Annotations: map[string]string{"a": "b"}}, []string{"annotations"}, ""},
		{"a path on the host", "0.4.0", edits(specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/a", HostPath: "/dev/b"}}}), nil, "hostPath, which needs 0.5.0"},
		{"RDT", "0.5.0", edits(specs.ContainerEdits{IntelRdt: &specs.IntelRdt{ClosID: "a"}}), nil, "intelRdt, which needs 0.7.0"},
		{"a name that begins with a digit", "0.4.0", &specs.Spec{Kind: "vendor.com/device", Devices: []specs.Device{{Name: "0"}}}, nil, "begins with a digit"},
		{"no version", "0.5", edits(specs.ContainerEdits{}), nil, `"0.5" is no version`},
	} {
		before := len(tc.spec.Devices) > 0 && len(tc.spec.Devices[0].ContainerEdits.AdditionalGIDs) > 0
		got, left, err := cdi.Restate(tc.spec, tc.version)
		if tc.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refused) || got != nil {
				t.Errorf("%s: %v, %v; want a refusal with %q", tc.name, got, err, tc.refused)
			}
			continue
		}
		if err != nil || !slices.Equal(left, tc.left) || got.Version != tc.version || cdi.MinimumVersion(got) > tc.version {
			t.Errorf("%s: version %v, left %q, %v; want %q", tc.name, got, left, err, tc.left)
		}
		if before && len(tc.spec.Devices[0].ContainerEdits.AdditionalGIDs) != 2 {
			t.Errorf("%s: the Spec was changed", tc.name)
		}
	}
}
