// Package pve writes a plan as lines of a Proxmox VE container,
// /etc/pve/lxc/ID.conf: devN for the nodes, and the lines of package lxc, with a
// colon in place of "=", for everything else.
//
// With devN (Proxmox VE 8.1 and newer) Proxmox makes the node in the container,
// with owner and mode as asked, and writes its device rule; nothing else has to
// be made first. The format is that of Proxmox's manual, pct(1) and
// https://pve.proxmox.com/pve-docs/pct.1.html; no Proxmox was at hand to try it.
package pve

import (
	"fmt"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/hookspec"
	"gpurig/core/lxc"
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

// A Config is a plan in Proxmox's words.
type Config struct {
	Lines  []string      // "key: value", in order
	Hook   hookspec.File // for Options.HookFile
	Hooked bool          // Lines run cdi-hook, as in package lxc
	Notes  []plan.Note   // what Proxmox cannot be told, and why that is no loss
}

// ReasonNode says why a node cannot be a devN.
const ReasonNode refuse.Reason = "no-pve-device"

// Reasons lists those that package lxc has not.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{{Reason: ReasonNode, Meaning: "A device node cannot be written as a device of a Proxmox VE container."}}
}

// Emit writes p for Proxmox VE. It returns every refusal at once, joined, and
// never a part of a configuration. p is not changed.
func Emit(p plan.Plan, opts Options) (Config, error) {
	var c Config
	var refusals []*refuse.Error
	for i, n := range p.Nodes {
		line, why := deviceLine(i, n, len(opts.IDMap) > 0)
		if why != "" {
			refusals = append(refusals, refuse.New(ReasonNode, n.Path, "%s", why))
			continue
		}
		c.Lines = append(c.Lines, line)
	}
	rest := p
	rest.Nodes, rest.Groups, rest.GroupOwners = nil, nil, nil
	if len(p.Groups) > 0 {
		c.Notes = append(c.Notes, plan.Note{Edit: "additionalGids", What: fmt.Sprintf("additional groups %v", p.Groups), Reason: "groups-not-with-pve",
			Detail: "Proxmox VE has no option for the groups of the first process; the container's root does not need them to open nodes that are its own"})
	}
	more, err := lxc.Emit(rest, lxc.Options{Cgroup: "v2", IDMap: opts.IDMap, HookPath: opts.HookPath, HookFile: opts.HookFile, Container: opts.Container, LXCVersion: opts.LXCVersion})
	if err != nil {
		refusals = append(refusals, refuse.As(err)...)
	}
	if len(refusals) > 0 {
		return Config{}, refuse.Join(refusals...)
	}
	for _, l := range more.Lines {
		key, value, _ := strings.Cut(l, " = ")
		if key == "lxc.autodev" { // Proxmox always has it
			continue
		}
		c.Lines = append(c.Lines, key+": "+value)
	}
	c.Hook, c.Hooked, c.Notes = more.Hook, more.Hooked, append(c.Notes, more.Notes...)
	return c, nil
}

// deviceLine writes one devN, or says why there is none for the node.
func deviceLine(i int, n plan.Node, idmapped bool) (line, why string) {
	switch {
	case i >= maxDevices:
		return "", fmt.Sprintf("a container has at most %d devices", maxDevices)
	case n.Type != device.Char && n.Type != device.Block || !n.Num.Known():
		return "", "is not a device with a number"
	case n.Source != n.Path:
		return "", fmt.Sprintf("is %s on the host: a device has the same path there", n.Source)
	case !strings.HasPrefix(n.Path, "/dev/") || strings.ContainsAny(n.Path, ", \t\r\n="):
		return "", "is not a path below /dev without commas and blanks"
	case !strings.Contains(n.Permissions, "r"):
		return "", "may not be read by the container: a device can always be"
	}
	line = fmt.Sprintf("dev%d: %s,mode=%04o", i, n.Path, n.Mode.Perm())
	if n.Own || !idmapped { // else the owner is that of the host's node, who has no id there
		line += fmt.Sprintf(",uid=%d,gid=%d", n.UID, n.GID)
	}
	if !strings.Contains(n.Permissions, "w") {
		line += ",deny-write=1"
	}
	return line, ""
}

// Text returns the lines as a part of the file.
func (c Config) Text() string { return strings.Join(slices.Concat(c.Lines, []string{""}), "\n") }
