package translate

import (
	"gpurig/core/policy"
	"gpurig/core/refuse"
)

// Why an edit is refused.
const (
	ReasonOption    refuse.Reason = "bad-option"
	ReasonNull      refuse.Reason = "null-entry"
	ReasonTooMany   refuse.Reason = "too-many-edits"
	ReasonText      refuse.Reason = "bad-text"
	ReasonConflict  refuse.Reason = "edits-in-conflict"
	ReasonInTheWay  refuse.Reason = "path-in-the-way"
	ReasonUnmapped  refuse.Reason = "unmapped-id"
	ReasonNoAccess  refuse.Reason = "no-access"
	ReasonNodePath  refuse.Reason = "node-path"
	ReasonNodeGone  refuse.Reason = "node-missing"
	ReasonNodeType  refuse.Reason = "node-type"
	ReasonNodeNum   refuse.Reason = "node-number"
	ReasonNodePerm  refuse.Reason = "node-permissions"
	ReasonNodeMode  refuse.Reason = "node-mode"
	ReasonDriver    refuse.Reason = "driver-not-allowed"
	ReasonDriverTab refuse.Reason = "drivers-unknown"

	ReasonSource    refuse.Reason = "source-path"
	ReasonMissing   refuse.Reason = "source-missing"
	ReasonSourceBad refuse.Reason = "source-not-allowed"
	ReasonSourceRW  refuse.Reason = "source-not-writable"
	ReasonUntrusted refuse.Reason = "source-untrusted"
	ReasonSubmounts refuse.Reason = "source-has-submounts"
	ReasonTarget    refuse.Reason = "target-path"
	ReasonTargetBad refuse.Reason = "target-not-allowed"
	ReasonMountOpt  refuse.Reason = "mount-option"
	ReasonMountType refuse.Reason = "mount-type"
	ReasonNoPoint   refuse.Reason = "no-mount-point"

	ReasonHook      refuse.Reason = "unknown-hook"
	ReasonHookStage refuse.Reason = "hook-stage"
	ReasonHookFlag  refuse.Reason = "hook-flag"
	ReasonHookEnv   refuse.Reason = "hook-environment"
	ReasonLink      refuse.Reason = "link-syntax"
	ReasonLinkLoop  refuse.Reason = "link-loop"
	ReasonFolder    refuse.Reason = "library-folder"
	ReasonChmod     refuse.Reason = "chmod-path"

	ReasonEnv    refuse.Reason = "env-syntax"
	ReasonEnvBad refuse.Reason = "env-not-allowed"
	ReasonGroup  refuse.Reason = "group-not-allowed"
	// ReasonOtherGroup is noted, or refused where strict is asked for.
	ReasonOtherGroup refuse.Reason = "group-of-another-name"
	ReasonIntel      refuse.Reason = "intel-rdt"
	ReasonNetwork    refuse.Reason = "net-devices"
)

// Why an edit is noted: plan.Note.Reason. The reasons of hooks that are left
// out stand in package policy's table.
const (
	ReasonAnnotation    = "annotation"       // annotations have no effect on a container
	ReasonNeverRun      = "never-executed"   // the program of a hook is never run
	ReasonMknod         = "mknod-permission" // the container is not allowed to make nodes
	ReasonUnmappedOwner = "unmapped-owner"   // the owner is nobody inside the container
	ReasonNobodyOpens   = "no-access"        // nobody inside the container can open the node
	ReasonReadOnly      = "made-read-only"   // a mount without ro or rw is read-only
	ReasonHidden        = "hidden-by-init"   // an init that mounts over the directory hides it
	ReasonOverMount     = "link-over-mount"  // the mount at the link's path stands for the link
	ReasonSameEnd       = "same-end"         // a later link at the path leads to the same file
	ReasonNoFolder      = "no-folder"        // a library cache update that names no folder
	ReasonGroupMapped   = "group-mapped"     // the image has another number for a group of that name
	ReasonByPolicy      = policy.LeftOutByPolicy
)

// Reasons lists why edits are refused, in order of the source.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonOption, Meaning: "An option of the translation cannot be used."},
		{Reason: ReasonNull, Meaning: "A list of the Spec has an empty entry."},
		{Reason: ReasonTooMany, Meaning: "There are more edits than one container can need."},
		{Reason: ReasonText, Meaning: "A text has control characters, line breaks or bytes that are not UTF-8."},
		{Reason: ReasonConflict, Meaning: "Two edits conflict at one path."},
		{Reason: ReasonInTheWay, Meaning: "A path is below another one that is not a directory."},
		{Reason: ReasonUnmapped, Meaning: "A user or group id does not exist in the container's id map."},
		{Reason: ReasonNoAccess, Meaning: "Nobody in the container could open the node, and strict was asked for."},
		{Reason: ReasonNodePath, Meaning: "A device node's path is not a clean path below /dev, or is reserved."},
		{Reason: ReasonNodeGone, Meaning: "The host does not have the device node."},
		{Reason: ReasonNodeType, Meaning: "It is not a device, not of the type that the Spec says, or a block device that the policy does not name."},
		{Reason: ReasonNodeNum, Meaning: "The device number in the Spec is invalid or differs from that of the host's node."},
		{Reason: ReasonNodePerm, Meaning: "Permissions are not a set of r, w and m."},
		{Reason: ReasonNodeMode, Meaning: "A mode has bits other than permissions."},
		{Reason: ReasonDriver, Meaning: "The device belongs to a driver that containers may not use."},
		{Reason: ReasonDriverTab, Meaning: "The driver of a device cannot be determined."},
		{Reason: ReasonSource, Meaning: "The host path of a mount is not absolute and clean, or is neither file, directory nor socket."},
		{Reason: ReasonMissing, Meaning: "Files that the Spec mounts do not exist on the host."},
		{Reason: ReasonSourceBad, Meaning: "The host path is not one that containers may be given."},
		{Reason: ReasonSourceRW, Meaning: "The host path may be mounted, but not for writing."},
		{Reason: ReasonUntrusted, Meaning: "Users other than root can change the host path."},
		{Reason: ReasonSubmounts, Meaning: "Something is mounted below the host directory, and would be writable."},
		{Reason: ReasonTarget, Meaning: "The container path is not absolute and clean."},
		{Reason: ReasonTargetBad, Meaning: "The container path is one that a device must not replace."},
		{Reason: ReasonMountOpt, Meaning: "A mount option is not allowed, or contradicts another."},
		{Reason: ReasonMountType, Meaning: "The mount is neither a bind mount nor a tmpfs that the policy names."},
		{Reason: ReasonNoPoint, Meaning: "A mount is inside another one that has nothing at that path."},
		{Reason: ReasonHook, Meaning: "The hook is not known."},
		{Reason: ReasonHookStage, Meaning: "The hook belongs to a stage that a system container does not have."},
		{Reason: ReasonHookFlag, Meaning: "The hook's arguments are invalid."},
		{Reason: ReasonHookEnv, Meaning: "The hook's environment has a variable that is not allowed."},
		{Reason: ReasonLink, Meaning: "A link is not written as target::link with a clean, absolute link."},
		{Reason: ReasonLinkLoop, Meaning: "A link leads back to itself."},
		{Reason: ReasonFolder, Meaning: "A library folder cannot be written in the loader's configuration."},
		{Reason: ReasonChmod, Meaning: "A mode would be changed outside /dev."},
		{Reason: ReasonEnv, Meaning: "An environment entry is not NAME=value."},
		{Reason: ReasonEnvBad, Meaning: "The environment variable is not one that a device may set."},
		{Reason: ReasonGroup, Meaning: "The additional group is root's, or not a valid group."},
		{Reason: ReasonOtherGroup, Meaning: "The number of a group of the host's means another group in the image, and strict was asked for."},
		{Reason: ReasonIntel, Meaning: "Intel RDT has no counterpart in a system container."},
		{Reason: ReasonNetwork, Meaning: "A system container gets network devices from its own configuration."},
	}
}

// NoteReasons lists why edits are noted.
func NoteReasons() []refuse.Meaning {
	notes := []refuse.Meaning{
		{Reason: ReasonSameEnd, Meaning: "A later link at the same path leads to the same file."},
		{Reason: ReasonAnnotation, Meaning: "Annotations have no effect on a container."},
		{Reason: ReasonNeverRun, Meaning: "The work of hooks is done without running their programs."},
		{Reason: ReasonMknod, Meaning: "The container may use device nodes, but not create any."},
		{Reason: ReasonUnmappedOwner, Meaning: "The node's owner on the host does not exist in the container."},
		{Reason: ReasonGroupMapped, Meaning: "A group of the host's has another number in the image, which is used."},
		{Reason: ReasonNobodyOpens, Meaning: "Nobody in the container can open the node."},
		{Reason: ReasonReadOnly, Meaning: "A mount that says neither ro nor rw is made read-only."},
		{Reason: ReasonHidden, Meaning: "The container's init may mount over the directory and hide it."},
		{Reason: ReasonOverMount, Meaning: "A mount at the link's path replaces the link."},
		{Reason: ReasonNoFolder, Meaning: "A library cache update names no folder."},
		{Reason: ReasonByPolicy, Meaning: "The policy of this host leaves the hook out."},
	}
	for _, r := range policy.Table() {
		if r.Reason != "" {
			notes = append(notes, refuse.Meaning{Reason: refuse.Reason(r.Reason), Meaning: "Hook " + r.Match + ": " + r.Why + "."})
		}
	}
	return notes
}
