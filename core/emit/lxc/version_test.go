package lxc_test

import (
	"strings"
	"testing"

	"gpurig/core/emit/lxc"
)

func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		text                        string
		want                        lxc.Version
		v1, runtime, groups, mapped bool
	}{
		{"4.0.12", lxc.Version{Major: 4, Patch: 12}, true, false, false, false},
		{"5.0.2", lxc.Version{Major: 5, Patch: 2}, true, false, true, false},
		{"6.0.5", lxc.Version{Major: 6, Patch: 5}, true, false, true, false},
		{"6.0.6", lxc.Version{Major: 6, Patch: 6}, true, false, true, true},
		{"6.1", lxc.Version{Major: 6, Minor: 1}, true, false, true, true},
		{"7", lxc.Version{Major: 7}, false, true, true, true},
		{"7.0.0-devel", lxc.Version{Major: 7}, false, true, true, true},
		{"7.0.0~git20260420", lxc.Version{Major: 7}, false, true, true, true},
		{"10.2.13", lxc.Version{Major: 10, Minor: 2, Patch: 13}, false, true, true, true},
	} {
		v, err := lxc.ParseVersion(tc.text)
		if err != nil || v != tc.want {
			t.Errorf("ParseVersion(%q) = %v, %v; want %v", tc.text, v, err, tc.want)
		}
		if v.CgroupV1() != tc.v1 || v.RuntimeEnvironment() != tc.runtime || v.InitGroups() != tc.groups || v.MappedGroups() != tc.mapped {
			t.Errorf("%s: cgroup v1 %v, runtime environment %v, groups %v, with an id map %v", tc.text, v.CgroupV1(), v.RuntimeEnvironment(), v.InitGroups(), v.MappedGroups())
		}
	}
	if v := (lxc.Version{}); !v.CgroupV1() || v.RuntimeEnvironment() || !v.InitGroups() || v.MappedGroups() {
		t.Error("a version that is not known is not one of 5.0 to 6.0")
	}
	for _, bad := range []string{"", "new", "0", "7.", "7.x", "v7", "-7", "7.0.0.1", "99999", "5.0.2\n", strings.Repeat("9", 400)} {
		if v, err := lxc.ParseVersion(bad); err == nil || len(err.Error()) > 300 {
			t.Errorf("ParseVersion(%q) = %v, %v; want a short error", bad, v, err)
		}
	}
}
