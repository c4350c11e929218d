// Package qemu boots virtual machines and asks from inside what they see: QEMU gets the
// arguments that core/vfio writes, and behind each device that they pass is a function
// of a fake host, served over vfio-user.
package qemu

// Name is that of the target.
const Name = "qemu"
