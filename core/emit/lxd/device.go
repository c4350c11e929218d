package lxd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
	"gpurig/core/place"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// node writes one unix-char or unix-block. LXD makes the node with what is given
// here; owner and mode are therefore always given, also where they are the host's own.
func (e *emitter) node(n plan.Node) {
	kind := "unix-char"
	if n.Type == device.Block {
		kind = "unix-block"
	}
	d := Device{
		"type": kind, "path": n.Path, "mode": fmt.Sprintf("%04o", n.Mode.Perm()),
		"uid": strconv.FormatUint(uint64(n.UID), 10), "gid": strconv.FormatUint(uint64(n.GID), 10),
	}
	if e.opts.HostRoot == "" {
		d["source"] = n.Source // LXD looks up the numbers at each start: a driver may get others
	} else {
		d["major"] = strconv.FormatUint(uint64(n.Num.Major), 10)
		d["minor"] = strconv.FormatUint(uint64(n.Num.Minor), 10)
	}
	for _, id := range []uint32{n.UID, n.GID} {
		if _, ok := plan.HostID(e.opts.IDMap, id); !ok {
			e.refusals = append(e.refusals, refuse.New(lxc.ReasonUnmapped, n.Path, "owner %d:%d has no counterpart on the host in this container's id map", n.UID, n.GID))
			return
		}
	}
	e.add(d)
}

// denials take back in raw.lxc what LXD permits beyond the plan. With cgroup v2
// liblxc only takes back a rule that is denied with the very permissions that
// were allowed: what stays is then allowed anew.
func (e *emitter) denials(list []plan.Node) error {
	keys, err := lxc.DeviceKeys("", e.opts.LXCVersion)
	rule := func(key string, r lxc.Rule) { e.config.Raw = append(e.config.Raw, lxc.Entry{Key: key, Value: r}) }
	first := len(e.opts.IDMap) > 0 // LXD gives the container no rule: with cgroup v2 ours alone would deny all others
	for _, r := range place.Access(list) {
		if r.Access == "rw" {
			continue
		}
		for _, key := range keys {
			if first {
				rule(key+".allow", lxc.Rule{})
			}
			rule(key+".deny", lxc.Rule{Type: r.Type, Num: r.Num, Access: "rwm"})
			if r.Access != "" {
				rule(key+".allow", lxc.Rule(r))
			}
		}
		first = false
	}
	return err
}

// tmpfs refuses one that would cover a disk. It has no device type: it is a mount
// entry of raw.lxc, which comes after all disks.
func (e *emitter) tmpfs(m lxc.Mount, all lxc.Entries) {
	for _, entry := range all {
		if other, ok := entry.Value.(lxc.Mount); ok && strings.HasPrefix(other.Target, m.Target+"/") {
			e.refusals = append(e.refusals, refuse.New(ReasonDevice, m.Target, "is a %s, which %s mounts last: it would cover %s", m.Type, e.opts.Manager, other.Target))
		}
	}
}

// disk writes one disk.
func (e *emitter) disk(m lxc.Mount) {
	d := Device{"type": "disk", "source": m.Source, "path": m.Target}
	var raw []string
	for _, o := range m.Options {
		switch o {
		case "ro":
			d["readonly"] = "true"
		case "nosuid", "nodev", "noexec":
			raw = append(raw, o)
		case "private", "rprivate", "slave", "rslave":
			d["propagation"] = o
		}
	}
	if len(raw) > 0 {
		d["raw.mount.options"] = strings.Join(raw, ",")
		e.flags++
	}
	e.add(d)
}

// deviceName makes a name of a path: its last component for people, a digest of
// the whole for its own. LXD takes letters, digits and ".-_", at most 64.
func deviceName(kind, at string) string {
	base := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, path.Base(at))
	sum := sha256.Sum256([]byte(at))
	word := "node"
	if kind == "disk" {
		word = "disk"
	}
	return word + "-" + base[:min(len(base), 40)] + "-" + hex.EncodeToString(sum[:4])
}
