package lxc_test

import (
	"context"
	"testing"

	"gpurig/runner/target"
	"gpurig/runner/target/lxc"
	"gpurig/runner/target/targettest"
)

// BenchmarkBareExecute is lxc-execute of the probe, without plan and hook, in the
// same surroundings. BenchmarkScenario is held against it: at most twice.
func BenchmarkBareExecute(b *testing.B) {
	run, err := lxc.Bare(context.Background(), requireLXC(b, anyCgroup()).l, anyCgroup())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScenario makes a container, starts it with a plan, looks, stops it
// and removes it.
func BenchmarkScenario(b *testing.B) {
	l, ctx := requireLXC(b, anyCgroup()).l, context.Background()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		b.Fatal(err)
	}
	p := targettest.Plan(targettest.Version, true)
	for b.Loop() {
		c, err := l.Create(ctx, target.Config{Name: "c1", Cgroup: anyCgroup()})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(ctx, h, p); err != nil {
			b.Fatal(err)
		}
		if o, err := c.Observe(ctx, targettest.Request()); err != nil || len(o.Nodes) == 0 {
			b.Fatal(o, err)
		}
		if err := c.Stop(ctx); err != nil {
			b.Fatal(err)
		}
		if err := c.Remove(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
