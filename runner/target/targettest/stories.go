package targettest

import (
	"context"
	"fmt"
	"slices"

	"gpurig/core/plan"
	"gpurig/runner/target"
)

// Images that stories run with.
var storyImages = []string{"glibc", "glibc-unmerged", "musl", "none", "stale-libs", "mesa-links", "glibc-old", "hostile-etc", "hostile-lib"}

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
	for _, idmap := range [][]plan.IDMap{nil, DefaultIDMap()} {
		kind := "privileged"
		if idmap != nil {
			kind = "idmapped"
		}
		add("own-nodes/"+kind, "glibc", "v1", idmap, start(now, withOwnNode(one)))
		add("plug-own-node/"+kind, "glibc", "v2", idmap, start(now, one), plug(now, withOwnNode(two)), unplug(now, one))
		add("modes-and-odd-places/"+kind, "glibc", "v1", idmap, start(now, odd(one)), stop(), start(now, one))
		add("musl-restart/"+kind, "musl", "v1", idmap, start(now, one), stop(), start(now, plan.Plan{}))
		add("plug-into-empty/"+kind, "none", "v1", idmap, start(now, plan.Plan{}), plug(now, one), stop(), start(now, plan.Plan{}))
		add("plug-then-crash/"+kind, "glibc-unmerged", "v2", idmap, start(now, one), plug(now, two), crash(), start(now, one))
	}
	add("links-only", "glibc", "v1", nil, start(now, one), stop(), start(now, linksOnly(one)), stop(), start(now, plan.Plan{}))
	add("file-in-the-way-of-a-link", "glibc", "v1", nil, start(now, linkOver(one, "/etc/hostname")))
	add("folder-in-the-way-of-a-file", "glibc", "v1", nil, start(now, mountOver(one, "/usr/lib")))
	return out, nil
}

// withOwnNode gives /dev/nvidia0 another mode and owner.
func withOwnNode(p plan.Plan) plan.Plan {
	p.Nodes = slices.Clone(p.Nodes)
	p.Nodes[0].Own, p.Nodes[0].Mode, p.Nodes[0].UID, p.Nodes[0].GID = true, 0o640, 1000, 44
	return p
}

// odd adds what plans seldom have: modes, paths through links of the image, a
// folder below /dev, a file within a mounted folder.
func odd(p plan.Plan) plan.Plan {
	ro := []string{"ro", "nosuid", "nodev", "bind", "rprivate"}
	p.Modes = []plan.Mode{{Path: "/dev/dri", Mode: 0o711}}
	p.Mounts = append(slices.Clone(p.Mounts),
		plan.Mount{Source: "/usr/share/nvidia", Target: "/dev/nvidia-share", Dir: true, Options: ro},
		plan.Mount{Source: "/usr/bin/nvidia-smi", Target: "/bin/nvidia-debugdump", Options: ro},
		plan.Mount{Source: "/usr/bin/nvidia-smi", Target: "/usr/share/nvidia/nvoptix.bin", Options: ro},
		plan.Mount{Source: "/usr/share/nvidia", Target: "/opt/deep/er/share", Dir: true, Options: []string{"rw", "bind", "private"}})
	p.Links = append(slices.Clone(p.Links), plan.Link{Path: "/lib/x86_64-linux-gnu/new/dir/libx.so", Target: "../../libcuda.so.1"})
	return p
}

// linksOnly has nothing to be mounted but nodes.
func linksOnly(p plan.Plan) plan.Plan {
	p.Mounts, p.LibraryDirs, p.Links = nil, nil, p.Links[len(p.Links)-1:]
	return p
}

func linkOver(p plan.Plan, path string) plan.Plan {
	p.Links = append(slices.Clone(p.Links), plan.Link{Path: path, Target: "elsewhere"})
	return p
}

func mountOver(p plan.Plan, path string) plan.Plan {
	p.Mounts = append(slices.Clone(p.Mounts), plan.Mount{Source: "/usr/bin/nvidia-smi", Target: path, Options: []string{"ro", "bind"}})
	return p
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
