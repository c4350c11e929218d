package liblxc_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
	"gpurig/core/plan"
	"gpurig/runner/target/liblxc"
)

// What liblxc 5.0.2 made of each on an ordinary file system and on one that has
// flags of its own.
func TestFlagsAreThoseThatLiblxcMakes(t *testing.T) {
	for _, tc := range []struct{ options, source, want string }{
		{options: "bind", want: ""},
		{options: "bind,ro,nosuid,nodev", want: "nodev nosuid ro"},
		{options: "bind,nosuid,nodev,noexec", want: ""}, // lost: no remount without ro
		{options: "bind,remount,nosuid", want: ""},      // "remount" is ignored
		{options: "bind,ro,rw", want: ""},               // the later one wins
		{options: "bind,nosuid", source: "nodev", want: "nodev nosuid"},
		{options: "bind,nodev", source: "nodev", want: "nodev"},
		{options: "bind", source: "nosuid", want: "nosuid"},
		{options: "bind,dev", source: "nodev", want: "nodev"}, // not remounted, so the source's stays
		{options: "bind,dev,ro", source: "nodev", want: "ro"},
	} {
		e, err := liblxc.ParseEntry("/s t none " + tc.options + " 0 0")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(e.Flags(strings.Fields(tc.source)), " "); got != tc.want {
			t.Errorf("Flags(%q) of %q = %q; want %q", tc.source, tc.options, got, tc.want)
		}
	}
}

func TestParseEntry(t *testing.T) {
	got, err := liblxc.ParseEntry(`/a\040b\134c  dev/x	none bind,create=file,optional 0 0`)
	want := liblxc.Entry{Source: `/a b\c`, Target: "dev/x", Type: "none", Options: []string{"bind", "create=file", "optional"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ParseEntry() = %v (-want +got):\n%s", err, diff)
	}
	if got.Create() != "file" || !got.Optional() {
		t.Errorf("Create() = %q, Optional() = %v", got.Create(), got.Optional())
	}
	if _, err := liblxc.ParseEntry("/only-a-source"); err == nil {
		t.Error("ParseEntry(no target) = nil error")
	}
}

func TestCgroup(t *testing.T) {
	gpu, other := device.Num{Major: 195, Minor: 0}, device.Num{Major: 195, Minor: 1}
	for _, tc := range []struct {
		name  string
		rules []string // "+" allow, "-" deny
		num   device.Num
		perms string
		want  bool
	}{
		{"no rule at all", nil, gpu, "rw", true},
		{"everything denied", []string{"-a"}, gpu, "r", false},
		{"the exact rule", []string{"-a", "+c 195:0 rw"}, gpu, "rw", true},
		{"its neighbour", []string{"-a", "+c 195:0 rw"}, other, "r", false},
		{"reading only", []string{"-a", "+c 195:0 r"}, gpu, "rw", false},
		{"reading and writing by two rules", []string{"-a", "+c 195:0 r", "+c 195:0 w"}, gpu, "rw", true},
		{"any minor", []string{"-a", "+c 195:* rwm"}, other, "rw", true},
		{"a block device of that number", []string{"-a", "+b 195:0 rw"}, gpu, "r", false},
		{"making nodes is not opening them", []string{"-a", "+c *:* m"}, gpu, "r", false},
		{"denied again", []string{"-a", "+c 195:0 rw", "-c 195:0 w"}, gpu, "w", false},
		{"all forgets what was before", []string{"+c 195:0 rw", "-a"}, gpu, "r", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rules []liblxc.Rule
			for _, s := range tc.rules {
				r, err := liblxc.ParseRule(s[1:])
				if err != nil {
					t.Fatal(err)
				}
				r.Allow = s[0] == '+'
				rules = append(rules, r)
			}
			if got := liblxc.NewCgroup(rules).Permits(device.Char, tc.num, tc.perms); got != tc.want {
				t.Errorf("Permits(%s, %s) = %v; want %v", tc.num, tc.perms, got, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	lines := []string{
		"# a comment", "", "neither = this",
		"lxc.autodev = 1",
		`lxc.mount.entry = "/a b none bind 0 0"`,
		"lxc.cgroup.devices.deny = a", "lxc.cgroup2.devices.allow = c 195:0 rw",
		"lxc.environment = A=b=c", "lxc.init.groups = 1", "lxc.init.groups = 44,55",
		"lxc.idmap = u 0 100000 65536", "lxc.hook.pre-start = /x y", "lxc.hook.version = 1",
	}
	got, err := liblxc.Parse(lines, "v1", liblxc.Stated)
	want := liblxc.Conf{
		Mounts:  []liblxc.Entry{{Source: "/a", Target: "b", Type: "none", Options: []string{"bind"}}},
		Devices: []liblxc.Rule{{Major: -1, Minor: -1, Perms: "rwm"}},
		Env:     []string{"A=b=c"}, Groups: []uint32{44, 55},
		UIDs:  []plan.IDMap{{Host: 100000, Count: 65536}},
		Hooks: map[string][]string{"pre-start": {"/x y"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Parse() = %v (-want +got):\n%s", err, diff)
	}
	for _, line := range []string{"lxc.nonsense = 1", "lxc.hook", "lxc.init.groups = x", "lxc.idmap = z 0 0 0", "lxc.cgroup.devices.allow = c 1 rw", "lxc.mount.entry = /a"} {
		if _, err := liblxc.Parse([]string{line}, "v1", liblxc.Stated); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("Parse(%q) = %v; want an error that quotes the line", line, err)
		}
	}
	if _, err := liblxc.Parse([]string{"lxc.nonsense = 1"}, "v1", liblxc.Stated); !errors.Is(err, liblxc.ErrKey) {
		t.Errorf("Parse(unknown key) = %v; want ErrKey", err)
	}
}

func TestBaseIsRead(t *testing.T) {
	for _, cgroup := range []string{"v1", "v2"} {
		c, err := liblxc.Parse(liblxc.Base(cgroup, []plan.IDMap{{Host: 100000, Count: 65536}}), cgroup, liblxc.Stated)
		if err != nil || len(c.Devices) < 5 || len(c.UIDs) != 1 || len(c.GIDs) != 1 {
			t.Errorf("Parse(Base(%s)) = %+v, %v", cgroup, c, err)
		}
	}
}

func TestChanges(t *testing.T) {
	e := func(target, source string) liblxc.Entry { return liblxc.Entry{Source: source, Target: target} }
	gone, added := liblxc.Changes([]liblxc.Entry{e("a", "1"), e("b", "1"), e("c", "1")}, []liblxc.Entry{e("c", "2"), e("b", "1"), e("d", "1")})
	names := func(list []liblxc.Entry) (out []string) {
		for _, e := range list {
			out = append(out, e.Target+e.Source)
		}
		return out
	}
	if !slices.Equal(names(gone), []string{"a1", "c1"}) || !slices.Equal(names(added), []string{"c2", "d1"}) {
		t.Errorf("Changes() = %v, %v; want [a1 c1], [c2 d1]", names(gone), names(added))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"lxc.mount.entry = /a\\040 b none bind,ro 0 0", "lxc.idmap = b 0 1 2", "lxc.cgroup2.devices.allow = c 1:* rwm", "lxc.init.groups = 1,2", "lxc.rootfs.options = ro"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := liblxc.Parse(strings.Split(s, "\n"), "v2", liblxc.Stated)
		if err != nil && !cmp.Equal(c, liblxc.Conf{}) {
			t.Fatalf("Parse(%q) returned %+v along with an error", s, c)
		}
		for _, r := range c.Devices {
			again, err := liblxc.ParseRule(r.String())
			again.Allow = r.Allow
			if err != nil || again != r {
				t.Fatalf("rule %+v writes %q, which reads as %+v, %v", r, r, again, err)
			}
		}
		for _, e := range c.Mounts {
			e.Flags([]string{"nodev"})
		}
	})
}

// Keys that not every version has, as 5.0.2, 6.0.4 and 7.0.0 take them.
func TestKeysByVersion(t *testing.T) {
	v5, v6, v7 := liblxc.Stated, lxc.Version{Major: 6, Patch: 4}, lxc.Version{Major: 7}
	for line, by := range map[string][]lxc.Version{
		"lxc.cgroup.devices.deny = a":   {v5, v6},
		"lxc.cgroup2.devices.deny = a":  {v5, v6, v7},
		"lxc.environment = A=1":         {v5, v6, v7},
		"lxc.environment.runtime = A=1": {v7},
		"lxc.init.groups = 44":          {v5, v6, v7},
	} {
		for _, v := range []lxc.Version{v5, v6, v7} {
			if _, err := liblxc.Parse([]string{line}, "v2", v); (err == nil) != slices.Contains(by, v) {
				t.Errorf("LXC %s, %q: %v", v, line, err)
			}
		}
	}
	for _, cgroup := range []string{"v1", "v2"} {
		for _, v := range []lxc.Version{v5, v6, v7} {
			if none := liblxc.Can("lxc", cgroup, v); (none != nil) != (cgroup == "v1" && v == v7) {
				t.Errorf("LXC %s, cgroup %s: %v", v, cgroup, none)
			}
		}
	}
}
