package sim_test

import (
	"context"
	"errors"
	"testing"

	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
	"gpurig/scenarios"
)

func TestLdconfig(t *testing.T) {
	ctx := context.Background()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	libraries := scenarios.Content{Libraries: map[string]scenarios.Library{"/usr/local/lib/x86_64-linux-gnu/libnew.so.1.5": {SONAME: "libnew.so.1"}}}
	for _, tc := range []struct {
		name, kind string
		content    scenarios.Content
		code       int
		path       string // of libnew.so.1 afterwards
	}{
		{"a library that nobody had told", "glibc", libraries, 0, "/usr/local/lib/x86_64-linux-gnu/libnew.so.1"},
		{"a root that cannot be changed", "readonly", libraries, 1, ""},
		{"a folder in place of the cache", "glibc", scenarios.Content{Remove: []string{"/etc/ld.so.cache"}, Dirs: []string{"/etc/ld.so.cache"}}, 1, ""},
		{"an image that has none", "musl", scenarios.Content{}, 127, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := newSim(t).Create(ctx, target.Config{Name: "c1", Image: tc.kind, Content: tc.content, Cgroup: "v2"})
			if err != nil {
				t.Fatal(err)
			}
			real := c.(target.Runner)
			if _, err := real.Run(ctx, observe.Program{Command: []string{image.Ldconfig}}); !errors.Is(err, target.ErrNotRunning) {
				t.Errorf("before the start: %v", err)
			}
			if err := c.Start(ctx, h, plan.Plan{}); err != nil {
				t.Fatal(err)
			}
			ran, err := real.Run(ctx, observe.Program{Command: []string{image.Ldconfig}})
			if err != nil || ran.Code != tc.code || ran.Code != 0 && ran.Output == "" {
				t.Errorf("it ended with %+v, %v; want %d", ran, err, tc.code)
			}
			o, err := c.Observe(ctx, observe.Request{SONAMEs: []string{"libnew.so.1"}})
			if err != nil || o.Libraries[0].Path != tc.path {
				t.Errorf("libnew.so.1 is %+v, %v; want it at %q", o.Libraries[0], err, tc.path)
			}
			if _, err := real.Run(ctx, observe.Program{Command: []string{"/bin/sh"}}); err == nil {
				t.Error("a shell was simulated")
			}
		})
	}
}
