// Package oci writes a plan as edits to the configuration of an OCI runtime:
// mounts, linux.devices, device rules, environment, additional groups, and hooks
// that run cdi-hook.
//
// # What the edits need of the rest
//
// The configuration that they are applied to denies all devices first
// (linux.resources.devices: allow false, access rwm) and has a tmpfs on /dev;
// engines write both. What the host keeps is Edits.Hook, for Options.HookFile.
//
// # What the hook is run as
//
//	createContainer  links, library cache, modes, in the container's namespaces
//	poststop         takes away mount points that are left empty
//
// each as "cdi-hook --oci HookFile"; the state on standard input says which of the
// two it is. Runtimes make missing mount points themselves, links of the image
// resolved inside its root, and leave them there for ever. A manager that wants
// them taken away, and links of an earlier driver with them, runs cdi-hook --stage
// prepare before each start: no hook of a runtime comes before the mounts.
//
// # What runtimes do with the edits
//
// Seen with runc 1.1.5 and crun 1.8.1, as root, on cgroup v1 and v2:
//
//   - linux.devices are made with mknod, in the container's own /dev, with mode
//     and owner as written. In a user namespace nothing can be made: the runtime
//     binds the host's node of the same path, whose owner has no id there. So a
//     container with an id map gets its nodes as mounts, read-only as for LXC.
//   - ro, nosuid, nodev and noexec reach every bind mount that asks for them.
//   - additionalGids are set with and without a user namespace.
//   - Opening a node that is permitted and has no driver gives ENXIO, one that is
//     not EPERM, on both cgroup versions.
//
// Reference: https://github.com/opencontainers/runtime-spec/blob/v1.2.1/config-linux.md
package oci

import (
	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/hookspec"
	"gpurig/core/place"
	"gpurig/core/plan"
	"gpurig/core/refuse"
)

// Options adjust Emit. The zero value suits a plan without links or mounts.
type Options struct {
	// IDMap is the container's; empty: none.
	IDMap []plan.IDMap
	// HostRoot is put before every source; empty on a real machine.
	HostRoot string
	// NodesDir is where Edits.Make is made. It must be on a file system that is
	// not mounted nodev. Needed when a container with an id map has nodes of its own.
	NodesDir string
	// HookPath is where cdi-hook is, HookFile where Edits.Hook is going to be
	// written. Needed when the hook has anything to do.
	HookPath, HookFile string
	// Container names the container in the hook file; empty: "container".
	Container string
	// Spec is the digest of the CDI Spec (SHA-256, hex), for the hook file.
	Spec string
	// Resolve returns a container path with the links of its directories
	// resolved inside the image's root; the last component is kept and need not
	// exist. nil: the directories of the plan's targets are no links.
	Resolve func(path string) (string, error)
}

// Edits are a plan in the words of config.json.
type Edits struct {
	Mounts  []rspec.Mount
	Devices []rspec.LinuxDevice
	Rules   []rspec.LinuxDeviceCgroup
	Env     []string
	Groups  []uint32
	Hooks   *rspec.Hooks // nil: none

	Hook hookspec.File // for Options.HookFile
	Make []plan.Node   // nodes to be made: Path is where on the host, UID and GID are the host's
}

// Why a plan cannot be written for an OCI runtime. What is wrong for liblxc in
// the same way has the same word there.
const (
	ReasonOption   refuse.Reason = "bad-oci-option"
	ReasonEdit     refuse.Reason = "edit-not-exact"
	ReasonResolve                = place.ReasonResolve
	ReasonConflict               = place.ReasonConflict
	ReasonUnmapped               = place.ReasonUnmapped
	ReasonHookFile               = place.ReasonHookFile
)

// Reasons lists those that no other emitter has.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonOption, Meaning: "An option of the OCI configuration cannot be used."},
		{Reason: ReasonEdit, Meaning: "An edit of the OCI configuration would be misread."},
	}
}

// Emit writes p for an OCI runtime. It returns every refusal at once, joined,
// and never a part of the edits. p is not changed.
func Emit(p plan.Plan, opts Options) (Edits, error) {
	e := &emitter{Placer: place.Placer{IDMap: opts.IDMap, Resolve: opts.Resolve, HostRoot: opts.HostRoot}, opts: opts}
	e.options(p)
	if len(e.Refusals) == 0 {
		e.nodes(p.Nodes)
		e.mounts(p.Mounts)
		e.rules(p.Nodes)
		e.environment(p.Env)
		e.edits.Groups = append([]uint32(nil), p.Groups...)
		e.hook(p)
	}
	if len(e.Refusals) > 0 {
		return Edits{}, refuse.Join(e.Refusals...)
	}
	e.edits.Hook = e.Hook
	return e.edits, nil
}

type emitter struct {
	place.Placer
	opts  Options
	edits Edits
}
