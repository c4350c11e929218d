package observe_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"gpurig/runner/observe"
)

func fsMode(m uint32) fs.FileMode { return fs.FileMode(m) }

func TestParseMountinfo(t *testing.T) {
	for _, tc := range []struct {
		name, in, target, typ, options string
		bad                            string // want an error with this text
	}{
		{name: "the manual's example", in: "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue", target: "/mnt2", typ: "ext3", options: "rw,noatime"},
		{name: "no tags", in: "31 23 0:28 / /sys rw - tmpfs tmpfs rw", target: "/sys", typ: "tmpfs", options: "rw"},
		{name: "no source text", in: "31 23 0:28 / /sys rw - tmpfs  rw", target: "/sys", typ: "tmpfs", options: "rw"},
		{name: "space in the mount point", in: `36 35 98:0 / /a\040b ro - ext4 /dev/vda rw`, target: "/a b", typ: "ext4", options: "ro"},
		{name: "cut off", in: "36 35 98:0 / /a", bad: "5 fields"},
		{name: "no dash", in: "36 35 98:0 / /a rw a:1 b:2 c:3 d:4", bad: `after "-"`},
		{name: "relative", in: "36 35 98:0 / a rw - ext4 x rw", bad: "not absolute"},
		{name: "broken escape", in: `36 35 98:0 / /a\9 rw - ext4 x rw`, bad: "escape"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := observe.ParseMountinfo(tc.in + "\n")
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Fatalf("ParseMountinfo(%q) = %v, %v; want an error with %q", tc.in, got, err, tc.bad)
				}
				return
			}
			if err != nil || len(got) != 1 || got[0].Target != tc.target || got[0].Type != tc.typ || strings.Join(got[0].Options, ",") != tc.options {
				t.Errorf("ParseMountinfo(%q) = %+v, %v", tc.in, got, err)
			}
		})
	}
}

func FuzzParseMountinfo(f *testing.F) {
	for _, s := range []string{"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n", `1 2 3:4 / /a\134 rw - a b c`, "- - - - - - - - - -", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := observe.ParseMountinfo(s)
		if err != nil && got != nil {
			t.Fatalf("ParseMountinfo(%q) returned %v along with an error", s, got)
		}
		if slices.ContainsFunc(got, func(m observe.MountLine) bool { return !strings.HasPrefix(m.Target, "/") || m.Options == nil }) {
			t.Fatalf("ParseMountinfo(%q) = %+v: a line without target or options", s, got)
		}
	})
}
