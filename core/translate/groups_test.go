package translate_test

import (
	"fmt"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/plan"
	"gpurig/core/translate"
)

const hostGroups = "root:x:0:\nvideo:x:44:\nrender:x:103:\nkvm:x:104:\n"

// Numbers of the host's groups that mean others in the image are noted, refused or mapped
// by name.
func TestGroupsOfTheImage(t *testing.T) {
	for _, tc := range []struct {
		name, image    string
		gid            uint32 // of the node, 0660
		opts           translate.Options
		wantGID        uint32
		own            bool
		groups         []uint32
		noted, refused string
	}{
		{name: "nothing known of the image", gid: 103, wantGID: 103, groups: []uint32{103}},
		{name: "the same", image: hostGroups, gid: 103, wantGID: 103, groups: []uint32{103}},
		{name: "another group", image: "kvm:x:103:\nrender:x:104:\n", gid: 103, wantGID: 103, groups: []uint32{103}, noted: `group 103 is "render" on the host and "kvm" in the image`},
		{name: "another group, strict", image: "kvm:x:103:\n", gid: 103, opts: translate.Options{Strict: true}, refused: `"kvm" in the image`},
		{name: "no group", image: "render:x:104:\n", gid: 103, wantGID: 103, groups: []uint32{103}},
		{name: "a number without name", image: "kvm:x:999:\n", gid: 999, wantGID: 999, groups: []uint32{999}},
		{name: "by name", image: "kvm:x:103:\nrender:x:104:\n", gid: 103, opts: translate.Options{MapGroups: true}, wantGID: 104, own: true, groups: []uint32{104}, noted: `"render" has number 103 on the host and 104 in the image`},
		{name: "by name, which the image does not have", image: "kvm:x:103:\n", gid: 103, opts: translate.Options{MapGroups: true}, wantGID: 103, groups: []uint32{103}, noted: `"kvm" in the image`},
		{name: "by name, root's", image: "render:x:0:\nkvm:x:103:\n", gid: 103, opts: translate.Options{MapGroups: true}, wantGID: 103, groups: []uint32{103}, noted: `"kvm" in the image`},
		{name: "by name, a wish", image: "kvm:x:103:\nrender:x:104:\n", gid: 103, opts: translate.Options{MapGroups: true, GID: ptr(uint32(7))}, wantGID: 7, own: true, groups: []uint32{104}, noted: "104 in the image"},
		{name: "by name, mapped ids", image: "kvm:x:103:\nrender:x:104:\n", gid: 103, opts: translate.Options{MapGroups: true, IDMap: []plan.IDMap{{Host: 100000, Count: 65536}}}, wantGID: 104, own: true, groups: []uint32{104}, noted: "104 in the image"},
		{name: "by name, nothing known of the image", gid: 103, opts: translate.Options{MapGroups: true}, refused: "those of the image are not known"},
		{name: "of two lines the first", image: "kvm:x:103:\nrender:x:104:\nrender:x:105:\nrender:x:103:\n", gid: 103, opts: translate.Options{MapGroups: true}, wantGID: 104, own: true, groups: []uint32{104}, noted: "104 in the image"},
		{name: "lines that are no groups", image: "render:x:1e2:\n:x:103:\nrender:104\nrender:x:103\nkvm:x:4294967296:\n", gid: 103, wantGID: 103, groups: []uint32{103}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t)
			must(t, h.WriteFile("/etc/group", []byte(hostGroups), 0o644),
				h.Mknod(device.Node{Path: "/dev/dri/renderD129", Type: device.Char, Num: device.Num{Major: 226, Minor: 129}, Mode: 0o660, GID: tc.gid}))
			tc.opts.Groups = []byte(tc.image)
			p, err := translate.Edits(h, editsOf(specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/dri/renderD129"}}, AdditionalGIDs: []uint32{tc.gid}}), tc.opts)
			if tc.refused != "" || err != nil {
				if err == nil || tc.refused == "" || !strings.Contains(err.Error(), tc.refused) {
					t.Fatalf("%v; want %q", err, tc.refused)
				}
				return
			}
			if n := p.Nodes[0]; n.GID != tc.wantGID || n.Own != tc.own {
				t.Errorf("the node has group %d, own %v; want %d, %v", n.GID, n.Own, tc.wantGID, tc.own)
			}
			if fmt.Sprint(p.Groups) != fmt.Sprint(tc.groups) {
				t.Errorf("groups %v, want %v", p.Groups, tc.groups)
			}
			noted := ""
			for _, n := range p.Notes {
				if strings.Contains(n.Detail, "in the image") {
					noted += n.Detail + "\n"
				}
			}
			if (noted != "") != (tc.noted != "") || !strings.Contains(noted, tc.noted) {
				t.Errorf("noted %q, want %q", noted, tc.noted)
			}
		})
	}
}

// FuzzGroups: whatever the two files have, there is a plan or a refusal, and a group is
// never mapped to root's or to one that the container does not have.
func FuzzGroups(f *testing.F) {
	f.Add(hostGroups, "kvm:x:103:\nrender:x:104:\n")
	f.Add("a:x:103:", "b:x:103:\na:x:65536:\na:x:0:")
	f.Add("a:x:103:\n", "a\x00:x:+104:\n:::\n")
	f.Fuzz(func(t *testing.T, onHost, inImage string) {
		h := newHost(t)
		must(t, h.WriteFile("/etc/group", []byte(onHost), 0o644))
		e := specs.ContainerEdits{AdditionalGIDs: []uint32{103}}
		p, err := translate.Edits(h, editsOf(e), translate.Options{Groups: []byte(inImage), MapGroups: true, IDMap: []plan.IDMap{{Host: 100000, Count: 65536}}})
		if err == nil && (len(p.Groups) != 1 || p.Groups[0] == 0 || p.Groups[0] >= 65536) {
			t.Errorf("groups %v", p.Groups)
		}
	})
}
