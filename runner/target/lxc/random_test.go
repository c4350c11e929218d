package lxc_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// oddNames have what fstab(5), liblxc's parser, a shell or a mount option list
// gives a meaning to.
var oddNames = []string{
	"plain", "two words", " leads", "ends ", `back\slash`, `\040`, `oc\134tal`, "#comment", `"quoted"`, "'single'", "a,b", "a=b", "$HOME", "`x`",
	"rw", "optional", "create=file", "relative", "ünï", "colon:", "star*", "per%cent", "semi;colon", "amp&", "tab\\t", "(deleted)", "...", "-x", "~",
}

// randomPlan makes a host and a plan for it: files, folders and nodes of odd
// names. Each file has a size of its own, so that one cannot pass for another.
func randomPlan(rng *rand.Rand, host *tree.Tree) (plan.Plan, error) {
	own := plan.Owners{"vendor.com/device=one"}
	p := plan.Plan{Devices: own}
	name := func() string { return oddNames[rng.IntN(len(oddNames))] }
	size := 1
	for i := range 3 + rng.IntN(5) {
		source := path.Join("/usr/share", name(), fmt.Sprint(i), name())
		m := plan.Mount{Source: source, Target: path.Join("/opt", name(), fmt.Sprint(i), name()), Owners: own}
		m.Options = [][]string{{"ro", "nosuid", "nodev", "bind", "rprivate"}, {"ro", "nosuid", "nodev", "noexec", "bind", "rslave"}, {"rw", "nosuid", "nodev", "bind", "rprivate"}}[rng.IntN(3)]
		file := source
		if m.Dir = rng.IntN(3) == 0; m.Dir {
			file = source + "/file"
		}
		if rng.IntN(6) == 0 {
			m = plan.Mount{Type: "tmpfs", Source: "tmpfs", Target: m.Target, Dir: true, Options: []string{"rw", "nosuid", "nodev", "noexec", "mode=755", "size=1m"}, Owners: own}
		} else if err := host.WriteFile(file, bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			return p, err
		}
		size++
		p.Mounts = append(p.Mounts, m)
	}
	for i := range rng.IntN(4) {
		n := device.Node{Path: path.Join("/dev", fmt.Sprintf("n%d", i), name()), Type: []device.Type{device.Char, device.Block}[rng.IntN(2)],
			Num: device.Num{Major: 240, Minor: uint32(i)}, Mode: 0o666}
		if err := host.Mknod(n); err != nil {
			return p, err
		}
		p.Nodes = append(p.Nodes, plan.Node{Path: n.Path, Source: n.Path, Type: n.Type, Num: n.Num, Mode: n.Mode, Permissions: "rw", Owners: own})
	}
	return p, nil
}

// B30, A23 and A25: a container that is started from the lines of a random plan
// has exactly the mounts that were planned, of what was meant, and no other.
func TestRandomPlansAreMountedAsPlannedB30(t *testing.T) {
	r := requireLXC(t, anyCgroup())
	ctx := context.Background()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			host := tree.New()
			p, err := randomPlan(rand.New(rand.NewPCG(seed, 7)), host)
			if err != nil {
				t.Fatal(err)
			}
			cgroup := []string{anyCgroup(), "v2"}[seed%2]
			c, err := r.l.Create(ctx, target.Config{Name: fmt.Sprintf("r%d", seed), Image: "none", Cgroup: cgroup})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Remove(ctx); err != nil {
					t.Error(err)
				}
			}()
			if err := c.Start(ctx, target.Host{Root: host, Sum: host.Sum}, p); err != nil {
				t.Fatalf("%v\n%s", err, c.Configuration())
			}
			var paths, want []string
			for _, m := range p.Mounts {
				want = append(want, m.Target)
				if at := m.Target; m.Type == "" {
					if m.Dir {
						at += "/file"
					}
					paths = append(paths, at)
				}
			}
			for _, n := range p.Nodes {
				want = append(want, n.Path)
			}
			o, err := c.Observe(ctx, observe.Request{Paths: paths})
			if err != nil || len(o.Problems) > 0 {
				t.Fatal(err, o.Problems)
			}
			var got []string
			for _, m := range o.Mounts {
				got = append(got, m.Target)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("mounted are %q, planned %q\n%s", got, want, c.Configuration())
			}
			for i, m := range p.Mounts {
				at := m.Target
				if m.Dir {
					at += "/file"
				}
				if j := slices.IndexFunc(o.Files, func(f observe.File) bool { return f.Path == at }); m.Type == "" && (j < 0 || o.Files[j].Size != int64(i+1)) {
					t.Errorf("%q is not %q: %+v", at, m.Source, o.Files)
				}
				if j := slices.IndexFunc(o.Mounts, func(x observe.Mount) bool { return x.Target == m.Target }); j >= 0 && slices.Contains(o.Mounts[j].Options, "ro") != (m.Options[0] == "ro") {
					t.Errorf("%q is mounted with %v, planned %v", m.Target, o.Mounts[j].Options, m.Options)
				}
			}
			for _, n := range p.Nodes {
				if j := slices.IndexFunc(o.Nodes, func(x observe.Node) bool { return x.Path == n.Path }); j < 0 || o.Nodes[j].Num != n.Num || o.Nodes[j].Type != n.Type {
					t.Errorf("%q is not %s %s: %+v", n.Path, n.Type, n.Num, o.Nodes)
				}
			}
		})
	}
}
