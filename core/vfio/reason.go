package vfio

import "gpurig/core/refuse"

// Reasons why a virtual machine does not get a device. Those of package request are
// given as well.
const (
	ReasonDuplicateName refuse.Reason = "duplicate-device-name"
	ReasonNoIOMMU       refuse.Reason = "no-iommu"
	ReasonNotLoaded     refuse.Reason = "vfio-not-loaded"
	ReasonSeveral       refuse.Reason = "matches-several"
	ReasonGiven         refuse.Reason = "given-twice"
	ReasonInUse         refuse.Reason = "device-in-use"
	ReasonHasVFs        refuse.Reason = "has-virtual-functions"
	ReasonGroupShared   refuse.Reason = "group-shared"
	ReasonGroupForeign  refuse.Reason = "group-has-host-device"
	ReasonTooMany       refuse.Reason = "too-many-functions"
)

// Reasons of virtual functions and vGPUs.
const (
	ReasonNoSRIOV     refuse.Reason = "no-sriov"
	ReasonNoFreeVF    refuse.Reason = "no-free-virtual-function"
	ReasonVFsOff      refuse.Reason = "virtual-functions-off"
	ReasonNoVGPU      refuse.Reason = "no-vgpu"
	ReasonUnknownType refuse.Reason = "unknown-vgpu-type"
	ReasonNoInstances refuse.Reason = "no-vgpu-instances"
	ReasonLeftOver    refuse.Reason = "mdev-left-over"
)

// Reasons why a plan is not carried out, or not taken back.
const (
	ReasonBadPlan     refuse.Reason = "bad-vfio-plan"
	ReasonHostChanged refuse.Reason = "host-changed"
	ReasonWriteFailed refuse.Reason = "write-refused"
	ReasonNotTaken    refuse.Reason = "not-taken-by-driver"
	ReasonNotViable   refuse.Reason = "group-not-viable"
	ReasonNoNode      refuse.Reason = "vfio-node-missing"
	ReasonBadHost     refuse.Reason = "bad-sysfs-text"
)

// Reasons of notes.
const (
	ReasonGoesAlong  refuse.Reason = "companion-goes-along"
	ReasonStaysUnder refuse.Reason = "group-member-stays"
	ReasonMIGLost    refuse.Reason = "mig-devices-lost"
	ReasonPersist    refuse.Reason = "persistence-daemon"
	ReasonConsole    refuse.Reason = "drives-the-console"
	ReasonTurnedOn   refuse.Reason = "virtual-functions-turned-on"
	ReasonBareVF     refuse.Reason = "bare-virtual-function"
)

// Reasons returns every reason of this package with its meaning, those of notes too.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonDuplicateName, Meaning: "Two devices of one virtual machine have the same name."},
		{Reason: ReasonNoIOMMU, Meaning: "The function is in no IOMMU group, so its memory accesses would not be confined to the machine."},
		{Reason: ReasonNotLoaded, Meaning: "The VFIO driver that the function needs is not loaded."},
		{Reason: ReasonSeveral, Meaning: "The options of one device of a virtual machine match more than one GPU."},
		{Reason: ReasonGiven, Meaning: "Two devices of one virtual machine ask for the same GPU."},
		{Reason: ReasonInUse, Meaning: "A program of the host has the device open, and unbinding it would block until the program ends."},
		{Reason: ReasonHasVFs, Meaning: "The GPU has virtual functions or vGPUs enabled, which would be lost when the GPU itself is passed."},
		{Reason: ReasonGroupShared, Meaning: "The IOMMU group has another GPU that the machine does not ask for, and groups are passed as a whole."},
		{Reason: ReasonGroupForeign, Meaning: "The IOMMU group has a device that the host uses and that is not part of the GPU."},
		{Reason: ReasonTooMany, Meaning: "More than eight functions would have to share one PCI Express port."},

		{Reason: ReasonNoSRIOV, Meaning: "The GPU does not support virtual functions."},
		{Reason: ReasonNoFreeVF, Meaning: "Every virtual function is in use."},
		{Reason: ReasonVFsOff, Meaning: "The GPU has its vGPUs on virtual functions, and none is enabled."},
		{Reason: ReasonNoVGPU, Meaning: "The host's driver does not support vGPUs on this GPU."},
		{Reason: ReasonUnknownType, Meaning: "The GPU has no vGPU type of that name."},
		{Reason: ReasonNoInstances, Meaning: "No vGPU of that type is left."},
		{Reason: ReasonLeftOver, Meaning: "A mediated device for this machine and device name exists already."},

		{Reason: ReasonBadPlan, Meaning: "The plan has a write that this program never makes."},
		{Reason: ReasonHostChanged, Meaning: "The host has changed since the plan was made."},
		{Reason: ReasonWriteFailed, Meaning: "The kernel refused a write to sysfs."},
		{Reason: ReasonNotTaken, Meaning: "The kernel accepted a write to sysfs that then had no effect."},
		{Reason: ReasonNotViable, Meaning: "A device of the IOMMU group is bound to a driver of the host."},
		{Reason: ReasonNoNode, Meaning: "There is no node by which the device could be opened."},
		{Reason: ReasonBadHost, Meaning: "A value in sysfs does not have the kernel's format, so it is not used."},

		{Reason: ReasonGoesAlong, Meaning: "Another function of the board is in the GPU's IOMMU group and is passed with it."},
		{Reason: ReasonStaysUnder, Meaning: "A device of the IOMMU group has no driver and stays as it is."},
		{Reason: ReasonMIGLost, Meaning: "The GPU is in MIG mode: its MIG devices are lost when it is passed, and are not restored."},
		{Reason: ReasonPersist, Meaning: "NVIDIA's persistence daemon is running; while it has the GPU open, unbinding the GPU blocks."},
		{Reason: ReasonConsole, Meaning: "The firmware chose the GPU for the host's screen, which goes dark, and the boot messages may keep its memory."},
		{Reason: ReasonTurnedOn, Meaning: "Virtual functions are enabled for the machine, and disabled again afterwards."},
		{Reason: ReasonBareVF, Meaning: "A virtual function of an NVIDIA GPU is passed without being a vGPU."},
	}
}
