package oci_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/device"
	"gpurig/core/emit/oci"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/fixtures/golden"
)

var idmap = []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}}

func readPlan(t *testing.T, name string) plan.Plan {
	t.Helper()
	data, err := os.ReadFile("../../translate/testdata/plan/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var p plan.Plan
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// options are those of a complete call.
func options() oci.Options {
	return oci.Options{
		HostRoot: "/srv/host", NodesDir: "/run/rig/c1/nodes",
		HookPath: "/usr/libexec/cdi-hook", HookFile: "/run/rig/c1/hook.json", Container: "c1",
	}
}

func TestGoldenEdits(t *testing.T) {
	for _, tc := range []struct {
		name, plan string
		idmap      []plan.IDMap
	}{
		{"one-gpu", "one-gpu", nil},
		{"two-gpus", "two-gpus", nil},
		{"one-gpu-idmapped", "one-gpu-idmapped", idmap},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options()
			o.IDMap = tc.idmap
			p := readPlan(t, tc.plan)
			before, _ := json.Marshal(p)
			e, err := oci.Emit(p, o)
			if err != nil {
				t.Fatal(err)
			}
			if after, _ := json.Marshal(p); string(after) != string(before) {
				t.Error("Emit changed the plan")
			}
			if again, err := oci.Emit(p, o); err != nil || text(t, again) != text(t, e) {
				t.Errorf("Emit differs the second time: %v", err)
			}
			golden.Equal(t, "testdata/"+tc.name+".json", []byte(text(t, e)))
		})
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func node(at string) plan.Node {
	return plan.Node{Path: at, Source: at, Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666, Permissions: "rw"}
}

func TestRefusals(t *testing.T) {
	bind := []string{"ro", "bind"}
	for _, tc := range []struct {
		name string
		plan plan.Plan
		opts func(*oci.Options)
		want refuse.Reason
		says string
	}{
		{name: "a node outside /dev", plan: plan.Plan{Nodes: []plan.Node{node("/etc/nvidia0")}}, want: oci.ReasonEdit, says: "/etc/nvidia0"},
		{name: "a node beside /dev (A20)", plan: plan.Plan{Nodes: []plan.Node{node("/dev/../etc/x")}}, want: oci.ReasonEdit, says: "/dev"},
		{name: "a node without a number", plan: plan.Plan{Nodes: []plan.Node{{Path: "/dev/x", Type: device.Char}}}, want: oci.ReasonEdit, says: "number"},
		{name: "a pipe", plan: plan.Plan{Nodes: []plan.Node{{Path: "/dev/x", Type: "p", Num: device.Num{Major: 1}}}}, want: oci.ReasonEdit, says: "device"},
		{name: "the root as a target", plan: plan.Plan{Mounts: []plan.Mount{{Source: "/a", Target: "/", Options: bind}}}, want: oci.ReasonEdit, says: "clean"},
		{name: "an option that no plan has", plan: plan.Plan{Mounts: []plan.Mount{{Source: "/a", Target: "/b", Options: []string{"rshared"}}}}, want: oci.ReasonEdit, says: "rshared"},
		{name: "a variable without a name", plan: plan.Plan{Env: []plan.Var{{Value: "x"}}}, want: oci.ReasonEdit, says: "variable"},
		{name: "a variable with a null byte", plan: plan.Plan{Env: []plan.Var{{Name: "A", Value: "x\x00B=y"}}}, want: oci.ReasonEdit, says: "A"},
		{name: "two mounts in one place", plan: plan.Plan{Mounts: []plan.Mount{{Source: "/a", Target: "/lib/x", Options: bind}, {Source: "/a", Target: "/usr/lib/x", Options: bind}}},
			opts: func(o *oci.Options) {
				o.Resolve = func(p string) (string, error) { return path.Join("/usr", strings.TrimPrefix(p, "/usr")), nil }
			}, want: oci.ReasonConflict, says: "/usr/lib/x"},
		{name: "a path that leads out of the image", plan: plan.Plan{Mounts: []plan.Mount{{Source: "/a", Target: "/b", Options: bind}}},
			opts: func(o *oci.Options) { o.Resolve = func(string) (string, error) { return "", fs.ErrInvalid } }, want: oci.ReasonResolve, says: "/b"},
		{name: "an owner without a counterpart", plan: plan.Plan{Nodes: []plan.Node{{Path: "/dev/x", Source: "/dev/x", Type: device.Char, Num: device.Num{Major: 195}, UID: 70000, Own: true}}},
			opts: func(o *oci.Options) { o.IDMap = idmap }, want: oci.ReasonUnmapped, says: "70000"},
		{name: "nodes of its own and no place for them", plan: plan.Plan{Nodes: []plan.Node{{Path: "/dev/x", Source: "/dev/x", Type: device.Char, Num: device.Num{Major: 195}, Own: true}}},
			opts: func(o *oci.Options) { o.IDMap, o.NodesDir = idmap, "" }, want: oci.ReasonOption, says: "nodes directory"},
		{name: "work for the hook and no hook", plan: plan.Plan{Links: []plan.Link{{Path: "/usr/lib/x", Target: "y"}}},
			opts: func(o *oci.Options) { o.HookPath = "" }, want: oci.ReasonOption, says: "hook path"},
		{name: "a relative host root", plan: plan.Plan{}, opts: func(o *oci.Options) { o.HostRoot = "srv" }, want: oci.ReasonOption, says: "host root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options()
			if tc.opts != nil {
				tc.opts(&o)
			}
			e, err := oci.Emit(tc.plan, o)
			list := refuse.As(err)
			if len(list) == 0 || list[0].Reason != tc.want || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("Emit() = %v; want %s with %q", err, tc.want, tc.says)
			}
			if text(t, e) != text(t, oci.Edits{}) {
				t.Error("edits came along with an error")
			}
		})
	}
	e, err := oci.Emit(plan.Plan{}, oci.Options{})
	if err != nil || e.Hooks != nil {
		t.Errorf("Emit(an empty plan) = %+v, %v; want no hooks", e, err)
	}
}

// What a configuration has of the same name, path or destination gives way.
func TestApplyReplaces(t *testing.T) {
	s := rspec.Spec{
		Process: &rspec.Process{Env: []string{"A=1", "B=1"}, User: rspec.User{AdditionalGids: []uint32{44}}},
		Mounts:  []rspec.Mount{{Destination: "/a", Source: "/1"}, {Destination: "/b", Source: "/1"}},
		Linux:   &rspec.Linux{Devices: []rspec.LinuxDevice{{Path: "/dev/a", Major: 1}}},
	}
	oci.Edits{
		Env: []string{"A=2"}, Groups: []uint32{44, 55}, Mounts: []rspec.Mount{{Destination: "/a", Source: "/2"}},
		Devices: []rspec.LinuxDevice{{Path: "/dev/a", Major: 2}}, Rules: []rspec.LinuxDeviceCgroup{{Allow: true}},
		Hooks: &rspec.Hooks{Poststop: []rspec.Hook{{Path: "/h"}}},
	}.Apply(&s)
	want := rspec.Spec{
		Process: &rspec.Process{Env: []string{"B=1", "A=2"}, User: rspec.User{AdditionalGids: []uint32{44, 55}}},
		Mounts:  []rspec.Mount{{Destination: "/b", Source: "/1"}, {Destination: "/a", Source: "/2"}},
		Linux: &rspec.Linux{Devices: []rspec.LinuxDevice{{Path: "/dev/a", Major: 2}},
			Resources: &rspec.LinuxResources{Devices: []rspec.LinuxDeviceCgroup{{Allow: true}}}},
		Hooks: &rspec.Hooks{Poststop: []rspec.Hook{{Path: "/h"}}},
	}
	if text(t, s) != text(t, want) {
		t.Errorf("Apply made %s; want %s", text(t, s), text(t, want))
	}
}
