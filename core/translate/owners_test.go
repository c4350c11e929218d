package translate_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/core/translate"
)

// Tegra: a frame buffer, buffer memory and a copy of /dev/null belong to the GPU
// there.
func TestTegraNodes(t *testing.T) {
	h := newHost(t)
	must(t, h.WriteFile("/etc/nv_tegra_release", []byte("# R36 (release)\n"), 0o644),
		h.Symlink("/dev/v4l2-nvdec", "/dev/null"),
		h.Mknod(device.Node{Path: "/dev/v4l2-nvenc", Type: device.Char, Num: device.Num{Major: 1, Minor: 3}, Mode: 0o666}))
	e := nodes(&specs.DeviceNode{Path: "/dev/fb0"}, &specs.DeviceNode{Path: "/dev/nvmap"}, &specs.DeviceNode{Path: "/dev/v4l2-nvdec"}, &specs.DeviceNode{Path: "/dev/v4l2-nvenc"})
	p := mustEdits(t, h, translate.Options{}, one(&e))
	if len(p.Nodes) != 4 {
		t.Errorf("nodes are %+v, want 4", p.Nodes)
	}
}

// octal-vs-decimal and perms-none-and-sync.
func TestPermissions(t *testing.T) {
	for in, want := range map[string]string{"": "rw", "rwm": "rw", "rw": "rw", "wr": "rw", "r": "r", "w": "w", "m": "", "none": ""} {
		e := nodeWith(func(n *specs.DeviceNode) { n.Permissions = in })
		p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
		if got := p.Nodes[0].Permissions; got != want {
			t.Errorf("permissions %q become %q, want %q", in, got, want)
		}
		m := strings.Contains(in, "m") || in == ""
		if slices.Contains(reasons(p), translate.ReasonMknod) != m {
			t.Errorf("permissions %q: notes %v", in, p.Notes)
		}
	}
}

func TestOwners(t *testing.T) {
	idmap := []plan.IDMap{{Host: 100000, Count: 65536}}
	video := []plan.IDMap{{Host: 100000, Count: 44}, {Container: 44, Host: 44, Count: 1}, {Container: 45, Host: 100045, Count: 1000}}
	type want struct {
		uid, gid uint32
		mode     fs.FileMode
		own      bool
		note     string
	}
	for _, tc := range []struct {
		name string
		node specs.DeviceNode
		opts translate.Options
		want want
	}{
		{"mode-clone: as on the host", specs.DeviceNode{Path: "/dev/dri/card0"}, translate.Options{}, want{0, 44, 0o660, false, ""}},
		{"the Spec's owner", specs.DeviceNode{Path: "/dev/nvidia0", UID: ptr(uint32(5)), GID: ptr(uint32(6))}, translate.Options{}, want{5, 6, 0o666, true, ""}},
		{"cdi-owner-ignored: the user's owner wins", specs.DeviceNode{Path: "/dev/nvidia0", UID: ptr(uint32(5))}, translate.Options{UID: ptr(uint32(1000)), Mode: ptr(fs.FileMode(0o600))}, want{1000, 0, 0o600, true, ""}},
		{"a wish that is so already", specs.DeviceNode{Path: "/dev/nvidia0"}, translate.Options{UID: ptr(uint32(0)), GID: ptr(uint32(0))}, want{0, 0, 0o666, false, ""}},
		{"unmapped and open to all", specs.DeviceNode{Path: "/dev/nvidia0"}, translate.Options{IDMap: idmap}, want{65534, 65534, 0o666, false, translate.ReasonUnmappedOwner}},
		{"host-0660-video: nobody can open it", specs.DeviceNode{Path: "/dev/dri/card0"}, translate.Options{IDMap: idmap}, want{65534, 65534, 0o660, false, translate.ReasonNobodyOpens}},
		{"host-0660-video: with the group mapped", specs.DeviceNode{Path: "/dev/dri/card0"}, translate.Options{IDMap: video}, want{65534, 44, 0o660, false, translate.ReasonUnmappedOwner}},
		{"what the toolkit writes for it", *gpuNode("/dev/dri/card0", 226, 0, 0o660, 44), translate.Options{IDMap: idmap}, want{0, 44, 0o660, true, ""}},
		{"root's id map asked for", specs.DeviceNode{Path: "/dev/nvidia0"}, translate.Options{IDMap: idmap, UID: ptr(uint32(0))}, want{0, 0, 0o666, true, ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := nodes(&tc.node)
			p := mustEdits(t, newHost(t), tc.opts, one(&e))
			n := p.Nodes[0]
			got := want{n.UID, n.GID, n.Mode, n.Own, tc.want.note}
			if got != tc.want {
				t.Errorf("node is %+v, want %+v", got, tc.want)
			}
			for _, r := range []string{translate.ReasonUnmappedOwner, translate.ReasonNobodyOpens} {
				if slices.Contains(reasons(p), r) != (r == tc.want.note) {
					t.Errorf("notes are %v, want %q", reasons(p), tc.want.note)
				}
			}
		})
	}
	e := nodes(&specs.DeviceNode{Path: "/dev/dri/card0"})
	if _, err := translate.Edits(newHost(t), []cdi.Edits{one(&e)}, translate.Options{IDMap: idmap, Strict: true}); !errors.Is(err, translate.ReasonNoAccess) {
		t.Errorf("strict: %v, want a refusal", err)
	}
}

// cdi-owner-ignored: nodes of different owners keep their own; one node's owner
// never sticks to the next.
func TestOwnersDoNotStick(t *testing.T) {
	e := nodes(
		&specs.DeviceNode{Path: "/dev/nvidia0", UID: ptr(uint32(1)), GID: ptr(uint32(2))},
		&specs.DeviceNode{Path: "/dev/nvidia1", UID: ptr(uint32(3))},
		&specs.DeviceNode{Path: "/dev/nvidiactl"},
	)
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	var got [][2]uint32
	for _, n := range p.Nodes {
		got = append(got, [2]uint32{n.UID, n.GID})
	}
	if !slices.Equal(got, [][2]uint32{{1, 2}, {3, 0}, {0, 0}}) {
		t.Errorf("owners are %v", got)
	}
}

// chmod of a node of the plan becomes that node's mode; of a directory it is
// left to the hook.
func TestChmod(t *testing.T) {
	e := nodes(&specs.DeviceNode{Path: "/dev/nvidia0"})
	e.Hooks = []*specs.Hook{hook("chmod", "--mode", "600", "--path", "/dev/nvidia0", "--path", "/dev/nvidia-caps")}
	p := mustEdits(t, newHost(t), translate.Options{}, one(&e))
	if n := p.Nodes[0]; n.Mode != 0o600 || !n.Own {
		t.Errorf("node is %+v", n)
	}
	if len(p.Modes) != 1 || p.Modes[0].Path != "/dev/nvidia-caps" || p.Modes[0].Mode != 0o600 {
		t.Errorf("modes are %+v", p.Modes)
	}
}
