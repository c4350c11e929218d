// Package hookspec is the versioned hook file, which tells cdi-hook what to do
// inside the root file system of one container.
//
// It reads, writes and checks the file; package hook carries it out.
package hookspec

import (
	"fmt"
	"io/fs"
)

// Version is the version this package writes, and the only one it reads.
const Version = 1

// A File is everything that the hook does for one container. Paths are absolute
// and clean, inside the container.
type File struct {
	Version     int          `json:"version"`
	Container   string       `json:"container"`      // the container's name, letters, digits, ".", "_", "-"
	Spec        string       `json:"spec,omitempty"` // SHA-256 of the CDI Spec, hex
	Owner       Owner        `json:"owner"`          // who owns what the hook makes: the container's root, as the host numbers it
	MountPoints []MountPoint `json:"mountPoints,omitempty"`
	Links       []Link       `json:"links,omitempty"`
	LibraryDirs []string     `json:"libraryDirs,omitempty"`
	Modes       []Mode       `json:"modes,omitempty"`
	// Strict refuses the start where it would otherwise be warned of something.
	Strict bool `json:"strict,omitempty"`
}

// CheckContainer refuses the file for a container of another name: what it makes,
// and its journal, are one container's.
func (f File) CheckContainer(name string) error {
	if name != f.Container {
		return fmt.Errorf("is for container %q, and this is %q", f.Container, name)
	}
	return nil
}

// An Owner is a user and group id of the host.
type Owner struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// A MountPoint is made before the container starts, so that the container
// manager need not make it (LXC's own create= follows links of the image).
type MountPoint struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	// Source is what the plan mounts there, as the hook sees the host; empty: nothing
	// of the host's. The hook reads through a mount only where it finds that very
	// file or directory.
	Source string `json:"source,omitempty"`
	// Nested says that the mount point is in another mount of the plan, and so is
	// not to be made.
	Nested bool `json:"nested,omitempty"`
}

// A Link is a symbolic link; Target is relative to the directory of Path.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// A Mode is a change of permission bits, within 0777, below /dev.
type Mode struct {
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode"`
}
