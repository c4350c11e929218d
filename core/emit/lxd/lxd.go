// Package lxd writes a plan as configuration of an LXD or Incus instance:
// devices of type unix-char, unix-block and disk, and raw.lxc with what has no device
// type: a tmpfs, environment, groups, and cdi-hook as a hook of liblxc.
//
// # What LXD does with it
//
// Seen with LXD 5.0.2, as root, privileged and with an id map:
//
//   - For unix-char and unix-block LXD makes a node of its own, with the numbers, mode and owner
//     given (owner as the container counts), and binds it into the container
//     without "ro": the host's own node is not in the container, and a change of
//     mode or owner in there does not reach it.
//   - A unix-char source outside of /dev is refused. Where the host's files are
//     not at their own place (Options.HostRoot), numbers are given in its stead.
//   - A privileged container is permitted "rwm" for each unix-char and nothing
//     less; a container with an id map has no device cgroup at all. What is more
//     than was planned is denied by raw.lxc, whose lines come last.
//   - Of a disk's options only "readonly" reaches the container: raw.mount.options
//     are for file systems that LXD mounts itself. Config.Notes says so. Mount
//     points that are missing are made in the root and left there; cdi-hook makes
//     them before, and takes them back.
//   - Disks are mounted in the order of their paths, before device nodes.
//   - LXD sets lxc.hook.version = 1 itself. Hooks of raw.lxc run after LXD's own.
//   - raw.lxc of a running container has no effect before the next start; devices
//     come and go at once.
package lxd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/core/emit/lxc"
	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// Options adjust Emit. The zero value suits a plan of device nodes alone, on the
// machine itself.
type Options struct {
	// IDMap is the container's; empty: security.privileged is meant.
	IDMap []plan.IDMap
	// HostRoot is put before every source of a disk; empty on a real machine.
	// Where it is given, device nodes are described by number.
	HostRoot string
	// HookPath, HookFile, ApplyIn, Container, Spec and Resolve are those of package lxc.
	HookPath, HookFile string
	ApplyIn            string
	Container          string
	Spec               string
	Resolve            func(path string) (string, error)
	// Manager is what refusals and notes call the manager; empty: "LXD".
	Manager string
	// LXCVersion is that of the server's liblxc.
	LXCVersion lxc.Version
}

// A Device is one instance device: its options by name, "type" among them.
type Device map[string]string

// A Config is a plan in LXD's words.
type Config struct {
	Devices map[string]Device
	Raw     lxc.Entries   // of raw.lxc
	Hook    hookspec.File // for Options.HookFile
	// Hooked says that Raw runs cdi-hook; see package lxc.
	Hooked bool
	Notes  []plan.Note // what LXD cannot be told, or does in its own way
}

// Why a plan cannot be written for LXD, or not quite as it is.
const (
	ReasonDevice refuse.Reason = "no-lxd-device"
	ReasonFlags  refuse.Reason = "flags-of-lxd"
)

// Reasons lists those that package lxc has not.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonDevice, Meaning: "LXD would mount a tmpfs over a disk."},
		{Reason: ReasonFlags, Meaning: "LXD mounts disks without nosuid, nodev and noexec."},
	}
}

// Emit writes p for LXD. It returns every refusal at once, joined, and never a
// part of a configuration. p is not changed.
func Emit(p plan.Plan, opts Options) (Config, error) {
	// Everything that liblxc would not take, LXD cannot hand to it either.
	lc, err := lxc.Emit(p, lxc.Options{
		IDMap: opts.IDMap, HostRoot: opts.HostRoot, NodesDir: ownNodes, HookPath: opts.HookPath, HookFile: opts.HookFile,
		ApplyIn: opts.ApplyIn, Container: opts.Container, Spec: opts.Spec, LXCVersion: opts.LXCVersion, Resolve: opts.Resolve,
	})
	if err != nil {
		return Config{}, err
	}
	opts.Manager = cmp.Or(opts.Manager, "LXD")
	e := &emitter{opts: opts, config: Config{Devices: map[string]Device{}, Hook: lc.Hook, Hooked: lc.Hooked}}
	for _, entry := range lc.Entries {
		switch v := entry.Value.(type) {
		case lxc.Mount:
			switch {
			case v.Node != nil:
				e.node(*v.Node)
			case v.Type == "none":
				e.disk(v)
			default:
				e.tmpfs(v, lc.Entries)
				e.config.Raw = append(e.config.Raw, entry)
			}
		case lxc.Var, lxc.Groups, lxc.Command: // LXD has no option for them
			e.config.Raw = append(e.config.Raw, entry)
		}
	}
	for _, n := range lc.Notes {
		if n.Reason != string(lxc.ReasonHostFlags) { // LXD mounts disks in its own way
			e.config.Notes = append(e.config.Notes, n)
		}
	}
	if err := e.denials(p.Nodes); err != nil {
		return Config{}, err
	}
	if e.flags > 0 {
		e.config.Notes = append(e.config.Notes, plan.Note{
			Edit: "mounts", What: fmt.Sprintf("nosuid, nodev and noexec of %d mounts", e.flags), Reason: string(ReasonFlags), Done: true,
			Detail: opts.Manager + " mounts a disk with \"ro\" and none of these; the mounts have the flags that their sources have on the host",
		})
	}
	if len(e.refusals) > 0 {
		return Config{}, refuse.Join(e.refusals...)
	}
	return e.config, nil
}

// ownNodes stands for the folder in which LXD makes nodes.
const ownNodes = "/var/lib/lxd/devices"

type emitter struct {
	opts     Options
	config   Config
	flags    int // mounts whose flags LXD leaves out
	refusals []*refuse.Error
}

// add gives a device a name that depends on its path alone, so that it keeps it
// when others come and go.
func (e *emitter) add(d Device) {
	name := deviceName(d["type"], d["path"])
	if other, taken := e.config.Devices[name]; taken {
		e.refusals = append(e.refusals, refuse.New(lxc.ReasonConflict, d["path"], "would be device %q, as %q is", name, other["path"]))
		return
	}
	e.config.Devices[name] = d
}

// Text returns the configuration as YAML, which "lxc config edit" and "lxc init"
// of LXD, and "incus" of Incus, read.
func (c Config) Text() string {
	var b strings.Builder
	if len(c.Raw) > 0 {
		b.WriteString("config:\n  raw.lxc: |-\n")
		for _, l := range c.Raw.Lines() {
			fmt.Fprintf(&b, "    %s\n", l)
		}
	}
	b.WriteString("devices:")
	if len(c.Devices) == 0 {
		b.WriteString(" {}")
	}
	b.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(c.Devices)) {
		fmt.Fprintf(&b, "  %s:\n", name)
		d := c.Devices[name]
		for _, k := range slices.Sorted(maps.Keys(d)) {
			fmt.Fprintf(&b, "    %s: %q\n", k, d[k])
		}
	}
	return b.String()
}
