package request

import (
	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

// Reasons of options that no host can satisfy.
const (
	ReasonBadOption      refuse.Reason = "bad-option" // a value that the option cannot have
	ReasonUnknownOption  refuse.Reason = "unknown-option"
	ReasonMissingOption  refuse.Reason = "missing-option"
	ReasonConflicting    refuse.Reason = "conflicting-options"
	ReasonNotForType     refuse.Reason = "option-not-for-type"
	ReasonOverridden     refuse.Reason = "overridden-option"
	ReasonMIGOnPhysical  refuse.Reason = "mig-on-physical"
	ReasonCDIOnVM        refuse.Reason = "cdi-on-vm"
	ReasonVMOnly         refuse.Reason = "vm-only"
	ReasonContainersOnly refuse.Reason = "container-only"
	ReasonIGPUByPCI      refuse.Reason = "igpu-by-pci"
	ReasonBadMode        refuse.Reason = "bad-mode" // of the option mode
	ReasonCDIOnMDev      refuse.Reason = "cdi-on-mdev-or-sriov"
)

// Reasons of what a host does not have, or has in a state of no use.
const (
	ReasonNotACard    refuse.Reason = "not-a-card" // no GPU has that DRM card
	ReasonAmbiguous   refuse.Reason = "mig-ambiguous"
	ReasonMIGEnabled  refuse.Reason = "mig-enabled"
	ReasonMIGEmpty    refuse.Reason = "mig-enabled-empty"
	ReasonMIGOff      refuse.Reason = "mig-off"
	ReasonMIGInCSV    refuse.Reason = "mig-in-csv-mode"
	ReasonNoDriver    refuse.Reason = "no-driver"
	ReasonOtherDriver refuse.Reason = "bound-to-vfio"
	ReasonNoNode      refuse.Reason = "device-node-missing"
	ReasonIGPUOnVM    refuse.Reason = "igpu-on-vm"
	ReasonUnreadable  refuse.Reason = "gpu-unreadable"
	ReasonBMC         refuse.Reason = "bmc-graphics"    // for information
	ReasonNodesOnly   refuse.Reason = "igpu-nodes-only" // for information
)

// Reasons returns every reason of this package with its meaning. The reasons
// that package cdi gives to names come through it as well: see cdi.Reasons.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonBadOption, Meaning: "An option has an invalid value."},
		{Reason: ReasonUnknownOption, Meaning: "There is no such option."},
		{Reason: ReasonMissingOption, Meaning: "An option that the type of GPU device needs is not set."},
		{Reason: ReasonConflicting, Meaning: "Two options that select a GPU contradict each other."},
		{Reason: ReasonNotForType, Meaning: "The type of GPU device does not have this option."},
		{Reason: ReasonOverridden, Meaning: "The CDI name already selects the device, so the option has no effect; an error in strict mode."},
		{Reason: ReasonMIGOnPhysical, Meaning: "A MIG device is requested with gputype=physical."},
		{Reason: ReasonCDIOnVM, Meaning: "A CDI name is given to a virtual machine, which has no container edits."},
		{Reason: ReasonVMOnly, Meaning: "The type of GPU device is for virtual machines only."},
		{Reason: ReasonContainersOnly, Meaning: "The option or the type of GPU device is for containers only."},
		{Reason: ReasonIGPUByPCI, Meaning: "An integrated GPU is requested by PCI address, by which it cannot be passed."},
		{Reason: ReasonBadMode, Meaning: "The mode is not an octal number from 0001 to 0777."},
		{Reason: ReasonCDIOnMDev, Meaning: "A CDI name is given to a mediated device or a virtual function."},

		{Reason: ReasonNotACard, Meaning: "No GPU of the host has a DRM card of that number."},
		{Reason: ReasonAmbiguous, Meaning: "More than one GPU in MIG mode is selected, and the ids of MIG devices are those of one GPU."},
		{Reason: ReasonMIGEnabled, Meaning: "The full GPU is in MIG mode; only its MIG devices can be passed."},
		{Reason: ReasonMIGEmpty, Meaning: "The GPU is in MIG mode, and no MIG device has been created."},
		{Reason: ReasonMIGOff, Meaning: "A MIG device is requested of a GPU that is not in MIG mode."},
		{Reason: ReasonMIGInCSV, Meaning: "A MIG device is requested on a system on chip, whose CSV files do not support MIG."},
		{Reason: ReasonNoDriver, Meaning: "The GPU has no driver."},
		{Reason: ReasonOtherDriver, Meaning: "The GPU is bound to vfio-pci, for a virtual machine."},
		{Reason: ReasonNoNode, Meaning: "The GPU has no device node on the host."},
		{Reason: ReasonIGPUOnVM, Meaning: "A virtual machine asks for an integrated GPU, which is not a separate device."},
		{Reason: ReasonUnreadable, Meaning: "What the host says about the GPU cannot be read or parsed, or contradicts itself."},
		{Reason: ReasonBMC, Meaning: "The card is the console of the server's management controller; for information."},
		{Reason: ReasonNodesOnly, Meaning: "The integrated GPU is passed without the libraries and nodes that it needs; for information."},
	}
}

// AllReasons returns the reasons of this package and of package cdi.
func AllReasons() []refuse.Meaning { return append(Reasons(), cdi.Reasons()...) }
