// Package lxc writes a plan as configuration of liblxc: lxc.mount.entry,
// lxc.cgroup.devices and lxc.cgroup2.devices, lxc.environment, lxc.init.groups,
// and hooks that run cdi-hook.
//
// # What the lines need of the rest
//
// The container's own configuration brings the root file system
// (lxc.rootfs.path = dir:…, since cdi-hook makes mount points before the start)
// and denies all devices first (lxc.cgroup2.devices.deny = a); without that, the
// allow lines here restrict nothing. DeviceBase returns such lines. The lines
// set lxc.autodev = 1: /dev is then a tmpfs of liblxc's own, so that create=
// cannot follow a link of the image; everywhere else it could, so every other
// mount point is made by cdi-hook (Config.Hook.MountPoints).
//
// # What the hook is run as
//
//	lxc.hook.pre-start    makes the mount points; LXC_ROOTFS_PATH is the root
//	lxc.hook.start-host   links, library cache, modes; LXC_PID is the container
//	lxc.hook.post-stop    takes away mount points that are left empty
//
// each as "HookPath HookFile" and nothing else: liblxc runs hooks through a
// shell, so both may have letters, digits and "/._-" only. Instead of start-host
// lxc.hook.mount can be asked for, which liblxc runs with the container's
// environment.
//
// # What liblxc does with the lines
//
// Seen with liblxc 5.0.2, as root, on cgroup v1 and v2, privileged and idmapped:
//
//   - Device nodes are bound read-only. That does not keep anybody from writing
//     to the device, and it keeps a privileged container's root from changing
//     mode and owner of the host's own node, which it otherwise can.
//   - A target with a link anywhere in it is refused and the start fails ("was a
//     symbolic link"), even when the link stays inside the root: Options.Resolve
//     gives the real directories of the image.
//   - A missing target fails the start. "optional" would hide that and is never
//     written.
//   - Without rprivate a mount stays a slave of the host's: what the host mounts
//     below it later appears in the container.
//   - "bind" of a directory leaves out what is mounted below it. "rbind" brings
//     it, writable, whatever "ro" says; it is never written.
//   - nosuid, nodev and noexec reach a mount only together with ro: liblxc makes
//     no second mount call for a writable bind ("skipping remount"), which then
//     has the flags of the host's mount. Config.Notes names such mounts.
//   - Both device keys may stand together: each cgroup version reads its own.
//     Opening a node that is permitted and has no driver gives ENXIO, one that
//     is not EPERM.
//   - lxc.init.groups takes group ids with commas, no spaces. In a container
//     with an id map liblxc before 6.0.6 ignores the key: Config.Notes says so.
//
// 6.0.4 does the same. Version says what else is new since: 7.0.0 starts nothing
// from a configuration with a key of cgroup v1, and has lxc.environment.runtime,
// which 6 refuses.
package lxc

import (
	"fmt"
	"strings"

	"gpurig/core/hookspec"
	"gpurig/core/place"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// Options adjust Emit. The zero value suits a plan without links or mounts
// (nothing for a hook to do) on either cgroup version.
type Options struct {
	// Cgroup is "v1", "v2" or "both"; empty: "both", or "v2" from LXC 7 on.
	Cgroup string
	// IDMap is the container's; empty: none.
	IDMap []plan.IDMap
	// HostRoot is put before every source; empty on a real machine.
	HostRoot string
	// NodesDir is where Config.Make is made. It must be on a file system that is
	// not mounted nodev. Needed when the plan has nodes of the container's own.
	NodesDir string
	// HookPath is where cdi-hook is, HookFile where Config.Hook is going to be
	// written. Needed when the hook has anything to do.
	HookPath, HookFile string
	// ApplyIn is the hook in which links are made: "start-host" (empty) or "mount".
	ApplyIn string
	// Container names the container in the hook file; empty: "container".
	Container string
	// Spec is the digest of the CDI Spec (SHA-256, hex), for the hook file.
	Spec string
	// LXCVersion is that of the liblxc that reads the lines.
	LXCVersion Version
	// Resolve returns a container path with the links of its directories
	// resolved inside the image's root; the last component is kept and need not
	// exist. nil: the directories of the plan's targets are no links.
	Resolve func(path string) (string, error)
}

// A Config is a plan in liblxc's words.
type Config struct {
	Entries Entries
	Hook    hookspec.File // for Options.HookFile
	// Hooked says that Entries run cdi-hook. Where they do not, nobody takes back
	// what an earlier configuration of the container had it make: then the manager
	// runs cdi-hook --stage clean once, before the next start.
	Hooked bool
	Make   []plan.Node // nodes to be made: Path is where on the host, UID and GID are the host's
	Notes  []plan.Note // what liblxc cannot be told, and why that is no loss
}

// Text returns the lines as a file.
func (c Config) Text() string {
	if len(c.Entries) == 0 {
		return ""
	}
	return strings.Join(c.Entries.Lines(), "\n") + "\n"
}

// Why a plan cannot be written for liblxc.
const (
	ReasonOption   refuse.Reason = "bad-lxc-option"
	ReasonLine     refuse.Reason = "line-not-exact"
	ReasonLong     refuse.Reason = "line-too-long"
	ReasonResolve                = place.ReasonResolve
	ReasonConflict               = place.ReasonConflict
	ReasonUnmapped               = place.ReasonUnmapped
	ReasonHookFile               = place.ReasonHookFile
)

// What liblxc cannot be told: plan.Note.Reason.
const (
	ReasonHostFlags   refuse.Reason = "flags-of-the-host"
	ReasonGroupsNewer refuse.Reason = "groups-need-newer-lxc"
	ReasonGroupsIDMap refuse.Reason = "groups-not-with-idmap"
)

// Reasons lists them.
func Reasons() []refuse.Meaning {
	return append([]refuse.Meaning{
		{Reason: ReasonOption, Meaning: "An option of the LXC configuration cannot be used."},
		{Reason: ReasonLine, Meaning: "A line of configuration would be misread."},
		{Reason: ReasonLong, Meaning: "A line of configuration is longer than liblxc can read."},
		{Reason: ReasonHostFlags, Meaning: "A writable mount has the flags that its source has on the host."},
		{Reason: ReasonGroupsNewer, Meaning: "This version of LXC cannot set additional groups."},
		{Reason: ReasonGroupsIDMap, Meaning: "This version of LXC ignores additional groups in a container with an id map."},
	}, place.Reasons()...)
}

// Emit writes p for liblxc. It returns every refusal at once, joined, and never
// a part of a configuration. p is not changed.
func Emit(p plan.Plan, opts Options) (Config, error) {
	e := &emitter{Placer: place.Placer{IDMap: opts.IDMap, Resolve: opts.Resolve, HostRoot: opts.HostRoot}, opts: opts}
	e.options(p)
	if len(e.Refusals) == 0 {
		e.add("lxc.autodev", Text("1"))
		e.nodes(p.Nodes)
		e.mounts(p.Mounts)
		e.cgroup(p.Nodes)
		e.environment(p.Env)
		e.groups(p.Groups)
		e.hook(p)
	}
	if len(e.Refusals) > 0 {
		return Config{}, refuse.Join(e.Refusals...)
	}
	e.config.Hook = e.Hook
	return e.config, nil
}

type emitter struct {
	place.Placer
	opts       Options
	deviceKeys []string
	config     Config
}

func (e *emitter) note(edit, what string, reason refuse.Reason, format string, args ...any) {
	e.config.Notes = append(e.config.Notes, plan.Note{Edit: edit, What: what, Reason: string(reason), Detail: fmt.Sprintf(format, args...)})
}
