package translate_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/policy"
	"gpurig/core/refuse"
	"gpurig/core/translate"
	"gpurig/fakehw/tree"
)

func tmpfs(at string, options ...string) *specs.Mount {
	return &specs.Mount{HostPath: "tmpfs", ContainerPath: at, Type: "tmpfs", Options: options}
}

func blockHost(h *tree.Tree) error {
	return h.Mknod(device.Node{Path: "/dev/loop7", Type: device.Block, Num: device.Num{Major: 7, Minor: 7}, Mode: 0o660})
}

func block(change func(*specs.DeviceNode)) specs.ContainerEdits {
	n := &specs.DeviceNode{Path: "/dev/loop7", Type: "b", Major: 7, Minor: 7}
	change(n)
	return nodes(n)
}

var blocks = translate.Options{Policy: policy.Policy{BlockDrivers: []string{"loop"}, Tmpfs: []string{"/tmp/data"}}}

// A29: a block device needs its driver's name in the policy, and then is taken
// as what it is.
func TestBlockDevicesA29(t *testing.T) {
	h := newHost(t)
	must(t, blockHost(h))
	for _, typ := range []string{"b", ""} {
		e := block(func(n *specs.DeviceNode) { n.Type = typ })
		p := mustEdits(t, h, blocks, one(&e))
		if len(p.Nodes) != 1 || p.Nodes[0].Type != device.Block || p.Nodes[0].Num != (device.Num{Major: 7, Minor: 7}) {
			t.Errorf("type %q: nodes are %+v", typ, p.Nodes)
		}
	}
	for _, tc := range []refusalCase{
		{name: "A29 without a policy", edits: block(func(*specs.DeviceNode) {}), host: blockHost, want: translate.ReasonNodeType, says: `of driver "loop"`},
		{name: "A29 a block device that the Spec does not call one", edits: block(func(n *specs.DeviceNode) { n.Type = "" }), host: blockHost, want: translate.ReasonNodeType, says: `rules "block-driver"`},
		{name: "A29 a character driver's name is no block driver's", edits: block(func(*specs.DeviceNode) {}), host: blockHost,
			opts: translate.Options{Policy: policy.Policy{Drivers: []string{"loop"}}}, want: translate.ReasonNodeType},
		{name: "A28 a block device in the Spec, a character device on the host", edits: nodeWith(func(n *specs.DeviceNode) { n.Type = "b" }), opts: blocks, want: translate.ReasonNodeType, says: "character device 195:0, and of type"},
		{name: "A28 a character device in the Spec, a block device on the host", edits: block(func(n *specs.DeviceNode) { n.Type = "c" }), opts: blocks, host: blockHost, want: translate.ReasonNodeType},
		{name: "A28 another number", edits: block(func(n *specs.DeviceNode) { n.Minor = 0 }), opts: blocks, host: blockHost, want: translate.ReasonNodeNum},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestTmpfsB32(t *testing.T) {
	h := newHost(t)
	e := mounts(tmpfs("/tmp/data/x", "nosuid", "strictatime", "mode=755", "size=65536k"))
	p := mustEdits(t, h, blocks, one(&e))
	if len(p.Mounts) != 1 || p.Mounts[0].Type != "tmpfs" || !p.Mounts[0].Dir || strings.Join(p.Mounts[0].Options, ",") != "rw,nosuid,nodev,strictatime,mode=755,size=65536k" {
		t.Errorf("mounts are %+v", p.Mounts)
	}
	for _, tc := range []refusalCase{
		{name: "B32 without a policy", edits: mounts(tmpfs("/tmp/data", "size=1m")), want: translate.ReasonMountType, says: `rules "tmpfs"`},
		{name: "B51 beside the place", edits: mounts(tmpfs("/tmp/data2", "size=1m")), opts: blocks, want: translate.ReasonMountType},
		{name: "A31 over accounts", edits: mounts(tmpfs("/etc/passwd", "size=1m")), opts: blocks, want: translate.ReasonTargetBad},
		{name: "no size", edits: mounts(tmpfs("/tmp/data", "mode=755")), opts: blocks, want: translate.ReasonMountOpt, says: "half of the host's memory"},
		{name: "size in words", edits: mounts(tmpfs("/tmp/data", "size=1m,bind")), opts: blocks, want: translate.ReasonMountOpt},
		{name: "a share of memory", edits: mounts(tmpfs("/tmp/data", "size=100%")), opts: blocks, want: translate.ReasonMountOpt},
		{name: "a mode of four digits above", edits: mounts(tmpfs("/tmp/data", "size=1m", "mode=4755")), opts: blocks, want: translate.ReasonMountOpt},
		{name: "A25 options of a bind mount", edits: mounts(tmpfs("/tmp/data", "size=1m", "bind")), opts: blocks, want: translate.ReasonMountOpt},
		{name: "a source", edits: mounts(&specs.Mount{HostPath: "/usr/bin/nvidia-smi", ContainerPath: "/tmp/data", Type: "tmpfs", Options: []string{"size=1m"}}), opts: blocks, want: translate.ReasonSource},
		{name: "A23 a line break", edits: mounts(tmpfs("/tmp/data\nx", "size=1m")), opts: blocks, want: translate.ReasonText},
		{name: "something inside it", edits: mounts(tmpfs("/tmp/data", "size=1m"), &specs.Mount{HostPath: "/usr/bin/nvidia-smi", ContainerPath: "/tmp/data/x", Options: []string{"ro"}}),
			opts: blocks, want: translate.ReasonNoPoint, says: "empty tmpfs"},
		{name: "two of one place", edits: mounts(tmpfs("/tmp/data", "size=1m"), tmpfs("/tmp/data", "size=2m")), opts: blocks, want: translate.ReasonConflict},
	} {
		t.Run(tc.name, tc.run)
	}
}

// Every refusal of the policy names its rule, and its hint the line that would
// permit it, or that none can; the line, put into a policy, permits it.
func TestRefusalsNameRuleAndLine(t *testing.T) {
	host := func(t *testing.T) *tree.Tree {
		h := newHost(t)
		must(t, blockHost(h), h.WriteFile("/srv/tool", []byte("x"), 0o755), h.Mkdir("/root", fs.FileMode(0o700)), h.WriteFile("/root/key", []byte("x"), 0o600))
		return h
	}
	for _, tc := range []struct {
		name       string
		edits      specs.ContainerEdits
		rule, hint string
		policy     policy.Policy // what the line says
	}{
		{"A29 driver", nodes(&specs.DeviceNode{Path: "/dev/kvm"}), `rules "driver"`, `"drivers: [kvm]"`, policy.Policy{Drivers: []string{"kvm"}}},
		{"A29 memory", nodes(&specs.DeviceNode{Path: "/dev/x", HostPath: "/dev/mem"}), `rules "driver"`, "No line", policy.Policy{}},
		{"A29 block driver", block(func(*specs.DeviceNode) {}), `rules "block-driver"`, `"block-drivers: [loop]"`, policy.Policy{BlockDrivers: []string{"loop"}}},
		{"A31 source", mounts(roMount("/srv/tool", "/usr/bin/tool")), `rules "source"`, `"sources: [/srv/tool]"`, policy.Policy{Sources: []string{"/srv/tool"}}},
		{"A31 a person's files", mounts(roMount("/root/key", "/usr/bin/tool")), `rules "source"`, "No line", policy.Policy{}},
		{"A31 for writing", mountWith("rw"), `rule "source /usr/bin"`, `"writable: [/usr/bin/nvidia-smi]"`, policy.Policy{Writable: []string{"/usr/bin/nvidia-smi"}}},
		{"A31 target", mounts(roMount("/usr/bin/nvidia-smi", "/etc/passwd")), `rule "target /etc/passwd"`, "No line", policy.Policy{}},
		{"B25 reserved name", nodes(&specs.DeviceNode{Path: "/dev/null", HostPath: "/dev/nvidia0"}), `rule "dev-name null"`, "No line", policy.Policy{}},
		{"B31 option", mountWith("suid"), `rules "option"`, "No line", policy.Policy{}},
		{"B32 tmpfs", mounts(tmpfs("/tmp/x", "size=1m")), `rules "tmpfs"`, `"tmpfs: [/tmp/x]"`, policy.Policy{Tmpfs: []string{"/tmp/x"}}},
		{"B33 variable", env("FOO=1"), `rules "env"`, `"environment: [FOO]"`, policy.Policy{Environment: []string{"FOO"}}},
		{"A8 loader", env("LD_PRELOAD=/x"), `rule "env-deny LD_*"`, "No line", policy.Policy{}},
		{"A34 hook", hooks(&specs.Hook{HookName: "createContainer", Path: "/usr/bin/vendor-hook", Args: []string{"vendor-hook", "go"}}), `rules "hook"`, `"leave-out: [`, policy.Policy{LeaveOut: []string{"vendor-hook"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := translate.Edits(host(t), editsOf(tc.edits), translate.Options{})
			all := refuse.As(err)
			if !slices.ContainsFunc(all, func(e *refuse.Error) bool {
				return strings.Contains(e.Msg, tc.rule) && strings.Contains(e.Hint, tc.hint)
			}) {
				for _, e := range all {
					t.Logf("%s\nhint: %s", e, e.Hint)
				}
				t.Errorf("no refusal names %s and hints at %s", tc.rule, tc.hint)
			}
			if strings.HasPrefix(tc.hint, `"`) {
				mustEdits(t, host(t), translate.Options{Policy: tc.policy}, editsOf(tc.edits)...)
			}
		})
	}
}
