// Package pve writes a plan as lines of a Proxmox VE container,
// /etc/pve/lxc/ID.conf: devN for the nodes, and for everything else the lines of
// package lxc, with a colon in place of "=".
//
// For devN (Proxmox VE 8.1 and newer) Proxmox makes the node in the container,
// with the given owner and mode, and writes its device rule; nothing has to
// be prepared. The format follows Proxmox's manual, pct(1) and
// https://pve.proxmox.com/pve-docs/pct.1.html; it was not tried on Proxmox itself.
package pve

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// maxDevices is how many devN a container can have: dev0 to dev255.
const maxDevices = 256

// Options adjust Emit. The zero value suits a plan without links or mounts.
type Options struct {
	// IDMap is the container's; empty: a privileged one.
	IDMap []plan.IDMap
	// HookPath is where cdi-hook is, HookFile where Config.Hook is going to be
	// written. Needed when the hook has anything to do.
	HookPath, HookFile string
	// Container names the container in the hook file; empty: "container".
	Container string
	// LXCVersion is that of the node's LXC (lxc-pve).
	LXCVersion lxc.Version
}

// A Device is one devN.
type Device struct {
	Path      string
	Mode      fs.FileMode     // permission bits
	Owner     *hookspec.Owner // as the container sees it; nil: that of the host's node, who has no id there
	DenyWrite bool
}

// String returns the value of devN.
func (d Device) String() string {
	s := fmt.Sprintf("%s,mode=%04o", d.Path, d.Mode)
	if d.Owner != nil {
		s += fmt.Sprintf(",uid=%d,gid=%d", d.Owner.UID, d.Owner.GID)
	}
	if d.DenyWrite {
		s += ",deny-write=1"
	}
	return s
}

// A Config is a plan in Proxmox's words.
type Config struct {
	Devices []Device      // dev0 and those that follow
	Entries lxc.Entries   // everything else
	Hook    hookspec.File // for Options.HookFile
	Hooked  bool          // Entries run cdi-hook, as in package lxc
	Notes   []plan.Note   // what Proxmox cannot be told, and why that is no loss
}

// Why a node cannot be a devN, and what else Proxmox cannot be told.
const (
	ReasonNode   refuse.Reason = "no-pve-device"
	ReasonGroups refuse.Reason = "groups-not-with-pve"
)

// Reasons lists those that package lxc has not.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonNode, Meaning: "A device node cannot be written as a device of a Proxmox VE container."},
		{Reason: ReasonGroups, Meaning: "Proxmox VE cannot set additional groups."},
	}
}

// Emit writes p for Proxmox VE. It returns every refusal at once, joined, and
// never a part of a configuration. p is not changed.
func Emit(p plan.Plan, opts Options) (Config, error) {
	var c Config
	var refusals []*refuse.Error
	for i, n := range p.Nodes {
		if why := noDevice(i, n); why != "" {
			refusals = append(refusals, refuse.New(ReasonNode, n.Path, "%s", why))
			continue
		}
		d := Device{Path: n.Path, Mode: n.Mode.Perm(), DenyWrite: !strings.Contains(n.Permissions, "w")}
		if n.Own || len(opts.IDMap) == 0 {
			d.Owner = &hookspec.Owner{UID: n.UID, GID: n.GID}
		}
		c.Devices = append(c.Devices, d)
	}
	rest := p
	rest.Nodes, rest.Groups, rest.GroupOwners = nil, nil, nil
	if len(p.Groups) > 0 {
		c.Notes = append(c.Notes, plan.Note{Edit: "additionalGids", What: fmt.Sprintf("additional groups %v", p.Groups), Reason: string(ReasonGroups),
			Detail: "Proxmox VE has no option for the groups of the first process; the container's root does not need them to open nodes that are its own"})
	}
	more, err := lxc.Emit(rest, lxc.Options{IDMap: opts.IDMap, HookPath: opts.HookPath, HookFile: opts.HookFile, Container: opts.Container, LXCVersion: opts.LXCVersion})
	if refusals = append(refusals, refuse.As(err)...); len(refusals) > 0 {
		return Config{}, refuse.Join(refusals...)
	}
	c.Entries = slices.DeleteFunc(more.Entries, func(e lxc.Entry) bool { return e.Key == "lxc.autodev" }) // Proxmox always has it
	c.Hook, c.Hooked, c.Notes = more.Hook, more.Hooked, append(c.Notes, more.Notes...)
	return c, nil
}

// noDevice says why a node cannot be the i-th devN; empty: it can.
func noDevice(i int, n plan.Node) string {
	switch {
	case i >= maxDevices:
		return fmt.Sprintf("a container has at most %d devices", maxDevices)
	case n.Type != device.Char && n.Type != device.Block || !n.Num.Known():
		return "is not a device with a number"
	case n.Source != n.Path:
		return fmt.Sprintf("is %s on the host: a device has the same path there", n.Source)
	case !strings.HasPrefix(n.Path, "/dev/") || strings.ContainsAny(n.Path, ", \t\r\n="):
		return "is not a path below /dev without commas and blanks"
	case !strings.Contains(n.Permissions, "r"):
		return "may not be read by the container: a device can always be"
	}
	return ""
}

// Lines returns "key: value" of each entry, devices first.
func (c Config) Lines() []string {
	var lines []string
	for i, d := range c.Devices {
		lines = append(lines, fmt.Sprintf("dev%d: %s", i, d))
	}
	for _, e := range c.Entries {
		lines = append(lines, e.Key+": "+e.Value.String())
	}
	return lines
}

// Text returns the lines as a part of the file.
func (c Config) Text() string { return strings.Join(append(c.Lines(), ""), "\n") }
