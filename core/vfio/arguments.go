package vfio

import (
	"fmt"
	"strings"

	"gpurig/core/host"
)

// Arguments returns the arguments of QEMU that give a machine of type q35 or virt
// the devices of a plan. Nodes are those of its devices, in order, as Nodes or
// Expected found them.
//
// Each port is a root port of its own, where a device could be plugged in too, with
// the prefetchable memory reserved that its functions need: firmware gives a port
// that says nothing far too little for a GPU (large-bar). Functions of one port
// keep their order.
//
// Reference: https://www.qemu.org/docs/master/devel/vfio-iommufd.html,
// docs/pcie.txt and docs/pcie_pci_bridge.txt of QEMU
func Arguments(p Plan, nodes []Nodes) []string {
	var out []string
	add := func(flag, format string, args ...any) { out = append(out, flag, fmt.Sprintf(format, args...)) }
	own := func(i int) bool { return i < len(nodes) && nodes[i].Control == iommufd }
	for i := range p.Devices {
		if own(i) {
			add("-object", "iommufd,id=iommufd0")
			break
		}
	}
	ports := map[int]int{} // how many devices each has
	for _, d := range p.Devices {
		ports[d.Port]++
	}
	seen := map[int]bool{}
	for i, d := range p.Devices {
		if !seen[d.Port] {
			seen[d.Port] = true
			// Chassis and slot are the machine's names for the port, and no other has them.
			port := fmt.Sprintf("pcie-root-port,id=gpuport%d,bus=pcie.0,chassis=%d,slot=%d", d.Port, 100+d.Port, d.Port)
			if d.Window > 0 {
				port += ",pref64-reserve=" + inUnits(d.Window)
			}
			add("-device", "%s", port)
		}
		which := "host=" + d.BDF.String()
		if d.MDev != "" {
			which = "sysfsdev=" + mdevs + d.MDev
		}
		arg := fmt.Sprintf("vfio-pci,%s,id=gpuport%d-%d,bus=gpuport%d,addr=0x0.%#x", which, d.Port, d.Slot, d.Port, d.Slot)
		if ports[d.Port] > 1 && d.Slot == 0 {
			arg += ",multifunction=on"
		}
		if own(i) {
			arg += ",iommufd=iommufd0"
		}
		add("-device", "%s", arg)
	}
	return out
}

// inUnits writes a size in the largest unit that it is a multiple of.
func inUnits(n uint64) string {
	units := " KMGT"
	i := 0
	for i < len(units)-1 && n%1024 == 0 {
		n, i = n/1024, i+1
	}
	return strings.TrimSpace(fmt.Sprintf("%d%c", n, units[i]))
}

// Expected returns what Nodes will find after Carry, as far as it is known before: a
// group or a device that is yet to be made has no number, and Device is empty.
func (d Device) Expected(r host.Root) (Nodes, error) {
	own, err := host.Exists(r, iommufd)
	switch {
	case err != nil:
		return Nodes{}, err
	case own && d.MDev == "":
		n, err := cdev(r, at(d.BDF))
		n.Control = iommufd
		return n, err
	case d.Group < 0:
		return Nodes{Control: container}, nil
	}
	return Nodes{Control: container, Device: groupNode(d.Group)}, nil
}
