package liblxc

// baseDevices are the rules that every container gets: nothing, then node
// making without use, then the standard nodes, as in LXC's own common.conf.
var baseDevices = []string{
	"c *:* m", "b *:* m",
	"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm",
	"c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm",
}

// Base returns the lines that stand before those of a plan. cgroup is "v1" or
// "v2". What differs from machine to machine (name, paths, idmap) is not among
// them.
func Base(cgroup string) []string {
	lines := []string{
		"lxc.autodev = 1",
		"lxc.tty.max = 0",
		"lxc.pty.max = 16",
		"lxc.console.path = none",
		"lxc.mount.auto = proc:mixed sys:mixed",
		"lxc.net.0.type = empty",
		"lxc.hook.version = 1",
		DeviceKey(cgroup) + ".deny = a",
	}
	for _, d := range baseDevices {
		lines = append(lines, DeviceKey(cgroup)+".allow = "+d)
	}
	return lines
}

// DeviceKey returns the key of device rules without ".allow" or ".deny".
func DeviceKey(cgroup string) string {
	if cgroup == "v1" {
		return "lxc.cgroup.devices"
	}
	return "lxc.cgroup2.devices"
}
