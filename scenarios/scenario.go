// Package scenarios has the scenario files, by area, their types, and Load.
//
// A scenario names a host, changes to it, containers with GPU devices, steps,
// and what is expected. Each file tests one idea; its first comment is a sentence
// that is true if it passes. Package runner runs scenarios.
package scenarios

import (
	"maps"

	"gpurig/core/policy"
	"gpurig/core/strictdoc"
	"time"
)

// A Scenario is one file. Names are paths below the scenarios folder without
// ".yaml": "mig/one-of-two".
type Scenario struct {
	Name  string `yaml:"-" json:"name"`
	File  string `yaml:"-" json:"file"`
	Title string `yaml:"-" json:"title"` // the first comment
	// Lines are where the values of the file stand in it, by path: "expect.c1.nodes".
	Lines map[strictdoc.Path]int `yaml:"-" json:"-"`

	Host       string               `yaml:"host" json:"host"`                           // profile name, or a path to a profile or capture file
	Needs      *Needs               `yaml:"needs,omitempty" json:"needs,omitempty"`     // what the host must have; with it the scenario runs on the machine at hand too
	Driver     string               `yaml:"driver,omitempty" json:"driver,omitempty"`   // driver version or branch in place of the profile's: "550"
	Changes    []Change             `yaml:"changes,omitempty" json:"changes,omitempty"` // to the host, before the first step
	Faults     []string             `yaml:"faults,omitempty" json:"faults,omitempty"`   // what is broken on the host, before the first step: "off-bus:0"
	Policy     policy.Policy        `yaml:"policy,omitempty" json:"policy,omitzero"`    // what the host's policy file allows: {drivers: [vfio]}
	Specs      map[string]string    `yaml:"specs,omitempty" json:"specs,omitempty"`     // CDI Spec files put on the host, by absolute path: "/etc/cdi/vendor.yaml"
	Labels     []string             `yaml:"labels,omitempty" json:"labels,omitempty"`
	Bug        string               `yaml:"bug,omitempty" json:"bug,omitempty"`         // the reported bug that it keeps fixed: "usrmerge-self-link"
	Twin       string               `yaml:"twin,omitempty" json:"twin,omitempty"`       // the scenario that this one is the negative twin of
	Targets    []string             `yaml:"targets,omitempty" json:"targets,omitempty"` // where it can run; empty: everywhere
	Timeout    string               `yaml:"timeout,omitempty" json:"timeout,omitempty"` // that it may take on one target, in place of the run's: "5m"
	Native     string               `yaml:"native,omitempty" json:"native,omitempty"`   // "agrees": where the manager passes GPUs itself, it must do as the plan has it
	Matrix     Matrix               `yaml:"matrix,omitempty" json:"matrix,omitzero"`
	Containers map[string]Container `yaml:"containers" json:"containers"`
	Steps      []Step               `yaml:"steps,omitempty" json:"steps,omitempty"`   // none: start every container, by name
	Expect     map[string]Expect    `yaml:"expect,omitempty" json:"expect,omitempty"` // by container, judged after the last step
}

// Limit is the time that the scenario may take on one target; zero: the run says.
func (s *Scenario) Limit() time.Duration {
	d, _ := time.ParseDuration(s.Timeout) // which is checked
	return d
}

// A Matrix expands one file to the product of its lists. An empty list is not
// a dimension.
type Matrix struct {
	Host   []string `yaml:"host,omitempty" json:"host,omitempty"`
	Driver []string `yaml:"driver,omitempty" json:"driver,omitempty"`
	Cgroup []string `yaml:"cgroup,omitempty" json:"cgroup,omitempty"` // "v1", "v2"
	IDMap  []string `yaml:"idmap,omitempty" json:"idmap,omitempty"`   // "none" (privileged), "default" (0 to 100000, 65536 ids)
	Image  []string `yaml:"image,omitempty" json:"image,omitempty"`
}

// DefaultImage is that of a container which names none.
const DefaultImage = "glibc"

// A Container is what the scenario starts.
type Container struct {
	Image   string            `yaml:"image,omitempty" json:"image,omitempty"`    // "glibc" (default), "glibc-unmerged", "musl", "none", …
	Content Content           `yaml:"content,omitempty" json:"content,omitzero"` // of its root, on top of the image
	Cgroup  string            `yaml:"cgroup,omitempty" json:"cgroup,omitempty"`
	IDMap   string            `yaml:"idmap,omitempty" json:"idmap,omitempty"`
	Nesting bool              `yaml:"nesting,omitempty" json:"nesting,omitempty"` // it may have containers of its own: LXD's security.nesting
	Strict  bool              `yaml:"strict,omitempty" json:"strict,omitempty"`
	Groups  string            `yaml:"groups,omitempty" json:"groups,omitempty" words:"by-number by-name"` // how groups of the host's become the image's; empty: by-number
	VM      bool              `yaml:"vm,omitempty" json:"vm,omitempty"`                                   // a virtual machine
	Devices map[string]Device `yaml:"devices" json:"devices"`
	// Config is of the instance: LXD's keys nvidia.*. Profiles are those of its
	// profiles, in the order in which they are applied.
	Config   map[string]string   `yaml:"config,omitempty" json:"config,omitempty"`
	Profiles []map[string]string `yaml:"profiles,omitempty" json:"profiles,omitempty"`
}

// Expanded is the configuration of the instance with that of its profiles.
func (c Container) Expanded() map[string]string {
	out := map[string]string{}
	for _, m := range c.Profiles {
		maps.Copy(out, m)
	}
	maps.Copy(out, c.Config)
	return out
}

// A Device is the options of one GPU device, as LXD names them. Values are
// texts, as a user would give them, so that wrong ones can be written.
type Device struct {
	GPUType   string `yaml:"gputype,omitempty" json:"gputype,omitempty"`
	ID        string `yaml:"id,omitempty" json:"id,omitempty"`
	PCI       string `yaml:"pci,omitempty" json:"pci,omitempty"`
	VendorID  string `yaml:"vendorid,omitempty" json:"vendorid,omitempty"`
	ProductID string `yaml:"productid,omitempty" json:"productid,omitempty"`
	MIGGI     string `yaml:"mig.gi,omitempty" json:"mig.gi,omitempty"`
	MIGCI     string `yaml:"mig.ci,omitempty" json:"mig.ci,omitempty"`
	MIGUUID   string `yaml:"mig.uuid,omitempty" json:"mig.uuid,omitempty"`
	MDev      string `yaml:"mdev,omitempty" json:"mdev,omitempty"`
	UID       string `yaml:"uid,omitempty" json:"uid,omitempty"`
	GID       string `yaml:"gid,omitempty" json:"gid,omitempty"`
	Mode      string `yaml:"mode,omitempty" json:"mode,omitempty"`
}

// A Change is one change to a host. Exactly one field is set.
type Change struct {
	Driver       string            `yaml:"driver,omitempty" json:"driver,omitempty"`               // upgrade or downgrade, kernel and user space
	DriverUser   string            `yaml:"driver-user,omitempty" json:"driver-user,omitempty"`     // user space only: a half-finished upgrade
	Unload       bool              `yaml:"unload,omitempty" json:"unload,omitempty"`               // the NVIDIA modules are gone, nodes too
	Majors       map[string]uint32 `yaml:"majors,omitempty" json:"majors,omitempty"`               // new dynamic majors, nodes follow: {nvidia-uvm: 511}
	Drivers      map[string]uint32 `yaml:"drivers,omitempty" json:"drivers,omitempty"`             // character drivers that register: {gdrdrv: 241}
	BlockDrivers map[string]uint32 `yaml:"block-drivers,omitempty" json:"block-drivers,omitempty"` // block drivers that register
	MIG          *MIGChange        `yaml:"mig,omitempty" json:"mig,omitempty"`                     // re-partition
	RemoveNodes  []string          `yaml:"remove-nodes,omitempty" json:"remove-nodes,omitempty"`
	Nodes        []NodeChange      `yaml:"nodes,omitempty" json:"nodes,omitempty"`           // owner, mode or number of nodes
	Remove       []string          `yaml:"remove,omitempty" json:"remove,omitempty"`         // paths
	Files        map[string]string `yaml:"files,omitempty" json:"files,omitempty"`           // contents by path
	Links        map[string]string `yaml:"links,omitempty" json:"links,omitempty"`           // targets by path
	Modes        map[string]string `yaml:"modes,omitempty" json:"modes,omitempty"`           // of files and folders, octal, by path; nodes have nodes
	RemoveGPU    *int              `yaml:"remove-gpu,omitempty" json:"remove-gpu,omitempty"` // by NVML index: gone from PCI
	Minors       map[int]int       `yaml:"minors,omitempty" json:"minors,omitempty"`         // NVIDIA minor by NVML index
	Write        map[string]string `yaml:"write,omitempty" json:"write,omitempty"`           // what a program of the host writes to one attribute of sysfs, by path
}

// A MIGChange gives one GPU, by NVML index, a new geometry. Profiles as
// nvidia-smi names them; none: enabled and empty; Off: MIG mode off.
type MIGChange struct {
	GPU      int      `yaml:"gpu" json:"gpu"`
	Profiles []string `yaml:"profiles,omitempty" json:"profiles,omitempty"`
	Off      bool     `yaml:"off,omitempty" json:"off,omitempty"`
}

// A NodeChange changes one node, or makes it.
type NodeChange struct {
	Path   string  `yaml:"path" json:"path"`
	Type   string  `yaml:"type,omitempty" json:"type,omitempty"`     // "c" (default) or "b"
	Number string  `yaml:"number,omitempty" json:"number,omitempty"` // "195:0"
	Mode   string  `yaml:"mode,omitempty" json:"mode,omitempty"`     // octal, "0660"
	UID    *uint32 `yaml:"uid,omitempty" json:"uid,omitempty"`
	GID    *uint32 `yaml:"gid,omitempty" json:"gid,omitempty"`
}

// A Step is one thing that happens. Exactly one field is set.
type Step struct {
	Start         string            `yaml:"start,omitempty" json:"start,omitempty"`
	Stop          string            `yaml:"stop,omitempty" json:"stop,omitempty"`
	Restart       string            `yaml:"restart,omitempty" json:"restart,omitempty"`
	Plug          *Plug             `yaml:"plug,omitempty" json:"plug,omitempty"`                     // into a running container
	Unplug        *Plug             `yaml:"unplug,omitempty" json:"unplug,omitempty"`                 // from a running container
	Reboot        bool              `yaml:"reboot,omitempty" json:"reboot,omitempty"`                 // the host: containers down, /run and lazily made nodes gone
	Crash         bool              `yaml:"crash,omitempty" json:"crash,omitempty"`                   // power loss: as reboot, but no clean-up of containers ran
	RestartDaemon bool              `yaml:"restart-daemon,omitempty" json:"restart-daemon,omitempty"` // the container manager's, while containers run
	Ldconfig      string            `yaml:"ldconfig,omitempty" json:"ldconfig,omitempty"`             // the running container's own runs in it, as when a package is installed
	Run           *Run              `yaml:"run,omitempty" json:"run,omitempty"`                       // a program, judged here
	Change        *Change           `yaml:"change,omitempty" json:"change,omitempty"`                 // to the host, while it runs
	Fault         string            `yaml:"fault,omitempty" json:"fault,omitempty"`                   // something breaks on the host: "off-bus:0"
	Heal          string            `yaml:"heal,omitempty" json:"heal,omitempty"`                     // and is well again
	Expect        map[string]Expect `yaml:"expect,omitempty" json:"expect,omitempty"`                 // judged here
}

// A Run is a program that runs to its end, on the host or in a running container.
type Run struct {
	In      string   `yaml:"in,omitempty" json:"in,omitempty"`         // container; empty: the host
	Nested  bool     `yaml:"nested,omitempty" json:"nested,omitempty"` // in a container of that container's own
	Program []string `yaml:"program" json:"program"`                   // by its path, and arguments
	Exit    int      `yaml:"exit,omitempty" json:"exit,omitempty"`     // how it has to end
	Says    []string `yaml:"says,omitempty" json:"says,omitempty"`     // texts that its output must have
	Omits   []string `yaml:"omits,omitempty" json:"omits,omitempty"`   // texts that it must not have
}

// A Plug names a device of a container; in "plug" Device gives its options.
type Plug struct {
	Container string `yaml:"container" json:"container"`
	Name      string `yaml:"name" json:"name"`
	Device    Device `yaml:"device,omitempty" json:"device,omitzero"`
}

// An Expect is what shall be true of one container. Absent parts are not
// judged, except that a scenario which expects no refusal fails on one.
type Expect struct {
	// Refused: the last start or plug of this container was refused, for this
	// reason: a word of the product's list (`gpurig explain --reasons` prints it).
	Refused string `yaml:"refused,omitempty" json:"refused,omitempty"`
	// Says are texts that the refusal (or a warning) must have.
	Says []string `yaml:"says,omitempty" json:"says,omitempty"`
	// Warns are reasons of warnings that must have been given.
	Warns []string `yaml:"warns,omitempty" json:"warns,omitempty"`
	// Noted are edits reported as not applied, by reason.
	Noted []string `yaml:"noted,omitempty" json:"noted,omitempty"`

	// Spec is what the CDI Spec that was made or read must offer.
	Spec SpecExpect `yaml:"spec,omitempty" json:"spec,omitzero"`
	// SameAs names another container that must see exactly the same.
	SameAs string `yaml:"same-as,omitempty" json:"same-as,omitempty"`

	// What the container sees.
	Nodes     map[string]NodeExpect `yaml:"nodes,omitempty" json:"nodes,omitempty"`
	OnlyNodes []string              `yaml:"only-nodes,omitempty" json:"only-nodes,omitempty"` // exactly these, patterns allowed
	Absent    []string              `yaml:"absent,omitempty" json:"absent,omitempty"`         // nothing there, patterns allowed
	Links     map[string]string     `yaml:"links,omitempty" json:"links,omitempty"`           // text of the link
	Resolves  map[string]string     `yaml:"resolves,omitempty" json:"resolves,omitempty"`     // where a path ends
	Mounts    map[string]string     `yaml:"mounts,omitempty" json:"mounts,omitempty"`         // options that must be on, "ro,nosuid,nodev"; "" for any
	Library   map[string]string     `yaml:"library,omitempty" json:"library,omitempty"`       // SONAME to the file that loads: the host's, by version, the end of its name, or branch; "host": any of the host; "image": the image's own; "none": not found
	Files     map[string]string     `yaml:"files,omitempty" json:"files,omitempty"`           // "file" (not empty), "empty", "dir", "socket", "fifo"
	Contents  map[string]string     `yaml:"contents,omitempty" json:"contents,omitempty"`     // exact text of files, by path
	Nowhere   []string              `yaml:"nowhere,omitempty" json:"nowhere,omitempty"`       // texts that are in no file or link that the container's root can read, and in no message
	Env       map[string]string     `yaml:"env,omitempty" json:"env,omitempty"`
	Groups    []uint32              `yaml:"groups,omitempty" json:"groups,omitempty"`
	Running   *bool                 `yaml:"running,omitempty" json:"running,omitempty"`

	// Smoke is what the smoke workload, gpurig-smoke, says in it.
	Smoke *SmokeExpect `yaml:"smoke,omitempty" json:"smoke,omitempty"`

	// What is planned.
	Plan PlanExpect `yaml:"plan,omitempty" json:"plan,omitzero"`

	// Host is what shall be true of the host then, whether or not the container runs.
	Host HostExpect `yaml:"host,omitempty" json:"host,omitzero"`
}

// A HostExpect is what shall be true of a host, as its files say.
type HostExpect struct {
	// Unchanged: drivers, overrides, virtual functions, vGPUs and nodes are as before
	// the first step.
	Unchanged bool                      `yaml:"unchanged,omitempty" json:"unchanged,omitempty"`
	Functions map[string]FunctionExpect `yaml:"functions,omitempty" json:"functions,omitempty"` // by address: "0000:41:00.0"
	MDevs     map[string]MDevExpect     `yaml:"mdevs,omitempty" json:"mdevs,omitempty"`         // by type: "nvidia-468"
}

// A FunctionExpect is what shall be true of one PCI function; empty fields are not
// judged.
type FunctionExpect struct {
	Driver   string `yaml:"driver,omitempty" json:"driver,omitempty"`     // that it is bound to; "none", or "absent": there is no such function
	Override string `yaml:"override,omitempty" json:"override,omitempty"` // driver_override; "none"
	Group    *int   `yaml:"group,omitempty" json:"group,omitempty"`       // of the IOMMU; -1: none
	VFs      *int   `yaml:"vfs,omitempty" json:"vfs,omitempty"`           // how many virtual functions it has
	VGPU     *int   `yaml:"vgpu,omitempty" json:"vgpu,omitempty"`         // current_vgpu_type; 0: it is free
}

// An MDevExpect is what shall be true of the mediated devices of one type.
type MDevExpect struct {
	Made *int `yaml:"made,omitempty" json:"made,omitempty"` // how many there are
	Left *int `yaml:"left,omitempty" json:"left,omitempty"` // how many more can be made, of all parents together
}

// A NodeExpect is what shall be true of one device node; empty fields are not
// judged.
type NodeExpect struct {
	Number string  `yaml:"number,omitempty" json:"number,omitempty"` // "195:0"
	Type   string  `yaml:"type,omitempty" json:"type,omitempty"`
	Mode   string  `yaml:"mode,omitempty" json:"mode,omitempty"` // octal
	UID    *uint32 `yaml:"uid,omitempty" json:"uid,omitempty"`
	GID    *uint32 `yaml:"gid,omitempty" json:"gid,omitempty"`
	Open   string  `yaml:"open,omitempty" json:"open,omitempty"` // "allowed", "denied", "no-mode"
}

// A SmokeExpect is what the smoke workload shall say; empty fields are not judged,
// except that one which names no step fails on any failure.
type SmokeExpect struct {
	Devices *int     `yaml:"devices,omitempty" json:"devices,omitempty"` // how many CUDA sees
	UUIDs   []string `yaml:"uuids,omitempty" json:"uuids,omitempty"`     // exactly these devices
	Kernels string   `yaml:"kernels,omitempty" json:"kernels,omitempty"` // "pass": each on each device
	Step    string   `yaml:"step,omitempty" json:"step,omitempty"`       // that fails: "library", "init", …
	Cause   string   `yaml:"cause,omitempty" json:"cause,omitempty"`     // why: "node-missing", …
	Code    int      `yaml:"code,omitempty" json:"code,omitempty"`       // the CUresult of the call that failed: 999
}

// A SpecExpect is what shall be true of the CDI Spec's device names.
type SpecExpect struct {
	Devices   []string `yaml:"devices,omitempty" json:"devices,omitempty"`       // qualified names that must be there
	NoDevices []string `yaml:"no-devices,omitempty" json:"no-devices,omitempty"` // patterns that no qualified name may match
}

// A PlanExpect is what shall be true of the plan.
type PlanExpect struct {
	Devices  []string          `yaml:"devices,omitempty" json:"devices,omitempty"` // exactly these
	Links    map[string]string `yaml:"links,omitempty" json:"links,omitempty"`
	Mounts   map[string]string `yaml:"mounts,omitempty" json:"mounts,omitempty"`       // source by target
	NoMounts []string          `yaml:"no-mounts,omitempty" json:"no-mounts,omitempty"` // patterns that no target may match
	Folders  []string          `yaml:"folders,omitempty" json:"folders,omitempty"`     // exactly these library folders
	Lines    []string          `yaml:"lines,omitempty" json:"lines,omitempty"`         // patterns of lines that the lxc configuration must have
	NoLines  []string          `yaml:"no-lines,omitempty" json:"no-lines,omitempty"`   // patterns that no line may match
	Ports    map[string]string `yaml:"ports,omitempty" json:"ports,omitempty"`         // of a virtual machine: root port and function by device, {"0000:41:00.0": "0.0"}
	Writes   []string          `yaml:"writes,omitempty" json:"writes,omitempty"`       // of a virtual machine: patterns of what is written to sysfs, in this order
	NoWrites []string          `yaml:"no-writes,omitempty" json:"no-writes,omitempty"` // patterns of what is not
}
