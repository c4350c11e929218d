// Package vfio says how GPUs of a host go to a virtual machine and come back.
//
// Make decides which functions or mediated devices the machine gets and what has to
// be written to sysfs for that; it reads the host and touches nothing. Carry does
// the writes and takes them back where one fails, Return gives the devices back to
// the drivers that had them, and Nodes finds what the monitor (QEMU, Cloud
// Hypervisor, …) then opens. Making the machine is the monitor's part.
//
// The kernel has no lock from looking to writing: whoever starts machines must hold
// one of its own from Make to the end of Carry, and while Return works. Of two that
// race without it the second is mostly refused with ReasonHostChanged; but both may be told
// that they have a device, whose node only one can open, or the one that fails may
// take back what the other has done.
//
// Containers get nodes of the GPU's own driver, which is for package translate.
//
// References: https://docs.kernel.org/driver-api/vfio.html,
// https://docs.kernel.org/driver-api/vfio-mediated-device.html
package vfio

import (
	"gpurig/core/pci"
	"gpurig/core/request"
)

// An Ask is one GPU device of the machine, as its owner asked for it.
type Ask struct {
	Name    string          `json:"name"` // of the instance's device: "gpu0"
	Request request.Request `json:"request"`
}

// A Plan is what one virtual machine gets. It is made for the host in one state
// and is kept, as JSON, until the devices were returned: Undo is of that state, and
// takes Writes back one for one, the last first.
type Plan struct {
	Devices []Device `json:"devices"`          // in the order that they were asked for, companions behind their GPU
	Writes  []Write  `json:"writes,omitempty"` // before the machine starts, in order
	Undo    []Write  `json:"undo,omitempty"`   // after it has ended, in order; what is as it was is left alone
	Notes   []Note   `json:"notes,omitempty"`
	Boot    string   `json:"boot,omitempty"` // of the host, as /proc/sys/kernel/random/boot_id names it; empty: not known
}

// A Device is one thing that the monitor gives to the machine.
type Device struct {
	Name   string  `json:"name"`             // of the instance's device: "gpu0"
	BDF    pci.BDF `json:"bdf"`              // the function; of a mediated device its parent
	MDev   string  `json:"mdev,omitempty"`   // UUID; empty: the function itself
	Type   string  `json:"type,omitempty"`   // of a vGPU: "nvidia-468", or the number that the driver gives it
	Role   Role    `json:"role"`             //
	Group  int     `json:"group"`            // IOMMU group; -1: not known before it is made
	Port   int     `json:"port"`             // the PCIe root port of the machine that it goes below: those of one group share one
	Slot   int     `json:"slot"`             // function number there: a GPU is 0, its companions follow
	Window uint64  `json:"window,omitempty"` // of the first at a port: bytes of prefetchable memory that the port must reserve
}

// A Role says why a machine gets a device.
type Role string

// The roles of devices.
const (
	GPU       Role = "gpu"       // what was asked for
	Companion Role = "companion" // another endpoint of its IOMMU group, which goes with it
)

// A Write is one write(2) to an attribute of sysfs, of Text and a newline.
type Write struct {
	Path string `json:"path"` // "/sys/bus/pci/drivers/nvidia/unbind"
	Text string `json:"text"` // "0000:41:00.0"; empty clears driver_override
}

// A Note is something that a person should know and that is no refusal.
type Note struct {
	Device string `json:"device"` // "gpu0"
	Reason string `json:"reason"` // a stable word
	Detail string `json:"detail"` // one sentence
}

// Nodes are what the monitor opens for one Device.
type Nodes struct {
	Control string `json:"control"` // "/dev/vfio/vfio", or "/dev/iommu" where the host has iommufd
	Device  string `json:"device"`  // "/dev/vfio/12", or "/dev/vfio/devices/vfio3"
}
