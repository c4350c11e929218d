package cdi_test

import (
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
)

func TestMinimumVersion_B16(t *testing.T) {
	hostPath := specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/a", HostPath: "/dev/b"}}}
	plain := specs.ContainerEdits{Env: []string{"A=1"}}
	dev := func(name string, e specs.ContainerEdits) specs.Device {
		return specs.Device{Name: name, ContainerEdits: e}
	}
	for _, tc := range []struct {
		name    string
		spec    specs.Spec
		want    string
		library string // when the CDI library says something else, and wrongly
	}{
		{name: "nothing special", spec: specs.Spec{Devices: []specs.Device{dev("a", plain)}}, want: "0.3.0"},
		{name: "a mount type", spec: specs.Spec{ContainerEdits: specs.ContainerEdits{Mounts: []*specs.Mount{{Type: "bind"}}}}, want: "0.4.0"},
		{name: "a host path", spec: specs.Spec{Devices: []specs.Device{dev("a", plain), dev("b", hostPath)}}, want: "0.5.0"},
		{name: "a host path not in the last device", spec: specs.Spec{Devices: []specs.Device{dev("a", hostPath), dev("b", plain)}}, want: "0.5.0", library: "0.3.0"},
		{name: "a name that is a number", spec: specs.Spec{Devices: []specs.Device{dev("0", plain)}}, want: "0.5.0"},
		{name: "an annotation", spec: specs.Spec{Annotations: map[string]string{"a": "b"}}, want: "0.6.0"},
		{name: "a device's annotation", spec: specs.Spec{Devices: []specs.Device{{Name: "a", Annotations: map[string]string{"a": "b"}}}}, want: "0.6.0"},
		{name: "a dot in the class", spec: specs.Spec{Kind: "a/b.c"}, want: "0.6.0"},
		{name: "group ids", spec: specs.Spec{Devices: []specs.Device{dev("a", specs.ContainerEdits{AdditionalGIDs: []uint32{44}})}}, want: "0.7.0"},
		{name: "RDT", spec: specs.Spec{ContainerEdits: specs.ContainerEdits{IntelRdt: &specs.IntelRdt{}}}, want: "0.7.0"},
		{name: "RDT schemata", spec: specs.Spec{ContainerEdits: specs.ContainerEdits{IntelRdt: &specs.IntelRdt{Schemata: []string{"x"}}}}, want: "1.1.0"},
		{name: "a network device", spec: specs.Spec{Devices: []specs.Device{dev("0", specs.ContainerEdits{NetDevices: []*specs.LinuxNetDevice{{}}})}}, want: "1.1.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := cdi.MinimumVersion(&tc.spec); got != tc.want {
				t.Errorf("MinimumVersion = %s; want %s", got, tc.want)
			}
			library := tc.library
			if library == "" {
				library = tc.want
			}
			// When this fails, the library has been mended: take the exception out.
			if got, err := specs.MinimumRequiredVersion(&tc.spec); err != nil || got != library {
				t.Errorf("the CDI library says %s, %v; expected %s", got, err, library)
			}
		})
	}
}

func TestValidateSurvivesNilItems_B21(t *testing.T) {
	spec := &specs.Spec{Version: "0.5.0", Kind: "a/b", Devices: []specs.Device{{Name: "a", ContainerEdits: specs.ContainerEdits{
		DeviceNodes: []*specs.DeviceNode{nil}, Mounts: []*specs.Mount{nil}, Hooks: []*specs.Hook{nil}, NetDevices: []*specs.LinuxNetDevice{nil},
	}}}}
	nulls := 0
	for _, p := range cdi.Validate(spec) {
		if p.Reason == cdi.ReasonSpecNull {
			nulls++
		}
	}
	if nulls != 4 {
		t.Errorf("Validate finds %d nulls; want 4", nulls)
	}
	if p := cdi.Validate(nil); len(p) != 1 || p[0].Reason != cdi.ReasonSpecEmpty {
		t.Errorf("Validate(nil) = %v", p)
	}
}
