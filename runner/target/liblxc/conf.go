package liblxc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gpurig/core/emit/lxc"
	"gpurig/core/plan"
)

// ErrKey marks a line that this package has no answer for: what liblxc would do
// with it is not known here.
var ErrKey = errors.New("not a key that is known here")

// A Conf is what liblxc makes of a configuration, as far as devices, mounts and
// the first process go. Slices are in the order of the lines.
type Conf struct {
	Mounts      []Entry
	Devices     []Rule // of the cgroup version that Parse was told
	Env         []string
	Groups      []uint32
	UIDs, GIDs  []plan.IDMap
	Hooks       map[string][]string // commands by hook: "pre-start", "mount", …
	RootOptions []string            // lxc.rootfs.options
}

// ignored are keys without influence on what an Observation shows.
var ignored = map[string]bool{
	"lxc.autodev": true, "lxc.tty.max": true, "lxc.pty.max": true, "lxc.console.path": true,
	"lxc.mount.auto": true, "lxc.net.0.type": true, "lxc.hook.version": true, "lxc.uts.name": true,
	"lxc.rootfs.path": true, "lxc.rootfs.mount": true, "lxc.init.cmd": true, "lxc.execute.cmd": true, "lxc.log.file": true, "lxc.log.level": true,
	"lxc.apparmor.profile": true, "lxc.signal.halt": true, "lxc.signal.stop": true, "lxc.arch": true,
}

// Parse reads lines as lxc.container.conf(5) of one version has them. cgroup is
// the version in use, "v1" or "v2": rules for the other one are read and have no
// effect, as in liblxc. The first line that liblxc would refuse, or that is not
// known here (ErrKey), is the error; it quotes the line.
func Parse(lines []string, cgroup string, version lxc.Version) (Conf, error) {
	c := Conf{Hooks: map[string][]string{}}
	for i, line := range lines {
		if err := c.line(line, DeviceKey(cgroup), version); err != nil {
			return Conf{}, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	return c, nil
}

func (c *Conf) line(line, deviceKey string, version lxc.Version) error {
	line = strings.Trim(line, " \t")
	if !strings.HasPrefix(line, "lxc.") { // comments and whatever else: skipped without a word
		return nil
	}
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		return errors.New(`no "="`)
	}
	key, value = strings.TrimRight(key, " \t"), unquote(strings.Trim(value, " \t"))
	if !has(version, key) {
		return fmt.Errorf("LXC %s has no such key", version)
	}
	switch key {
	case "lxc.mount.entry":
		e, err := ParseEntry(value)
		c.Mounts = append(c.Mounts, e)
		return err
	case "lxc.cgroup.devices.allow", "lxc.cgroup.devices.deny", "lxc.cgroup2.devices.allow", "lxc.cgroup2.devices.deny":
		r, err := ParseRule(value)
		r.Allow = strings.HasSuffix(key, ".allow")
		if strings.HasPrefix(key, deviceKey+".") {
			c.Devices = append(c.Devices, r)
		}
		return err
	case "lxc.environment", "lxc.environment.runtime":
		c.Env = append(c.Env, value)
		return nil
	case "lxc.init.groups":
		return c.groups(value)
	case "lxc.idmap":
		return c.idmap(value)
	case "lxc.rootfs.options":
		c.RootOptions = strings.Split(value, ",")
		return nil
	}
	if hook, ok := strings.CutPrefix(key, "lxc.hook."); ok && hook != "version" {
		c.Hooks[hook] = append(c.Hooks[hook], value)
		return nil
	}
	if ignored[key] {
		return nil
	}
	return ErrKey
}

// has reports whether a version has a key, of those that not all have.
func has(v lxc.Version, key string) bool {
	switch {
	case strings.HasPrefix(key, "lxc.cgroup.devices."):
		return v.CgroupV1()
	case key == "lxc.environment.runtime":
		return v.RuntimeEnvironment()
	case key == "lxc.init.groups":
		return v.InitGroups()
	}
	return true
}

// unquote removes one pair of equal quotes around a whole value.
func unquote(v string) string {
	if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
		return v[1 : n-1]
	}
	return v
}

func (c *Conf) groups(value string) error {
	c.Groups = nil // a later line replaces an earlier one
	for _, f := range strings.Split(value, ",") {
		g, err := strconv.ParseUint(strings.TrimSpace(f), 10, 32)
		if err != nil {
			return fmt.Errorf("group %q: not a number", f)
		}
		c.Groups = append(c.Groups, uint32(g))
	}
	return nil
}

// idmap reads "u 0 100000 65536".
func (c *Conf) idmap(value string) error {
	f := strings.Fields(value)
	if len(f) != 4 {
		return errors.New("want a type and three numbers")
	}
	var n [3]uint32
	for i := range n {
		v, err := strconv.ParseUint(f[i+1], 10, 32)
		if err != nil {
			return fmt.Errorf("%q: not a number", f[i+1])
		}
		n[i] = uint32(v)
	}
	m := plan.IDMap{Container: n[0], Host: n[1], Count: n[2]}
	switch f[0] {
	case "u":
		c.UIDs = append(c.UIDs, m)
	case "g":
		c.GIDs = append(c.GIDs, m)
	case "b":
		c.UIDs, c.GIDs = append(c.UIDs, m), append(c.GIDs, m)
	default:
		return fmt.Errorf("type %q: want u, g or b", f[0])
	}
	return nil
}
