// Package observe describes what a container sees: device nodes and whether they
// open, mounts, links, libraries by SONAME, environment, groups.
//
// Look makes an Observation through a View. The probe, which runs inside a real
// container, has a View of the real file system; the simulation has a View of its
// own. So both make the same Observations, which package verdict judges alike.
package observe

import (
	"io/fs"

	"gpurig/core/device"
)

// An Observation is what was seen. Slices are ordered by path or name.
type Observation struct {
	Nodes     []Node    `json:"nodes,omitempty"`
	Mounts    []Mount   `json:"mounts,omitempty"`
	Links     []Link    `json:"links,omitempty"`
	Files     []File    `json:"files,omitempty"` // what is at Request.Paths and is neither node nor link
	Libraries []Library `json:"libraries,omitempty"`
	Env       []string  `json:"env,omitempty"` // "NAME=value", sorted; without those that every container has
	Groups    []uint32  `json:"groups,omitempty"`
	Contents  []Content `json:"contents,omitempty"`
	Found     []Found   `json:"found,omitempty"`
	Smoke     *Smoke    `json:"smoke,omitempty"` // nil: not asked for
	// Functions are what a virtual machine has below its root ports, by port.
	Functions []GuestFunction `json:"functions,omitempty"`
	Problems  []string        `json:"problems,omitempty"` // what could not be looked at, and why; none: the observation is complete
}

// An Access is what came of opening a device node.
type Access string

// The answers of open(2), and what they mean. A node whose driver is absent
// opens with ENXIO when the device cgroup permits it.
const (
	Allowed Access = "allowed" // opened, or ENXIO, or ENODEV
	Denied  Access = "denied"  // EPERM: the device cgroup forbids it
	NoMode  Access = "no-mode" // EACCES: owner and mode forbid it
	Nodev   Access = "nodev"   // EACCES as root: the mount has nodev
)

// A Node is a device node below /dev that not every container has.
type Node struct {
	Path string      `json:"path"`
	Type device.Type `json:"type"`
	Num  device.Num  `json:"number"`
	Mode fs.FileMode `json:"mode"`
	UID  uint32      `json:"uid"` // as the container sees it
	GID  uint32      `json:"gid"`
	Open Access      `json:"open"` // by the container's first process: for reading, and for writing where Mode has a write bit
}

// A Mount is one line of mountinfo that the plan, or something else, added to a
// bare container. The source is named by what it shows, not by host path.
type Mount struct {
	Target  string   `json:"target"`
	Type    string   `json:"type"`    // "file", "dir", "socket", "char", "block"
	Options []string `json:"options"` // of ro, rw, nosuid, nodev, noexec; sorted
}

// A Link is a symbolic link in one of the places that were looked at.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`          // its text
	Final  string `json:"final,omitempty"` // where it ends inside the container; empty: dangling
}

// A File is a regular file, directory or socket.
type File struct {
	Path string      `json:"path"`
	Type string      `json:"type"` // "file", "dir", "socket", "fifo", "absent"
	Size int64       `json:"size"`
	Mode fs.FileMode `json:"mode"`
	UID  uint32      `json:"uid"`
	GID  uint32      `json:"gid"`
}

// A Content is the text of one file, links followed.
type Content struct {
	Path string `json:"path"`
	Text string `json:"text"`
	// Problem says why it has none: "no such file", "cannot be read".
	Problem string `json:"problem,omitempty"`
}

// A Found is a place where one of Request.Texts is.
type Found struct {
	Text string `json:"text"`
	Path string `json:"path"` // of a file that has it, or of a link whose text does
}

// A Library is what the container's own loader finds for one SONAME.
type Library struct {
	SONAME string `json:"soname"`
	Path   string `json:"path,omitempty"`  // as the loader would open it; empty: not found
	Final  string `json:"final,omitempty"` // after links: ".../libcuda.so.550.163.01"
	Via    string `json:"via,omitempty"`   // a Rule of package ldcache: "ld.so.cache"
	// Origin says which file it is: the host's path, without links, of the one that is
	// mounted there, or Image; empty: nobody can tell.
	Origin string `json:"origin,omitempty"`
	// ID stands for Origin between an Identifier and Identify, and is zero behind.
	ID FileID `json:"id,omitzero"`
	// Problem says why a library that has a Path could not be loaded ("file too
	// short"), or why none was looked for ("no loader").
	Problem string `json:"problem,omitempty"`
}

// A Program is one that is run in a container.
type Program struct {
	Command []string `json:"command"`         // by absolute path, and arguments
	State   string   `json:"state,omitempty"` // of the fake host, for its libraries; empty: they look for it themselves
}

// A Ran is what came of a program that was run in a container.
type Ran struct {
	Code   int    `json:"code"`   // exit status; 128 and the number of the signal that ended it
	Output string `json:"output"` // both streams, the first 64 KiB
}

// A Request says where to look. The zero Request looks at nodes, mounts,
// environment and groups only.
type Request struct {
	Dirs     []string `json:"dirs,omitempty"`     // folders whose links are listed, not below
	Paths    []string `json:"paths,omitempty"`    // single paths
	Contents []string `json:"contents,omitempty"` // single paths, links followed, whose files are read
	SONAMEs  []string `json:"sonames,omitempty"`  // libraries to resolve
	Level    int      `json:"level,omitempty"`    // of the x86-64 processor that they are resolved for: ldcache.Options
	Texts    []string `json:"texts,omitempty"`    // looked for in every file and link, but those of the kernel's file systems
	Smoke    *Work    `json:"smoke,omitempty"`    // nil: the smoke workload does not run
	// Manager is the container manager, "lxd", "incus", Docker or Podman, whose own additions
	// to every container are left out; empty: liblxc or an OCI runtime alone.
	Manager string `json:"manager,omitempty"`
}
