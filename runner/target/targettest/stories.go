package targettest

import (
	"context"
	"fmt"

	"gpurig/core/plan"
	"gpurig/runner/target"
)

// Images that stories run with.
var storyImages = []string{"glibc", "glibc-unmerged", "musl", "none", "stale-libs", "mesa-links"}

// Stories returns every story, for both cgroup versions and both kinds of
// container, by name.
func Stories() ([]Story, error) {
	old, err := Host("535.183.01")
	if err != nil {
		return nil, err
	}
	now, err := Host(Version)
	if err != nil {
		return nil, err
	}
	var out []Story
	add := func(name, image, cgroup string, idmap []plan.IDMap, steps ...Step) {
		out = append(out, Story{
			Name:   name,
			Config: target.Config{Name: fmt.Sprintf("t%d", len(out)), Image: image, Cgroup: cgroup, IDMap: idmap},
			Steps:  steps,
		})
	}
	one, two := Plan(Version, false), Plan(Version, true)
	for _, image := range storyImages {
		add("start/"+image, image, "v1", nil, start(now, one))
	}
	for _, cgroup := range []string{"v1", "v2"} {
		add("cgroup-"+cgroup+"/privileged", "glibc", cgroup, nil, start(now, two))
		add("cgroup-"+cgroup+"/idmapped", "glibc", cgroup, DefaultIDMap(), start(now, two))
		add("negative-rule-left-out/"+cgroup, "glibc", cgroup, nil, start(now, withoutRule(one, "/dev/nvidia-uvm")))
	}
	add("restart", "glibc", "v1", nil, start(now, one), stop(), start(now, one))
	add("crash-then-start", "glibc", "v1", nil, start(now, two), crash(), start(now, one))
	add("driver-upgrade-between-starts", "glibc", "v1", nil,
		start(old, Plan("535.183.01", false)), stop(), start(now, one))
	add("driver-upgrade-after-crash", "glibc", "v1", nil,
		start(old, Plan("535.183.01", false)), crash(), start(now, one))
	add("start-without-devices", "glibc", "v1", nil, start(now, one), stop(), start(now, plan.Plan{}))
	add("read-only-root-with-work-to-do", "readonly", "v1", nil, start(now, one))
	add("source-is-gone", "glibc", "v1", nil, start(old, one), start(now, one))
	for _, cgroup := range []string{"v1", "v2"} {
		add("hot-plug-and-unplug/"+cgroup, "glibc", cgroup, nil, start(now, one), plug(now, two), unplug(now, one), unplug(now, plan.Plan{}))
	}
	return out, nil
}

func withoutRule(p plan.Plan, node string) plan.Plan {
	nodes := make([]plan.Node, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		if n.Path == node {
			n.Permissions = ""
		}
		nodes = append(nodes, n)
	}
	p.Nodes = nodes
	return p
}

func start(h target.Host, p plan.Plan) Step {
	return Step{Name: "start", Look: true, Do: func(ctx context.Context, c target.Container) error { return c.Start(ctx, h, p) }}
}

func plug(h target.Host, p plan.Plan) Step {
	return Step{Name: "plug", Look: true, Do: func(ctx context.Context, c target.Container) error { return c.Plug(ctx, h, p) }}
}

func unplug(h target.Host, p plan.Plan) Step {
	return Step{Name: "unplug", Look: true, Do: func(ctx context.Context, c target.Container) error { return c.Unplug(ctx, h, p) }}
}

func stop() Step {
	return Step{Name: "stop", Do: func(ctx context.Context, c target.Container) error { return c.Stop(ctx) }}
}

func crash() Step {
	return Step{Name: "crash", Do: func(ctx context.Context, c target.Container) error { return c.Crash(ctx) }}
}
