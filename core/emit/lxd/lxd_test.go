package lxd_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
	"gpurig/core/emit/lxd"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

func node(path, perms string, minor uint32) plan.Node {
	return plan.Node{Path: path, Source: path, Type: device.Char, Num: device.Num{Major: 195, Minor: minor}, Mode: 0o660, GID: 44, Permissions: perms}
}

func example() plan.Plan {
	return plan.Plan{
		Nodes:  []plan.Node{node("/dev/nvidia0", "rw", 0)},
		Mounts: []plan.Mount{{Source: "/usr/bin/nvidia-smi", Target: "/usr/bin/nvidia-smi", Options: []string{"ro", "nosuid", "nodev", "bind", "rprivate"}}},
		Links:  []plan.Link{{Path: "/usr/lib/libcuda.so", Target: "libcuda.so.1"}},
		Env:    []plan.Var{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}},
	}
}

func options() lxd.Options {
	return lxd.Options{HookPath: "/usr/lib/cdi-hook", HookFile: "/run/hook.json"}
}

func TestText(t *testing.T) {
	c, err := lxd.Emit(example(), options())
	if err != nil {
		t.Fatal(err)
	}
	const want = `config:
  raw.lxc: |-
    lxc.environment = NVIDIA_VISIBLE_DEVICES=void
    lxc.hook.pre-start = /usr/lib/cdi-hook /run/hook.json
    lxc.hook.start-host = /usr/lib/cdi-hook /run/hook.json
    lxc.hook.post-stop = /usr/lib/cdi-hook /run/hook.json
devices:
  disk-nvidia-smi-5fd1cf11:
    path: "/usr/bin/nvidia-smi"
    propagation: "rprivate"
    raw.mount.options: "nosuid,nodev"
    readonly: "true"
    source: "/usr/bin/nvidia-smi"
    type: "disk"
  node-nvidia0-b8256380:
    gid: "44"
    mode: "0660"
    path: "/dev/nvidia0"
    source: "/dev/nvidia0"
    type: "unix-char"
    uid: "0"
`
	if got := c.Text(); got != want {
		t.Errorf("Text() is\n%s\nwant\n%s", got, want)
	}
	if len(c.Notes) != 1 || c.Notes[0].Reason != "flags-of-lxd" {
		t.Errorf("Notes = %+v; want one on the flags that LXD leaves out", c.Notes)
	}
}

// What LXD permits beyond the plan is taken back, and nothing else.
func TestDenials(t *testing.T) {
	p := plan.Plan{Nodes: []plan.Node{node("/dev/nvidia0", "rw", 0), node("/dev/nvidia1", "r", 1), node("/dev/nvidia2", "", 2), node("/dev/again1", "r", 1)}}
	for _, tc := range []struct {
		name string
		opts lxd.Options
		want string
	}{
		{"privileged", lxd.Options{}, "lxc.cgroup.devices.deny = c 195:1 rwm|lxc.cgroup.devices.allow = c 195:1 r|lxc.cgroup2.devices.deny = c 195:1 rwm|" +
			"lxc.cgroup2.devices.allow = c 195:1 r|lxc.cgroup.devices.deny = c 195:2 rwm|lxc.cgroup2.devices.deny = c 195:2 rwm"},
		{"idmapped, liblxc without v1", lxd.Options{LXCVersion: lxc.Version{Major: 7}, IDMap: []plan.IDMap{{Host: 100000, Count: 65536}}},
			"lxc.cgroup2.devices.allow = a|lxc.cgroup2.devices.deny = c 195:1 rwm|lxc.cgroup2.devices.allow = c 195:1 r|lxc.cgroup2.devices.deny = c 195:2 rwm"},
	} {
		c, err := lxd.Emit(p, tc.opts)
		if got := strings.Join(c.Raw.Lines(), "|"); err != nil || got != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.name, got, err, tc.want)
		}
	}
}

// A node on a machine whose files are elsewhere is described by number: LXD
// takes no unix-char source outside of /dev.
func TestNodesByNumber(t *testing.T) {
	c, err := lxd.Emit(plan.Plan{Nodes: []plan.Node{node("/dev/nvidia1", "rw", 1)}}, lxd.Options{HostRoot: "/srv/host"})
	if err != nil {
		t.Fatal(err)
	}
	want := lxd.Device{"type": "unix-char", "path": "/dev/nvidia1", "major": "195", "minor": "1", "mode": "0660", "uid": "0", "gid": "44"}
	for _, d := range c.Devices {
		if !maps.Equal(d, want) {
			t.Errorf("device %v; want %v", d, want)
		}
	}
	if len(c.Devices) != 1 {
		t.Errorf("%d devices", len(c.Devices))
	}
}

// A device keeps its name when others come: a plug touches no other device.
func TestNamesStay(t *testing.T) {
	p := example()
	one, err1 := lxd.Emit(p, options())
	p.Nodes = append([]plan.Node{node("/dev/nvidia", "rw", 9)}, p.Nodes...)
	two, err2 := lxd.Emit(p, options())
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for name, d := range one.Devices {
		if !maps.Equal(two.Devices[name], d) {
			t.Errorf("%s is %v, was %v", name, two.Devices[name], d)
		}
	}
}

// A block device is one of LXD's, a tmpfs a mount entry for liblxc.
func TestBlockDeviceAndTmpfs(t *testing.T) {
	p := plan.Plan{
		Nodes:  []plan.Node{node("/dev/card", "rw", 3), node("/dev/ctl", "r", 3)},
		Mounts: []plan.Mount{{Type: "tmpfs", Source: "tmpfs", Target: "/tmp/data", Dir: true, Options: []string{"nosuid", "nodev", "size=65536k"}}},
	}
	p.Nodes[1].Type = device.Block
	c, err := lxd.Emit(p, options())
	if err != nil {
		t.Fatal(err)
	}
	got := c.Text()
	for _, want := range []string{
		"lxc.mount.entry = tmpfs tmp/data tmpfs nosuid,nodev,size=65536k", "lxc.cgroup2.devices.deny = b 195:3 rwm", "lxc.cgroup2.devices.allow = b 195:3 r\n",
		`type: "unix-block"`, `type: "unix-char"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Text() has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "= c 195:3") {
		t.Errorf("the character device of the same number is denied:\n%s", got)
	}
	p.Mounts = append(p.Mounts, plan.Mount{Source: "/etc/x", Target: "/tmp/data/x", Options: []string{"ro"}})
	if _, err := lxd.Emit(p, options()); err == nil || refuse.As(err)[0].Reason != lxd.ReasonDevice || !strings.Contains(err.Error(), "/tmp/data/x") {
		t.Errorf("Emit() = %v; want a refusal that names what the tmpfs would cover", err)
	}
	incus := options()
	incus.Manager = "Incus"
	if _, err := lxd.Emit(p, incus); err == nil || !strings.Contains(err.Error(), "which Incus mounts last") {
		t.Errorf("Emit() for Incus = %v; want Incus named", err)
	}
}

func TestRefusals(t *testing.T) {
	newline := example()
	newline.Mounts[0].Target = "/usr/bin/a\nlxc.hook.start = /x"
	unmapped := example()
	unmapped.Nodes[0].UID = 70000
	for _, tc := range []struct {
		name   string
		p      plan.Plan
		opts   lxd.Options
		reason refuse.Reason
	}{
		{"a line break in a path (A25)", newline, options(), lxc.ReasonLine},
		{"an owner outside of the id map", unmapped, lxd.Options{HookPath: "/h", HookFile: "/f", IDMap: []plan.IDMap{{Host: 100000, Count: 65536}}}, lxc.ReasonUnmapped},
		{"no hook path", example(), lxd.Options{}, lxc.ReasonOption},
	} {
		c, err := lxd.Emit(tc.p, tc.opts)
		all := refuse.As(err)
		if len(all) == 0 || all[0].Reason != tc.reason || len(c.Devices)+len(c.Raw) > 0 {
			t.Errorf("%s: %+v, %v; want reason %s and nothing else", tc.name, c, err, tc.reason)
		}
	}
}

// B50: paths that look alike after their odd characters are gone are two devices;
// two paths that would be one device in spite of the digest are refused.
func TestB50NoTwoPathsAreOneDevice(t *testing.T) {
	node := func(at string, minor uint32) plan.Node {
		return plan.Node{Path: at, Source: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195, Minor: minor}, Mode: 0o660, Permissions: "rw"}
	}
	long := strings.Repeat("x", 200)
	like := []string{"/dev/dri/card0", "/dev/dri-card0", "/dev/dri.card0", "/dev/dri/-card0", "/dev/dri/.card0", "/dev/a/card0", "/dev/b/card0",
		"/dev/" + long + "1", "/dev/" + long + "2", "/dev/a-b.c", "/dev/a.b-c", "/dev/a,b", "/dev/a b"}
	var p plan.Plan
	for i, at := range like {
		p.Nodes = append(p.Nodes, node(at, uint32(i)))
	}
	c, err := lxd.Emit(p, options())
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for name, d := range c.Devices {
		if len(name) > 64 {
			t.Errorf("%q is %d bytes", name, len(name))
		}
		paths[d["path"]] = true
	}
	if len(paths) != len(like) {
		t.Errorf("%d devices for %d paths: %v", len(paths), len(like), slices.Sorted(maps.Keys(c.Devices)))
	}
	// Two paths of one digest, as its name shows it.
	seen := map[string]string{}
	for i := 0; ; i++ {
		at := fmt.Sprintf("/dev/%d/card0", i)
		sum := sha256.Sum256([]byte(at))
		other, taken := seen[string(sum[:4])]
		if !taken {
			seen[string(sum[:4])] = at
			continue
		}
		c, err := lxd.Emit(plan.Plan{Nodes: []plan.Node{node(other, 1), node(at, 2)}}, options())
		if err == nil || !errors.Is(err, lxc.ReasonConflict) || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), other) {
			t.Errorf("%s and %s: %v, %v", other, at, c, err)
		}
		break
	}
}
