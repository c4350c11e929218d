package lxc

import "fmt"

// The keys of device rules, before ".allow" or ".deny".
const (
	keyV1 = "lxc.cgroup.devices"
	keyV2 = "lxc.cgroup2.devices"
)

// DeviceKeys returns the keys of device rules, before ".allow" or ".deny". cgroup is
// "v1", "v2", "both" or, empty, all that the version of liblxc has: each version of
// cgroups reads its own key, so both may stand in one configuration.
func DeviceKeys(cgroup string, v Version) ([]string, error) {
	switch {
	case cgroup == "v2", cgroup == "" && !v.CgroupV1():
		return []string{keyV2}, nil
	case cgroup != "" && cgroup != "v1" && cgroup != "both":
		return nil, fmt.Errorf("%+.256q: want v1, v2 or both", cgroup)
	case !v.CgroupV1():
		return nil, fmt.Errorf("%q: LXC %s has keys for cgroup v2 only, and starts nothing from a configuration with a key of v1", cgroup, v)
	case cgroup == "v1":
		return []string{keyV1}, nil
	}
	return []string{keyV1, keyV2}, nil
}

// DeviceBase returns the lines that a container's own configuration needs before
// those of Emit: all devices denied, then those that every container has.
func DeviceBase(keys ...string) []string {
	var out []string
	for _, key := range keys {
		out = append(out, key+".deny = a")
		for _, rule := range []string{
			"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", // null zero full random urandom
			"c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm", // tty console ptmx pts
		} {
			out = append(out, key+".allow = "+rule)
		}
	}
	return out
}
