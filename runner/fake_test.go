package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/scenarios"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// fakeSpecs makes a Spec with one device for each GPU of the model: its node,
// and a driver file of the host's version.
type fakeSpecs struct {
	calls atomic.Int32
	err   error
}

func (f *fakeSpecs) Generate(_ context.Context, r specgen.Request) (*nvidia.Result, error) {
	f.calls.Add(1)
	if f.err != nil {
		return nil, f.err
	}
	s := &specs.Spec{Version: "0.7.0", Kind: "nvidia.com/gpu"}
	for _, g := range r.Model.NVIDIAGPUs() {
		s.Devices = append(s.Devices, specs.Device{Name: fmt.Sprint(g.Index), ContainerEdits: specs.ContainerEdits{
			DeviceNodes: []*specs.DeviceNode{{Path: fmt.Sprintf("/dev/nvidia%d", g.Minor)}},
		}})
	}
	lib := "/usr/lib/x86_64-linux-gnu/libcuda.so." + r.Model.Userspace.Version
	s.ContainerEdits.Mounts = []*specs.Mount{{HostPath: lib, ContainerPath: lib, Options: []string{"ro", "nosuid", "nodev", "bind"}}}
	return &nvidia.Result{Spec: s, Mode: "nvml"}, nil
}

// A fakeTarget shows in a container what was planned, and fails on demand.
type fakeTarget struct {
	name, family string
	can          error
	// start, look and remove stand in where not nil.
	start  func(p plan.Plan) error
	look   func(o *observe.Observation)
	warn   []hookspec.Warning
	remove error

	mu   sync.Mutex
	made map[*fakeContainer]bool
}

func (f *fakeTarget) Name() string                             { return f.name }
func (f *fakeTarget) Can(context.Context, target.Config) error { return f.can }
func (f *fakeTarget) Capabilities() target.Capabilities {
	return target.Capabilities{Family: f.family, LXCLines: f.family == "" || f.family == "lxc"}
}
func (f *fakeTarget) Close(context.Context) error { return nil }
func (f *fakeTarget) Create(_ context.Context, c target.Config) (target.Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctr := &fakeContainer{target: f, config: c}
	if f.made == nil {
		f.made = map[*fakeContainer]bool{}
	}
	f.made[ctr] = true
	return ctr, nil
}

// left fails the test when a container was not removed.
func (f *fakeTarget) left(t *testing.T) {
	t.Helper()
	if len(f.made) > 0 {
		t.Errorf("target %s: %d containers were not removed", f.name, len(f.made))
	}
}

type fakeContainer struct {
	target  *fakeTarget
	config  target.Config
	plan    plan.Plan
	running bool
}

func (c *fakeContainer) Start(ctx context.Context, _ target.Host, p plan.Plan) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.target.start != nil {
		if err := c.target.start(p); err != nil {
			return err
		}
	}
	c.plan, c.running = p, true
	return nil
}
func (c *fakeContainer) Plug(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.Start(ctx, h, p)
}
func (c *fakeContainer) Unplug(_ context.Context, _ target.Host, p plan.Plan) error {
	c.plan = p
	return nil
}
func (c *fakeContainer) Observe(context.Context, observe.Request) (observe.Observation, error) {
	var o observe.Observation
	for _, n := range c.plan.Nodes {
		o.Nodes = append(o.Nodes, observe.Node{Path: n.Path, Type: n.Type, Num: n.Num, Mode: n.Mode, Open: observe.Allowed})
	}
	for _, m := range c.plan.Mounts {
		o.Mounts = append(o.Mounts, observe.Mount{Target: m.Target, Type: "file", Options: []string{"ro"}})
	}
	if c.target.look != nil {
		c.target.look(&o)
	}
	return o, nil
}
func (c *fakeContainer) Stop(context.Context) error  { c.running = false; return nil }
func (c *fakeContainer) Crash(context.Context) error { c.running = false; return nil }
func (c *fakeContainer) Running() bool               { return c.running }
func (c *fakeContainer) Configuration() string       { return "" }
func (c *fakeContainer) Warnings() ([]hookspec.Warning, error) {
	return c.target.warn, nil
}
func (c *fakeContainer) Remove(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("removed with a context that had ended")
	}
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	delete(c.target.made, c)
	return c.target.remove
}

// parse reads one scenario, with a title put in front.
func parse(t *testing.T, text string) []scenarios.Variant {
	t.Helper()
	s, err := scenarios.Parse("test/one", "test/one.yaml", []byte("# This is a test.\n"+text), scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return scenarios.Expand(s)
}
