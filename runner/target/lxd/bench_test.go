package lxd_test

import (
	"context"
	"testing"

	"gpurig/core/plan"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// BenchmarkBare has LXD create, start, stop and remove a container that has no
// device, and looks into it once. BenchmarkScenario does the same with a plan
// and the hook, and is held against it: at most one and a half times.
func BenchmarkBare(b *testing.B) { bench(b, plan.Plan{}) }

func BenchmarkScenario(b *testing.B) { bench(b, targettest.Plan(targettest.Version, true)) }

func bench(b *testing.B, p plan.Plan) {
	l, ctx := requireLXD(b, lxdapi.LXD, "v1").l, context.Background()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c, err := l.Create(ctx, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(ctx, h, p); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Observe(ctx, targettest.Request()); err != nil {
			b.Fatal(err)
		}
		if err := c.Stop(ctx); err != nil {
			b.Fatal(err)
		}
		if err := c.Remove(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
