package lxc_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
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
func options() lxc.Options {
	return lxc.Options{
		Cgroup: "both", HostRoot: "/srv/host", NodesDir: "/run/rig/c1/nodes",
		HookPath: "/usr/libexec/cdi-hook", HookFile: "/run/rig/c1/hook.json", Container: "c1", LXCVersion: lxc.Version{Major: 5, Patch: 2},
	}
}

func TestGoldenConfigs(t *testing.T) {
	for _, tc := range []struct {
		name, plan string
		change     func(*lxc.Options)
	}{
		{"one-gpu", "one-gpu", func(*lxc.Options) {}},
		{"two-gpus-v1", "two-gpus", func(o *lxc.Options) { o.Cgroup = "v1" }},
		{"one-gpu-idmapped-v2", "one-gpu-idmapped", func(o *lxc.Options) { o.Cgroup, o.IDMap = "v2", idmap }},
		{"one-gpu-lxc7", "one-gpu", func(o *lxc.Options) { o.Cgroup, o.LXCVersion, o.ApplyIn = "", lxc.Version{Major: 7}, "mount" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			p := readPlan(t, tc.plan)
			before, _ := json.Marshal(p)
			c, err := lxc.Emit(p, o)
			if err != nil {
				t.Fatal(err)
			}
			hook, err := c.Hook.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			rest, err := json.MarshalIndent(map[string]any{"make": c.Make, "notes": c.Notes}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if c.Hooked != strings.Contains(c.Text(), "lxc.hook.post-stop = ") {
				t.Errorf("Hooked is %v, the lines are\n%s", c.Hooked, c.Text())
			}
			golden.Equal(t, "testdata/"+tc.name+".txt", []byte(c.Text()+"\n"+string(hook)+"\n"+string(rest)+"\n"))
			if after, _ := json.Marshal(p); string(after) != string(before) {
				t.Error("Emit changed the plan")
			}
		})
	}
}

func oneMount(source, target string, options ...string) plan.Plan {
	if options == nil {
		options = []string{"ro", "nosuid", "nodev", "bind", "rprivate"}
	}
	return plan.Plan{Mounts: []plan.Mount{{Source: source, Target: target, Options: options}}}
}

func oneNode(change func(*plan.Node)) plan.Plan {
	n := plan.Node{Path: "/dev/nvidia0", Source: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666, Permissions: "rw"}
	change(&n)
	return plan.Plan{Nodes: []plan.Node{n}}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		plan   plan.Plan
		change func(*lxc.Options)
		want   refuse.Reason
	}{
		{name: "A23 a line break in a source", plan: oneMount("/a\nlxc.hook.pre-start = /x", "/b"), want: lxc.ReasonLine},
		{name: "A23 a carriage return in a target", plan: oneMount("/a", "/b\rc"), want: lxc.ReasonLine},
		{name: "A23 U+2028 in a target", plan: oneMount("/a", "/b\u2028c"), want: lxc.ReasonLine},
		{name: "A23 NUL in a value", plan: plan.Plan{Env: []plan.Var{{Name: "NVIDIA_X", Value: "a\x00b"}}}, want: lxc.ReasonLine},
		{name: "B33 blanks at the end of a value would be cut", plan: plan.Plan{Env: []plan.Var{{Name: "NVIDIA_X", Value: "a "}}}, want: lxc.ReasonLine},
		{name: "B33 no name", plan: plan.Plan{Env: []plan.Var{{Value: "a"}}}, want: lxc.ReasonLine},
		{name: "A24 shell text in the hook path", plan: oneMount("/a", "/b"), change: func(o *lxc.Options) { o.HookPath = "/x/$(touch y)" }, want: lxc.ReasonOption},
		{name: "A24 a blank in the hook file", plan: oneMount("/a", "/b"), change: func(o *lxc.Options) { o.HookFile = "/x y" }, want: lxc.ReasonOption},
		{name: "A25 a word inside a word", plan: oneMount("/a", "/b", "norelative", "ro"), want: lxc.ReasonLine},
		{name: "A26 rbind is not written", plan: oneMount("/a", "/b", "ro", "rbind"), want: lxc.ReasonLine},
		{name: "A25 an option of a tmpfs on a bind mount", plan: oneMount("/a", "/b", "ro", "size=1m"), want: lxc.ReasonLine},
		{name: "A25 words in the size of a tmpfs", plan: plan.Plan{Mounts: []plan.Mount{{Type: "tmpfs", Source: "tmpfs", Target: "/b", Dir: true, Options: []string{"size=1m,bind"}}}}, want: lxc.ReasonLine},
		{name: "A27 a line that liblxc would cut", plan: oneMount("/"+strings.Repeat("a/", 1990)+"b", "/b"), want: lxc.ReasonLong},
		{name: "A27 escapes count", plan: oneMount("/"+strings.Repeat("a ", 900), "/b"), want: lxc.ReasonLong},
		{name: "A30 no number", plan: oneNode(func(n *plan.Node) { n.Num = device.Num{} }), want: lxc.ReasonLine},
		{name: "A30 a FIFO", plan: oneNode(func(n *plan.Node) { n.Type = "p" }), want: lxc.ReasonLine},
		{name: "B28 a target that leaves the root", plan: oneMount("/a", "/../b"), want: lxc.ReasonLine},
		{name: "B28 the root", plan: oneMount("/a", "/"), want: lxc.ReasonLine},
		{name: "B28 two slashes", plan: oneMount("/a", "//b"), want: lxc.ReasonLine},
		{name: "B50 nodes directory missing", plan: oneNode(func(n *plan.Node) { n.Own = true }), change: func(o *lxc.Options) { o.NodesDir = "" }, want: lxc.ReasonOption},
		{name: "a node outside /dev", plan: oneNode(func(n *plan.Node) { n.Path = "/etc/x" }), want: lxc.ReasonLine},
		{name: "an owner outside the id map", plan: oneNode(func(n *plan.Node) { n.Own, n.GID = true, 70000 }), change: func(o *lxc.Options) { o.IDMap = idmap }, want: lxc.ReasonUnmapped},
		{name: "a cgroup version that is none", change: func(o *lxc.Options) { o.Cgroup = "v3" }, want: lxc.ReasonOption},
		{name: "cgroup-key-v1-v2: v1 keys from LXC 7 on", change: func(o *lxc.Options) { o.Cgroup, o.LXCVersion = "v1", lxc.Version{Major: 7} }, want: lxc.ReasonOption},
		{name: "a hook that is none", change: func(o *lxc.Options) { o.ApplyIn = "start" }, want: lxc.ReasonOption},
		{name: "a relative host root", change: func(o *lxc.Options) { o.HostRoot = "x" }, want: lxc.ReasonOption},
		{name: "a container name for no file", plan: oneMount("/a", "/b"), change: func(o *lxc.Options) { o.Container = "../c" }, want: lxc.ReasonHookFile},
		{name: "A13 a target that does not resolve", plan: oneMount("/a", "/b"), change: func(o *lxc.Options) {
			o.Resolve = func(string) (string, error) { return "", fs.ErrInvalid }
		}, want: lxc.ReasonResolve},
		{name: "B27 two targets that are one in the image", plan: plan.Plan{Mounts: append(oneMount("/a", "/lib/x").Mounts, oneMount("/b", "/usr/lib/x").Mounts...)},
			change: func(o *lxc.Options) { o.Resolve = mergedUsr }, want: lxc.ReasonConflict},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options()
			if tc.change != nil {
				tc.change(&o)
			}
			c, err := lxc.Emit(tc.plan, o)
			if !errors.Is(err, tc.want) {
				t.Fatalf("Emit = %v, want a refusal with reason %s", err, tc.want)
			}
			if len(c.Entries) > 0 || strings.Contains(err.Error(), "\n") && len(refuse.As(err)) == 1 {
				t.Errorf("a refusal came with %q, or in several lines: %v", c.Entries.Lines(), err)
			}
		})
	}
}

// mergedUsr resolves as an image does whose /lib is a link to usr/lib.
func mergedUsr(p string) (string, error) {
	if rest, ok := strings.CutPrefix(p, "/lib/"); ok {
		return "/usr/lib/" + rest, nil
	}
	return p, nil
}

func mustEmit(t *testing.T, p plan.Plan, o lxc.Options) lxc.Config {
	t.Helper()
	c, err := lxc.Emit(p, o)
	if err != nil {
		t.Fatalf("Emit: %v", err)
	}
	return c
}

func TestEscapesB30(t *testing.T) {
	c := mustEmit(t, oneMount(`/a b\040"'#,=:$`, `/x y\z`), options())
	want := `lxc.mount.entry = /srv/host/a\040b\134040"'#,=:$ x\040y\134z none ro,nosuid,nodev,bind,rprivate 0 0`
	if !slices.Contains(c.Entries.Lines(), want) {
		t.Errorf("lines are\n%s\nwant\n%s", c.Text(), want)
	}
}

// A13: create= only below /dev, nowhere optional, and every other mount point in
// the hook file, except inside a directory that is itself mounted.
func TestMountPointsA13(t *testing.T) {
	p := plan.Plan{Mounts: []plan.Mount{
		{Source: "/dev/dri/by-path", Target: "/dev/dri/by-path", Dir: true, Options: []string{"ro", "bind"}},
		{Source: "/usr/share/nvidia", Target: "/usr/share/nvidia", Dir: true, Options: []string{"ro", "bind"}},
		{Source: "/x/rules", Target: "/usr/share/nvidia/rules", Options: []string{"ro", "bind"}},
	}}
	c := mustEmit(t, p, options())
	if strings.Contains(c.Text(), "optional") || strings.Count(c.Text(), "create=") != 1 || !strings.Contains(c.Text(), " dev/dri/by-path none ro,bind,create=dir ") {
		t.Errorf("lines are\n%s", c.Text())
	}
	points := c.Hook.MountPoints
	if len(points) != 2 || points[0].Path != "/usr/share/nvidia" || !points[0].Dir || points[0].Nested || !points[1].Nested {
		t.Errorf("mount points are %v, want the directory, and the file in it as nested", points)
	}
	if !slices.Contains(c.Entries.Lines(), "lxc.autodev = 1") {
		t.Error("no lxc.autodev")
	}
}

// relative-links-nested: a link moved to its real directory still leads where
// the plan says.
func TestResolveMovesLinks(t *testing.T) {
	o := options()
	o.Resolve = mergedUsr
	p := plan.Plan{
		Mounts:      oneMount("/usr/lib/firmware/x", "/lib/firmware/x").Mounts,
		Links:       []plan.Link{{Path: "/lib/x/libcuda.so", Target: "../../opt/libcuda.so.1"}},
		LibraryDirs: []string{"/lib/x", "/usr/lib/x"},
	}
	c := mustEmit(t, p, o)
	if got := c.Hook.MountPoints[0].Path; got != "/usr/lib/firmware/x" {
		t.Errorf("mount point %s", got)
	}
	l := c.Hook.Links[0]
	if l.Path != "/usr/lib/x/libcuda.so" || path.Join(path.Dir(l.Path), l.Target) != "/opt/libcuda.so.1" {
		t.Errorf("link %+v does not lead to /opt/libcuda.so.1", l)
	}
	if len(c.Hook.LibraryDirs) != 1 {
		t.Errorf("library folders %v, want one", c.Hook.LibraryDirs)
	}
}

// A30, F31 and perms-none-and-sync: the container's own configuration has exact rules, none for a node that gets nothing,
// one for two nodes of one number.
func TestCgroupRulesA30(t *testing.T) {
	p := oneNode(func(n *plan.Node) { n.Permissions = "rm" }) // no node is to be made inside
	more := oneNode(func(n *plan.Node) { n.Path, n.Permissions = "/dev/nvidia9", "w" }).Nodes[0]
	none := oneNode(func(n *plan.Node) {
		n.Path, n.Num, n.Permissions = "/dev/nvidia1", device.Num{Major: 195, Minor: 1}, ""
	}).Nodes[0]
	p.Nodes = append(p.Nodes, more, none)
	o := options()
	o.Cgroup = "v2"
	var rules []string
	for _, l := range mustEmit(t, p, o).Entries.Lines() {
		if strings.Contains(l, "devices") {
			rules = append(rules, l)
		}
	}
	if !slices.Equal(rules, []string{"lxc.cgroup2.devices.allow = c 195:0 rw"}) {
		t.Errorf("rules are %q", rules)
	}
}

// A30 and B32: a block device has a rule of its own type, and a tmpfs no source.
func TestBlockDeviceAndTmpfs(t *testing.T) {
	p := oneNode(func(n *plan.Node) { n.Type, n.Path, n.Permissions = device.Block, "/dev/vendorctl", "r" })
	p.Nodes = append(p.Nodes, oneNode(func(*plan.Node) {}).Nodes...)
	p.Mounts = []plan.Mount{{Type: "tmpfs", Source: "tmpfs", Target: "/tmp/data", Dir: true, Options: []string{"rw", "nosuid", "nodev", "strictatime", "mode=755", "size=64m"}}}
	o := options()
	o.Cgroup = "v2"
	c := mustEmit(t, p, o)
	for _, want := range []string{
		"lxc.cgroup2.devices.allow = c 195:0 rw",
		"lxc.cgroup2.devices.allow = b 195:0 r",
		"lxc.mount.entry = tmpfs tmp/data tmpfs rw,nosuid,nodev,strictatime,mode=755,size=64m 0 0",
	} {
		if !slices.Contains(c.Entries.Lines(), want) {
			t.Errorf("no line %q in\n%s", want, c.Text())
		}
	}
	if len(c.Hook.MountPoints) != 1 || !c.Hook.MountPoints[0].Dir || len(c.Notes) > 0 {
		t.Errorf("mount points %v, notes %v", c.Hook.MountPoints, c.Notes)
	}
}

func TestGroups(t *testing.T) {
	p := plan.Plan{Groups: []uint32{44, 105}}
	o := options()
	c := mustEmit(t, p, o)
	if !slices.Contains(c.Entries.Lines(), "lxc.init.groups = 44,105") || len(c.Notes) > 0 {
		t.Errorf("lines %q, notes %v", c.Entries.Lines(), c.Notes)
	}
	o.IDMap = idmap
	if c = mustEmit(t, p, o); len(c.Notes) != 1 {
		t.Errorf("with an id map the notes are %v, want one", c.Notes)
	}
	o.LXCVersion = lxc.Version{Major: 6, Patch: 6}
	if c = mustEmit(t, p, o); !slices.Contains(c.Entries.Lines(), "lxc.init.groups = 44,105") || len(c.Notes) > 0 {
		t.Errorf("with an id map, LXC 6.0.6: lines %q, notes %v", c.Entries.Lines(), c.Notes)
	}
	o.IDMap, o.LXCVersion = nil, lxc.Version{Major: 4, Patch: 6}
	if c = mustEmit(t, p, o); len(c.Notes) != 1 || strings.Contains(c.Text(), "groups") {
		t.Errorf("LXC 4: %q, notes %v", c.Entries.Lines(), c.Notes)
	}
}

// A mount hook of a mapped root needs the stage before, which writes the journal,
// even where there is no mount point to make (F8).
func TestAMappedMountHookHasAStageBefore(t *testing.T) {
	p := plan.Plan{Links: []plan.Link{{Path: "/usr/lib/x/libcuda.so", Target: "libcuda.so.1"}}}
	for _, tc := range []struct {
		applyIn string
		idmap   []plan.IDMap
		want    bool
	}{{"mount", idmap, true}, {"mount", nil, false}, {"start-host", idmap, false}} {
		o := options()
		o.ApplyIn, o.IDMap = tc.applyIn, tc.idmap
		if got := strings.Contains(mustEmit(t, p, o).Text(), "lxc.hook.pre-start = "); got != tc.want {
			t.Errorf("%s, id map %v: pre-start is there: %v", tc.applyIn, tc.idmap, got)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	c := mustEmit(t, plan.Plan{}, lxc.Options{})
	if c.Text() != "lxc.autodev = 1\n" {
		t.Errorf("an empty plan gives %q", c.Text())
	}
	if c.Hooked {
		t.Error("an empty plan is said to run cdi-hook")
	}
}

// B50: nodes that are made lie below one folder under their whole path, so paths
// that differ in anything are two files, whatever separates their parts.
func TestB50MadeNodesKeepTheirWholePath(t *testing.T) {
	like := []string{"/dev/dri/card0", "/dev/dri-card0", "/dev/dri.card0", "/dev/a/b-c", "/dev/a-b/c", "/dev/" + strings.Repeat("x", 200) + "1", "/dev/" + strings.Repeat("x", 200) + "2"}
	var p plan.Plan
	for i, at := range like {
		p.Nodes = append(p.Nodes, plan.Node{Path: at, Source: "/dev/nvidia0", Own: true, Type: device.Char, Num: device.Num{Major: 195, Minor: uint32(i)}, Mode: 0o666, Permissions: "rw"})
	}
	c, err := lxc.Emit(p, lxc.Options{NodesDir: "/run/rig/nodes", HookPath: "/usr/lib/cdi-hook", HookFile: "/run/hook.json"})
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]uint32{}
	for _, n := range c.Make {
		made[n.Path] = n.Num.Minor
	}
	for i, at := range like {
		if minor, there := made["/run/rig/nodes"+at]; !there || minor != uint32(i) {
			t.Errorf("%s is made as %d, %v", at, minor, there)
		}
	}
	if len(made) != len(like) {
		t.Errorf("%d nodes for %d paths", len(made), len(like))
	}
}
