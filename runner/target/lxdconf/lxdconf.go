// Package lxdconf computes what LXD gives to liblxc for the devices of an instance:
// simulated containers of LXD are made from it. A test in target/lxd compares it
// with a real daemon.
//
// Seen with LXD 5.0.2; Incus does the same.
package lxdconf

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
	"gpurig/core/emit/lxd"
	"gpurig/core/plan"
	"gpurig/runner/target/liblxc"
)

// DevicesDir is where LXD keeps nodes and binds of an instance: only text here.
const DevicesDir = "/var/lib/lxd/devices"

// Base returns the lines that stand before those of the devices. cgroup is "v1"
// or "v2". A container with an id map gets no device cgroup from LXD.
func Base(cgroup string, idmap []plan.IDMap) []string {
	lines := []string{"lxc.autodev = 1", "lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed"}
	for _, m := range idmap {
		for _, t := range []string{"u", "g"} {
			lines = append(lines, fmt.Sprintf("lxc.idmap = %s %d %d %d", t, m.Container, m.Host, m.Count))
		}
	}
	if len(idmap) > 0 {
		return lines
	}
	key := liblxc.DeviceKey(cgroup)
	base := lxc.DeviceBase(key)
	return append(append(lines, base[0], key+".allow = b *:* m", key+".allow = c *:* m"), base[1:]...)
}

// Lines returns what the devices of an instance become, disks in the order of
// their paths before device nodes, and the nodes that LXD makes: Path is where.
// The sources of disks stay as they are; LXD binds them below DevicesDir first,
// which changes no flag that an observation shows. isDir says what a source is.
func Lines(instance, cgroup string, idmap []plan.IDMap, devices map[string]lxd.Device, isDir func(source string) bool) (lines []string, made []plan.Node, err error) {
	var disks, nodes []string
	for name, d := range devices {
		switch d["type"] {
		case "disk":
			disks = append(disks, name)
		case "unix-char", "unix-block":
			nodes = append(nodes, name)
		default:
			return nil, nil, fmt.Errorf("device %s: type %q is not known here", name, d["type"])
		}
	}
	slices.SortFunc(disks, func(a, b string) int { return strings.Compare(devices[a]["path"], devices[b]["path"]) })
	slices.Sort(nodes)
	for _, name := range disks {
		lines = append(lines, disk(devices[name], isDir))
	}
	for _, name := range nodes {
		// LXD makes a node anew whose options change: here it then has another path.
		d := devices[name]
		at := fmt.Sprintf("%s.%s-%s-%s", path.Join(DevicesDir, instance, name), d["mode"], d["uid"], d["gid"])
		n, err := node(at, d, idmap)
		if err != nil {
			return nil, nil, fmt.Errorf("device %s: %w", name, err)
		}
		made = append(made, n)
		if len(idmap) == 0 {
			lines = append(lines, fmt.Sprintf("%s.allow = %s %d:%d rwm", liblxc.DeviceKey(cgroup), n.Type, n.Num.Major, n.Num.Minor))
		}
		lines = append(lines, fmt.Sprintf("lxc.mount.entry = %s %s none bind,create=file 0 0", n.Path, escape(d["path"][1:])))
	}
	return lines, made, nil
}

// disk is the entry of a bind. Of its options only "ro" gets as far: LXD uses
// raw.mount.options for file systems that it mounts itself.
func disk(d lxd.Device, isDir func(string) bool) string {
	options := "bind"
	if d["readonly"] == "true" {
		options = "ro,bind"
	}
	word := "file"
	if isDir(d["source"]) {
		word = "dir"
	}
	return fmt.Sprintf("lxc.mount.entry = %s %s none %s,create=%s 0 0", escape(d["source"]), escape(d["path"][1:]), options, word)
}

func escape(s string) string { return strings.NewReplacer(`\`, `\134`, " ", `\040`).Replace(s) }

// node is what LXD makes: its own node, whose owner it shifts by the id map.
func node(at string, d lxd.Device, idmap []plan.IDMap) (plan.Node, error) {
	n := plan.Node{Path: at, Type: device.Char}
	if d["type"] == "unix-block" {
		n.Type = device.Block
	}
	mode, err := strconv.ParseUint(d["mode"], 8, 32)
	if err != nil {
		return n, fmt.Errorf("mode: %w", err)
	}
	n.Mode = fs.FileMode(mode)
	for _, f := range []struct {
		name string
		to   *uint32
		id   bool
	}{{"major", &n.Num.Major, false}, {"minor", &n.Num.Minor, false}, {"uid", &n.UID, true}, {"gid", &n.GID, true}} {
		v, err := strconv.ParseUint(d[f.name], 10, 32)
		if err != nil {
			return n, fmt.Errorf("%s: %w", f.name, err)
		}
		*f.to = uint32(v)
		for _, m := range idmap {
			if f.id && *f.to >= m.Container && *f.to-m.Container < m.Count {
				*f.to += m.Host - m.Container
				break
			}
		}
	}
	return n, nil
}
