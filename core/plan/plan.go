// Package plan has the typed plan: everything to be done to one container, and
// which parts of a CDI Spec are not carried out, with the reason.
//
// It makes no decisions and changes nothing. Package translate makes plans, the
// emitters (lxc, lxd, …) write them as configuration of a container manager, and
// package hookspec holds the part that is done inside the root file system.
package plan

import (
	"io/fs"

	"gpurig/core/device"
)

// A Plan is what one container gets. All paths are absolute and clean; Target
// and Path are inside the container, Source is on the host.
//
// Nodes, Links, LibraryDirs and Env are ordered by path or name; Mounts by
// depth and then path, so that a mount never hides an earlier one.
type Plan struct {
	Devices     []string `json:"devices"` // what it was made for: qualified CDI names, or "gpu 0000:65:00.0"
	Nodes       []Node   `json:"nodes,omitempty"`
	Mounts      []Mount  `json:"mounts,omitempty"`
	Links       []Link   `json:"links,omitempty"`
	LibraryDirs []string `json:"libraryDirs,omitempty"` // folders that the container's loader shall search
	Modes       []Mode   `json:"modes,omitempty"`
	Env         []Var    `json:"env,omitempty"`
	Groups      []uint32 `json:"groups,omitempty"` // additional group ids of the first process, sorted
	Notes       []Note   `json:"notes,omitempty"`  // edits that are not carried out, or not quite as written, and why

	LibraryOwners []Owners `json:"libraryOwners,omitempty"` // of each of LibraryDirs, at the same position
	GroupOwners   []Owners `json:"groupOwners,omitempty"`   // of each of Groups, at the same position

	// Strict: the container shall not start where its loader loads another file than
	// the one that Mounts have for a library.
	Strict bool `json:"strict,omitempty"`
}

// Owners are the devices that an entry belongs to, sorted: an entry that two
// devices share stays until the last of them leaves.
type Owners []string

// A Node is a device node that the container gets.
type Node struct {
	Path        string      `json:"path"`
	Source      string      `json:"source"` // the host's node
	Type        device.Type `json:"type"`
	Num         device.Num  `json:"number"`
	Mode        fs.FileMode `json:"mode"` // permission bits wanted inside the container
	UID         uint32      `json:"uid"`  // as the container sees it
	GID         uint32      `json:"gid"`
	Permissions string      `json:"permissions"` // what the device cgroup shall allow: "rw", "r", "w", or empty for nothing
	Own         bool        `json:"own"`         // mode or owner differ from the host's node: a node of the container's own must be made
	Owners      Owners      `json:"owners"`
}

// A Mount is a bind mount of a host path, or a new tmpfs. Dir says whether source
// and target are directories; otherwise both are files (or sockets).
type Mount struct {
	Type    string   `json:"type,omitempty"` // "tmpfs", whose Source is that word; empty: a bind mount
	Source  string   `json:"source"`
	Target  string   `json:"target"`
	Dir     bool     `json:"dir,omitempty"`
	Options []string `json:"options"` // of the closed list in package translate, without duplicates, in order; of a tmpfs its size and mode too
	Owners  Owners   `json:"owners"`
}

// A Link is a symbolic link inside the container. Target is relative to the
// directory of Path.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Owners Owners `json:"owners"`
}

// A Mode is a change of permission bits inside the container.
type Mode struct {
	Path   string      `json:"path"`
	Mode   fs.FileMode `json:"mode"`
	Owners Owners      `json:"owners"`
}

// A Var is one environment variable.
type Var struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Owners Owners `json:"owners"`
}

// A Note says that one edit of the Spec is not carried out, and why that is
// right. What would be wrong to leave out is refused instead.
type Note struct {
	Device string `json:"device,omitempty"` // qualified CDI name; empty for Spec-wide edits
	Edit   string `json:"edit"`             // position in the CDI Spec: "hooks[3]"
	What   string `json:"what"`             // the edit in a few words: `hook "enable-cuda-compat"`
	Reason string `json:"reason"`           // a stable word of package translate: "needs-image-libraries"
	Detail string `json:"detail"`           // one sentence for a person
	Done   bool   `json:"done,omitempty"`   // the edit is carried out all the same: the note is a warning about how
}

// An IDMap maps a range of container ids to host ids, as lxc.idmap does.
type IDMap struct {
	Container uint32 `json:"container"`
	Host      uint32 `json:"host"`
	Count     uint32 `json:"count"`
}
