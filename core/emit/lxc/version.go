package lxc

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// A Version is that of liblxc, in which a configuration is read in one way. The
// zero Version is not known: what is written for it suits 5.0 to 6.0.
type Version struct{ Major, Minor, Patch int }

var versionText = regexp.MustCompile(`^([1-9][0-9]{0,3})(?:\.([0-9]{1,4}))?(?:\.([0-9]{1,4}))?(?:[-~+ ].*)?$`)

// ParseVersion reads "5.0.2" and what lxc-start --version says: "7.0.0-devel".
func ParseVersion(s string) (Version, error) {
	m := versionText.FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("%+.256q is not a version of LXC, such as 5.0.2", s)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(cmp.Or(m[i+1], "0")) // it has digits alone
	}
	return Version{n[0], n[1], n[2]}, nil
}

// String is part of fmt.Stringer.
func (v Version) String() string {
	if v == (Version{}) {
		return "5 or 6"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

func (v Version) atLeast(o Version) bool {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch)) >= 0
}

func (v Version) known() bool { return v != Version{} }

// CgroupV1 reports whether there are keys for cgroup v1. LXC 7 has none, and can
// use no such cgroup (its change 4671).
func (v Version) CgroupV1() bool { return !v.atLeast(Version{7, 0, 0}) }

// RuntimeEnvironment reports whether there is lxc.environment.runtime, which
// reaches the container's processes and no hook (LXC's commit fbd37f04c).
func (v Version) RuntimeEnvironment() bool { return v.atLeast(Version{7, 0, 0}) }

// InitGroups reports whether there is lxc.init.groups (LXC's commit bf31b3378).
func (v Version) InitGroups() bool { return !v.known() || v.atLeast(Version{5, 0, 0}) }

// MappedGroups reports whether lxc.init.groups is carried out in a container with
// an id map too (LXC's commit 9e6caeabe, in 6.0.6 and 7.0.0).
func (v Version) MappedGroups() bool { return v.atLeast(Version{6, 0, 6}) }
