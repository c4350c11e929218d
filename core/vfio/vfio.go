// Package vfio passes GPUs of a host to a virtual machine and returns them.
//
// Make decides which functions or mediated devices the machine gets and what has to
// be written to sysfs for that; it only reads the host. Carry makes
// the writes and undoes them if one fails, Return gives the devices back to
// their earlier drivers, and Nodes finds the nodes that the monitor (QEMU, Cloud
// Hypervisor, …) then opens. Creating the machine is left to the monitor.
//
// The kernel does not lock between the read and the write, so callers must hold
// a lock of their own from Make to the end of Carry, and during Return. If two
// race without it, the second usually gets ReasonHostChanged; but both may be told
// that they have a device, whose node only one can open, or the one that fails may
// undo what the other has done.
//
// Containers get nodes of the GPU's own driver, which is the job of package translate.
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
