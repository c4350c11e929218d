package request

import (
	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

// Reasons of options that no host can satisfy.
const (
	BadOption      refuse.Reason = "bad-option" // a value that the option cannot have
	UnknownOption  refuse.Reason = "unknown-option"
	MissingOption  refuse.Reason = "missing-option"
	Conflicting    refuse.Reason = "conflicting-options"
	NotForType     refuse.Reason = "option-not-for-type"
	Overridden     refuse.Reason = "overridden-option"
	MIGOnPhysical  refuse.Reason = "mig-on-physical"
	CDIOnVM        refuse.Reason = "cdi-on-vm"
	VMOnly         refuse.Reason = "vm-only"
	ContainersOnly refuse.Reason = "container-only"
	IGPUByPCI      refuse.Reason = "igpu-by-pci"
	BadMode        refuse.Reason = "bad-mode" // of the option mode
	CDIOnMDev      refuse.Reason = "cdi-on-mdev-or-sriov"
)

// Reasons of what a host does not have, or has in a state of no use.
const (
	NotACard    refuse.Reason = "not-a-card" // no GPU has that DRM card
	Ambiguous   refuse.Reason = "mig-ambiguous"
	MIGEnabled  refuse.Reason = "mig-enabled"
	MIGEmpty    refuse.Reason = "mig-enabled-empty"
	MIGOff      refuse.Reason = "mig-off"
	MIGInCSV    refuse.Reason = "mig-in-csv-mode"
	NoDriver    refuse.Reason = "no-driver"
	OtherDriver refuse.Reason = "bound-to-vfio"
	NoNode      refuse.Reason = "device-node-missing"
	IGPUOnVM    refuse.Reason = "igpu-on-vm"
	BMC         refuse.Reason = "bmc-graphics"    // for information
	NodesOnly   refuse.Reason = "igpu-nodes-only" // for information
)

// Reasons returns every reason of this package with its meaning. The reasons
// that package cdi gives to names come through it as well: see cdi.Reasons.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: BadOption, Meaning: "An option has a value that it cannot have."},
		{Reason: UnknownOption, Meaning: "There is no such option."},
		{Reason: MissingOption, Meaning: "An option that the type of GPU device needs is not set."},
		{Reason: Conflicting, Meaning: "Two options select in ways that exclude each other."},
		{Reason: NotForType, Meaning: "The type of GPU device does not have this option."},
		{Reason: Overridden, Meaning: "The CDI name says it all, so the option has no effect; an error in strict mode."},
		{Reason: MIGOnPhysical, Meaning: "A MIG device is asked for with gputype=physical."},
		{Reason: CDIOnVM, Meaning: "A CDI name is given to a virtual machine, which has no container edits."},
		{Reason: VMOnly, Meaning: "The type of GPU device is for virtual machines only."},
		{Reason: ContainersOnly, Meaning: "The option or the type of GPU device is for containers only."},
		{Reason: IGPUByPCI, Meaning: "An integrated GPU is asked for by PCI address, by which it cannot be passed."},
		{Reason: BadMode, Meaning: "The mode is no octal number from 0001 to 0777."},
		{Reason: CDIOnMDev, Meaning: "A CDI name is given to a mediated device or a virtual function."},

		{Reason: NotACard, Meaning: "No GPU of the host has a DRM card of that number."},
		{Reason: Ambiguous, Meaning: "More than one GPU in MIG mode is selected, and the ids of MIG devices are those of one GPU."},
		{Reason: MIGEnabled, Meaning: "The full GPU is in MIG mode and can only be had as MIG devices."},
		{Reason: MIGEmpty, Meaning: "The GPU is in MIG mode, and no MIG device has been created."},
		{Reason: MIGOff, Meaning: "A MIG device is asked for of a GPU that is not in MIG mode."},
		{Reason: MIGInCSV, Meaning: "A MIG device is asked for on a system on chip, whose CSV files know no MIG."},
		{Reason: NoDriver, Meaning: "The GPU has no driver."},
		{Reason: OtherDriver, Meaning: "The GPU is held ready for a virtual machine by vfio-pci."},
		{Reason: NoNode, Meaning: "The GPU has no device node on the host."},
		{Reason: IGPUOnVM, Meaning: "A virtual machine asks for an integrated GPU, which is no device of its own."},
		{Reason: BMC, Meaning: "The card is the console of the server's management controller; for information."},
		{Reason: NodesOnly, Meaning: "The integrated GPU is passed without the libraries and nodes that it needs; for information."},
	}
}

// AllReasons returns the reasons of this package and of package cdi.
func AllReasons() []refuse.Meaning { return append(Reasons(), cdi.Reasons()...) }
