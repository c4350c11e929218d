package docker_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
)

func TestInjectsFrom25(t *testing.T) {
	for version, want := range map[string]bool{"20.10.24+dfsg1": false, "24.0.9": false, "25.0.0-rc.1": true, "28.3.1": true, "": false, "dev": false} {
		if got := docker.Injects(version); got != want {
			t.Errorf("injects(%q) = %t; want %t", version, got, want)
		}
	}
}

// A device that the engine itself injects is as one that our plan brings. An
// engine before 25.0 is not asked to.
func TestDevicesByTheEngine(t *testing.T) {
	r := requireDocker(t, config)
	c := create(t, r.d).(*docker.Container)
	mode := os.FileMode(0o666)
	spec := &specs.Spec{Version: "0.6.0", Kind: "nvidia.com/gpu", Devices: []specs.Device{{Name: "0", ContainerEdits: specs.ContainerEdits{
		DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0", Type: "c", Major: 195, Minor: 0, FileMode: &mode}},
		Env:         []string{"NVIDIA_VISIBLE_DEVICES=void"},
	}}}}
	err := c.StartCDI(t.Context(), host(t, "550.163.01"), docker.Injection{Specs: []*specs.Spec{spec}, Devices: []string{"nvidia.com/gpu=0"}, Plan: plan.Plan{}})
	if version := docker.EngineOf(c).Version(); !docker.Injects(version) {
		cannot, ok := errors.AsType[*target.CannotError](err)
		if !ok || !strings.Contains(cannot.Why, "from 25.0") || c.Running() {
			t.Fatalf("StartCDI() = %v with engine %s; want a CannotError", err, version)
		}
		t.Skip(cannot.Why)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Observe(t.Context(), observe.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 1 || got.Nodes[0].Path != "/dev/nvidia0" || got.Nodes[0].Open != observe.Allowed || len(got.Env) != 1 {
		t.Errorf("%+v", got)
	}
}
