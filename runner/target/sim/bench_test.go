package sim_test

import (
	"context"
	"fmt"
	"testing"

	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

// BenchmarkScenario is one container's whole life with a plan of the size that a
// data-centre driver brings: about 70 mounts.
func BenchmarkScenario(b *testing.B) {
	s, err := sim.New(image.NewSet(image.Bare{}))
	if err != nil {
		b.Fatal(err)
	}
	h, p := big(b, 60)
	ctx, r := context.Background(), targettest.Request()
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.Create(ctx, target.Config{Name: "c1", Image: "glibc", Cgroup: "v1"})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(ctx, h, p); err != nil {
			b.Fatal(err)
		}
		if o, err := c.Observe(ctx, r); err != nil || len(o.Mounts) < 60 || len(o.Problems) > 0 {
			b.Fatal(len(o.Mounts), o.Problems, err)
		}
		if err := c.Stop(ctx); err != nil {
			b.Fatal(err)
		}
		if err := c.Remove(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// big adds n libraries to the plan of package targettest.
func big(b *testing.B, n int) (target.Host, plan.Plan) {
	b.Helper()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		b.Fatal(err)
	}
	t := h.Root.(*tree.Tree)
	data, err := t.ReadFile(targettest.LibDir + "/libcuda.so." + targettest.Version)
	if err != nil {
		b.Fatal(err)
	}
	p := targettest.Plan(targettest.Version, true)
	for i := range n {
		name := fmt.Sprintf("libnvidia-part%02d.so", i)
		file := fmt.Sprintf("%s/%s.%s", targettest.LibDir, name, targettest.Version)
		if err := t.WriteFile(file, data, 0o644); err != nil {
			b.Fatal(err)
		}
		p.Mounts = append(p.Mounts, plan.Mount{Source: file, Target: file, Options: []string{"ro", "nosuid", "nodev", "bind", "rprivate"}})
		if i%2 == 0 {
			p.Links = append(p.Links, plan.Link{Path: targettest.LibDir + "/" + name + ".1", Target: name + "." + targettest.Version})
		}
	}
	return h, p
}
