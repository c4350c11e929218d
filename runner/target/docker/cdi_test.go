package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/core/translate"
	"gpurig/fakehw/tree"
	"gpurig/runner"
	"gpurig/runner/observe"
	"gpurig/runner/peers"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
	"gpurig/runner/target/targettest"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

func TestInjectsFrom25(t *testing.T) {
	for version, want := range map[string]bool{"20.10.24+dfsg1": false, "24.0.9": false, "25.0.0-rc.1": true, "28.3.1": true, "": false, "dev": false} {
		if got := docker.Injects(version); got != want {
			t.Errorf("injects(%q) = %t; want %t", version, got, want)
		}
		if err := docker.TooOld(version); (err == nil) != want || err != nil && !errors.Is(err, target.ErrBroken) {
			t.Errorf("tooOld(%q) = %v; want broken: %t", version, err, !want)
		}
	}
}

// requireCDI returns the target whose engine injects devices, or skips where the
// engine is older. GPURIG_REQUIRE_DOCKER_CDI turns the skip into a failure.
func requireCDI(t *testing.T) rig {
	t.Helper()
	r := requireDocker(t, config)
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	d := docker.New(docker.Options{Images: r.images, CDI: true, Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := d.Can(t.Context(), config); err != nil {
		if !errors.Is(err, target.ErrBroken) {
			t.Fatalf("Can() = %v; want broken, with the cause", err)
		}
		if os.Getenv("GPURIG_REQUIRE_DOCKER_CDI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return rig{d, r.images}
}

// A named request is devices of one fake host, and what the product makes of them.
type namedRequest struct {
	host target.Host
	in   target.Injection
	plan plan.Plan
	look observe.Request
}

func askNames(t *testing.T, profile string, names ...string) namedRequest {
	t.Helper()
	m, err := runner.Profiles{}.Host(profile, "")
	if err != nil {
		t.Fatal(err)
	}
	r := specgen.Request{Model: m}
	made, err := specgen.New(specgen.Options{NoChild: true}).Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	root, err := r.Tree()
	if err != nil {
		t.Fatal(err)
	}
	q := namedRequest{host: target.Host{Root: root, Sum: root.Sum}, in: target.Injection{Specs: []*specs.Spec{made.Spec}, Devices: names}}
	var asked []cdi.Name
	for _, n := range names {
		name, err := cdi.ParseName(n)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, name)
	}
	edits, err := cdi.Resolve([]cdi.Source{cdi.FromHost(made.Spec)}, asked)
	if err != nil {
		t.Fatal(err)
	}
	if q.plan, err = translate.Edits(root, edits, translate.Options{}); err != nil {
		t.Fatal(err)
	}
	q.look = verdict.Request(scenarios.Expect{Library: map[string]string{"libcuda.so.1": "", "libnvidia-ml.so.1": "", "libnvidia-nothing.so.1": ""}}, &q.plan)
	return q
}

// The engine with the vendor's hooks, with cdi-hook in their place, and given our
// plan as devices and mounts: the container sees the same.
func TestTheEngineInjectsAsPlanned(t *testing.T) {
	r := requireCDI(t)
	vendor := peers.Path(t, "nvidia-cdi-hook")
	for _, tc := range []struct {
		name, profile string
		devices       []string
	}{
		{"one GPU", "t4-server", []string{"nvidia.com/gpu=0"}},
		{"two GPUs of eight", "dgx-a100", []string{"nvidia.com/gpu=3", "nvidia.com/gpu=5"}},
		{"a MIG device", "a100-mig-2g-3g", []string{"nvidia.com/gpu=0:1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := askNames(t, tc.profile, tc.devices...)
			seen := map[string]observe.Observation{}
			for _, way := range []string{"plan", "cdi-hook", "vendor"} {
				c := create(t, r.d)
				var err error
				switch way {
				case "plan":
					err = c.Start(t.Context(), q.host, q.plan)
				case "cdi-hook":
					err = c.(target.Injector).Inject(t.Context(), q.host, q.in, q.plan)
				default:
					err = docker.InjectVendors(t.Context(), c, q.host, q.in, q.plan, vendor)
				}
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				o, err := c.Observe(t.Context(), q.look)
				if err != nil || len(o.Problems) > 0 || len(o.Nodes) == 0 {
					t.Fatalf("%s: %v, %q, %d nodes", way, err, o.Problems, len(o.Nodes))
				}
				for i := range o.Libraries { // ldconfig writes a folder's first name, cdi-hook the real one
					o.Libraries[i].Path = o.Libraries[i].Final
				}
				if way == "vendor" {
					o.Groups = seen["plan"].Groups // which the engine forgets: see below
				}
				seen[way] = o
			}
			for _, way := range []string{"cdi-hook", "vendor"} {
				for _, d := range observe.Diff(seen["plan"], seen[way]) {
					t.Errorf("plan | %s: %s", way, d)
				}
			}
		})
	}
}

// What engines to 28.5 make of a Spec that leaves things to be looked up, and why
// docker-cdi writes them down. Where this fails, an engine has learned it.
func TestWhatTheEngineDoesNotLookUp(t *testing.T) {
	r := requireCDI(t)
	root := tree.New()
	if err := root.Mknod(device.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o640, UID: 7, GID: 44}); err != nil {
		t.Fatal(err)
	}
	spec := &specs.Spec{Version: "0.7.0", Kind: "vendor.com/device", Devices: []specs.Device{{Name: "one", ContainerEdits: specs.ContainerEdits{
		DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0"}}, Env: []string{"FOO=bar"}, AdditionalGIDs: []uint32{44},
	}}}}
	c := create(t, r.d)
	in := target.Injection{Specs: []*specs.Spec{spec}, Devices: []string{"vendor.com/device=one"}}
	if err := docker.InjectVendors(t.Context(), c, target.Host{Root: root, Sum: root.Sum}, in, plan.Plan{}, "/bin/true"); err != nil {
		t.Fatal(err)
	}
	got, err := c.Observe(t.Context(), observe.Request{})
	if err != nil {
		t.Fatal(err)
	}
	want := observe.Node{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666, Open: observe.Allowed}
	if len(got.Nodes) != 1 || got.Nodes[0] != want || slices.Contains(got.Groups, 44) || !slices.Equal(got.Env, []string{"FOO=bar"}) {
		t.Errorf("%+v; want the node %+v, and no group", got, want)
	}
}
