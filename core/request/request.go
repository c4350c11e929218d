// Package request reads what a user asks for: the options of one GPU device as a
// container manager accepts them, and which GPUs of a host, or which CDI devices,
// they select.
//
// Parse reads the options, which needs no host; Select applies them to a host.
// Both report all mistakes at once, each as a *refuse.Error whose
// Where is the option and whose Hint says what to write instead. Finding a
// CDI device in a Spec is left to package cdi.
//
// The options are those of LXD's device type "gpu", with LXD's rules unless a
// comment says otherwise.
//
// Reference: https://documentation.ubuntu.com/lxd/latest/reference/devices_gpu/
package request

import (
	"io/fs"

	"gpurig/core/cdi"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// Options are the options of one GPU device as they are written. An empty text
// is an option that is not set.
type Options struct {
	GPUType   string `json:"gputype,omitempty" yaml:"gputype,omitempty"`
	ID        string `json:"id,omitempty" yaml:"id,omitempty"`
	PCI       string `json:"pci,omitempty" yaml:"pci,omitempty"`
	VendorID  string `json:"vendorid,omitempty" yaml:"vendorid,omitempty"`
	ProductID string `json:"productid,omitempty" yaml:"productid,omitempty"`
	MIGGI     string `json:"mig.gi,omitempty" yaml:"mig.gi,omitempty"`
	MIGCI     string `json:"mig.ci,omitempty" yaml:"mig.ci,omitempty"`
	MIGUUID   string `json:"mig.uuid,omitempty" yaml:"mig.uuid,omitempty"`
	MDev      string `json:"mdev,omitempty" yaml:"mdev,omitempty"`
	UID       string `json:"uid,omitempty" yaml:"uid,omitempty"`
	GID       string `json:"gid,omitempty" yaml:"gid,omitempty"`
	Mode      string `json:"mode,omitempty" yaml:"mode,omitempty"`
}

// A Context is what is known of the instance beside its device.
type Context struct {
	VM     bool // a virtual machine, not a container
	Strict bool // an option that a CDI name overrides is refused
}

// A GPUType is the value of the option gputype.
type GPUType string

// The types of GPU device.
const (
	Physical GPUType = "physical" // whole GPUs, or any CDI device; the default
	MIG      GPUType = "mig"      // one MIG device; containers only
	MDev     GPUType = "mdev"     // one mediated device; virtual machines only
	SRIOV    GPUType = "sriov"    // one virtual function; virtual machines only
)

// A Request is what the options mean. A nil pointer is an option that is not
// set, or that the CDI name overrides.
type Request struct {
	Type    GPUType      `json:"gputype"`
	CDI     *cdi.Name    `json:"cdi,omitempty"`  // id, where it is a CDI name
	Card    *int         `json:"card,omitempty"` // id, where it is a number: N of /dev/dri/cardN, of no other numbering
	PCI     *pci.BDF     `json:"pci,omitempty"`
	Vendor  *uint16      `json:"vendorid,omitempty"`
	Product *uint16      `json:"productid,omitempty"`
	MIG     *MIGSelector `json:"mig,omitempty"`
	MDev    string       `json:"mdev,omitempty"` // the type's name, "nvidia-468"
	UID     *uint32      `json:"uid,omitempty"`  // owner of the nodes as the container sees it; nil: as on the host
	GID     *uint32      `json:"gid,omitempty"`
	Mode    *fs.FileMode `json:"mode,omitempty"` // permission bits, 1 to 0777; nil: as on the host
	VM      bool         `json:"vm,omitempty"`
}

// A MIGSelector is one MIG device: by UUID, or by the ids of its GPU instance and
// compute instance within one GPU.
type MIGSelector struct {
	UUID string `json:"uuid,omitempty"` // "MIG-…", lower case; empty: by ids
	GPU  string `json:"gpu,omitempty"`  // "GPU-…", from the name that drivers before 470 used; may be empty
	GI   int    `json:"gi"`
	CI   int    `json:"ci"`
}

// A Warning is something that the user should know and that is no error.
type Warning struct {
	Option string        `json:"option"`
	Reason refuse.Reason `json:"reason"`
	Msg    string        `json:"message"`
	Hint   string        `json:"hint,omitempty"`
}

func (w Warning) String() string { return w.Option + ": " + w.Msg }

// Refusal returns the warning as an error, which some are in strict mode.
func (w Warning) Refusal() *refuse.Error {
	return &refuse.Error{Reason: w.Reason, Where: w.Option, Msg: w.Msg, Hint: w.Hint}
}

// A Selection is what a Request means on one host: either Names or GPUs.
type Selection struct {
	// Names are CDI devices, in the vocabulary of Specs generated for the host:
	// NVIDIA's by index, "nvidia.com/gpu=0", "nvidia.com/gpu=0:1" and
	// "nvidia.com/gpu=all". Names that the host does not explain stay as written.
	Names []cdi.Name `json:"names,omitempty"`
	// GPUs are positions in Model.GPUs, rising.
	GPUs []int `json:"gpus,omitempty"`
	// Integrated says that the name is that of the SoC's GPU: its Spec is made
	// from the board's CSV files.
	Integrated bool `json:"integrated,omitempty"`
	// Warnings are about GPUs that were left out, or that will be of little use.
	Warnings []Warning `json:"warnings,omitempty"`
}
