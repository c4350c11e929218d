package observe

import (
	"syscall"

	"gpurig/core/host"
)

// A View is what Look looks through: one container, as its first process sees
// it. All paths are absolute, inside the container.
//
// It is a host.Root, so that links are followed there as here: a link in the
// last component is not followed by Lstat and Readlink, links in directories
// are, inside the container.
type View interface {
	host.Root

	// Head returns at most the first n bytes of a file: driver libraries are
	// too big to read whole. It follows links.
	Head(path string, n int) ([]byte, error)
	// OpenNode opens a device node for reading, and for writing too if asked,
	// without waiting, and closes it at once. 0 is success.
	OpenNode(path string, write bool) syscall.Errno
	// Mounts returns the mount table in the kernel's order.
	Mounts() ([]MountLine, error)
	// Environ returns "NAME=value" texts, Groups the supplementary group ids.
	Environ() ([]string, error)
	Groups() ([]uint32, error)
}

// A MountLine is what this package needs of one line of mountinfo.
type MountLine struct {
	Root    string // of its file system, that is mounted there; empty: not known
	Target  string
	Type    string   // file system type: "tmpfs", "ext4"
	Options []string // of the mount, not of its file system: "ro", "nosuid", "relatime"
}
