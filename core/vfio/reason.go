package vfio

import "gpurig/core/refuse"

// Reasons why a virtual machine does not get a device. Those of package request are
// given as well.
const (
	DuplicateName refuse.Reason = "duplicate-device-name"
	NoIOMMU       refuse.Reason = "no-iommu"
	NotLoaded     refuse.Reason = "vfio-not-loaded"
	Several       refuse.Reason = "matches-several"
	Given         refuse.Reason = "given-twice"
	InUse         refuse.Reason = "device-in-use"
	HasVFs        refuse.Reason = "has-virtual-functions"
	GroupShared   refuse.Reason = "group-shared"
	GroupForeign  refuse.Reason = "group-has-host-device"
	TooMany       refuse.Reason = "too-many-functions"
)

// Reasons of virtual functions and vGPUs.
const (
	NoSRIOV     refuse.Reason = "no-sriov"
	NoFreeVF    refuse.Reason = "no-free-virtual-function"
	VFsOff      refuse.Reason = "virtual-functions-off"
	NoVGPU      refuse.Reason = "no-vgpu"
	UnknownType refuse.Reason = "unknown-vgpu-type"
	NoInstances refuse.Reason = "no-vgpu-instances"
	LeftOver    refuse.Reason = "mdev-left-over"
)

// Reasons why a plan is not carried out, or not taken back.
const (
	BadPlan     refuse.Reason = "bad-vfio-plan"
	HostChanged refuse.Reason = "host-changed"
	WriteFailed refuse.Reason = "write-refused"
	NotTaken    refuse.Reason = "not-taken-by-driver"
	NotViable   refuse.Reason = "group-not-viable"
	NoNode      refuse.Reason = "vfio-node-missing"
	BadHost     refuse.Reason = "bad-sysfs-text"
)

// Reasons of notes.
const (
	GoesAlong  refuse.Reason = "companion-goes-along"
	StaysUnder refuse.Reason = "group-member-stays"
	MIGLost    refuse.Reason = "mig-devices-lost"
	Persist    refuse.Reason = "persistence-daemon"
	Console    refuse.Reason = "drives-the-console"
	TurnedOn   refuse.Reason = "virtual-functions-turned-on"
	BareVF     refuse.Reason = "bare-virtual-function"
)

// Reasons returns every reason of this package with its meaning, those of notes too.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: DuplicateName, Meaning: "Two devices of one virtual machine have the same name."},
		{Reason: NoIOMMU, Meaning: "The function is in no IOMMU group, so that nothing would keep its memory accesses inside the machine."},
		{Reason: NotLoaded, Meaning: "The VFIO driver that the function needs is not loaded."},
		{Reason: Several, Meaning: "The options of one device of a virtual machine match more than one GPU."},
		{Reason: Given, Meaning: "Two devices of one virtual machine ask for the same GPU."},
		{Reason: InUse, Meaning: "A program of the host has the device open, and taking it away would wait until the program ends."},
		{Reason: HasVFs, Meaning: "The GPU has virtual functions or vGPUs on, which go when the GPU itself is given away."},
		{Reason: GroupShared, Meaning: "The IOMMU group has another GPU that the machine does not ask for, and a group goes as a whole."},
		{Reason: GroupForeign, Meaning: "The IOMMU group has a device that the host uses and that is no part of the GPU."},
		{Reason: TooMany, Meaning: "More than eight functions would have to share one PCI Express port."},

		{Reason: NoSRIOV, Meaning: "The GPU can have no virtual functions."},
		{Reason: NoFreeVF, Meaning: "Every virtual function is in use."},
		{Reason: VFsOff, Meaning: "The GPU has its vGPUs on virtual functions, and none is enabled."},
		{Reason: NoVGPU, Meaning: "The host's driver makes no vGPUs of this GPU."},
		{Reason: UnknownType, Meaning: "The GPU has no vGPU type of that name."},
		{Reason: NoInstances, Meaning: "No vGPU of that type is left."},
		{Reason: LeftOver, Meaning: "A mediated device of a machine and a device of these names is there already."},

		{Reason: BadPlan, Meaning: "The plan has a write that no plan of this program has."},
		{Reason: HostChanged, Meaning: "The host is not as it was when the plan was made."},
		{Reason: WriteFailed, Meaning: "The kernel refused a write to sysfs."},
		{Reason: NotTaken, Meaning: "The kernel accepted a write to sysfs that then had no effect."},
		{Reason: NotViable, Meaning: "A device of the IOMMU group is held by a driver of the host."},
		{Reason: NoNode, Meaning: "There is no node by which the device could be opened."},
		{Reason: BadHost, Meaning: "A text in sysfs is not what the kernel writes there, so it is not used."},

		{Reason: GoesAlong, Meaning: "Another function of the board is in the GPU's IOMMU group and goes to the machine with it."},
		{Reason: StaysUnder, Meaning: "A device of the IOMMU group has no driver and stays as it is."},
		{Reason: MIGLost, Meaning: "The GPU is in MIG mode: its MIG devices go when it is given away, and are not made again."},
		{Reason: Persist, Meaning: "NVIDIA's persistence daemon is there; while it has the GPU open, giving it away waits."},
		{Reason: Console, Meaning: "The firmware chose the GPU for the host's screen, which goes dark, and the boot messages may keep its memory."},
		{Reason: TurnedOn, Meaning: "Virtual functions are turned on for the machine, and off again afterwards."},
		{Reason: BareVF, Meaning: "A virtual function of NVIDIA's goes to the machine without being a vGPU."},
	}
}
