package vfio

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/refuse"
)

// Nodes of the two interfaces: the container and groups of VFIO's first one, and
// iommufd with a node for each device (https://docs.kernel.org/driver-api/vfio.html).
const (
	container = "/dev/vfio/vfio"
	iommufd   = "/dev/iommu"
)

func groupNode(group int) string    { return fmt.Sprintf("/dev/vfio/%d", group) }
func deviceNode(name string) string { return "/dev/vfio/devices/" + name }

// A NodeKind says what a node of VFIO is.
type NodeKind string

// The kinds of nodes.
const (
	NoVFIO      NodeKind = ""        // another node
	ControlNode NodeKind = "control" // /dev/vfio/vfio, /dev/iommu
	GroupNode   NodeKind = "group"   // /dev/vfio/12, /dev/vfio/noiommu-0
	DeviceNode  NodeKind = "device"  // /dev/vfio/devices/vfio3
)

// KindOf tells what a node is by its path. Not all that lies in /dev/vfio is a group
// (vfio-control-node).
func KindOf(p string) NodeKind {
	dir, name := path.Split(p)
	switch {
	case p == container || p == iommufd:
		return ControlNode
	case dir == "/dev/vfio/" && isNumber(strings.TrimPrefix(name, "noiommu-")):
		return GroupNode
	case dir == "/dev/vfio/devices/" && strings.HasPrefix(name, "vfio") && isNumber(name[len("vfio"):]):
		return DeviceNode
	}
	return NoVFIO
}

// isNumber reports whether s is a number from 0 as the kernel prints it.
func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// Nodes finds what a monitor opens for the device, after Carry: its own node and
// iommufd where the host has both, else its group's and the container. Never are
// both given: a monitor that opens the two for one device gets neither.
func (d Device) Nodes(r host.Root) (Nodes, error) {
	dir := at(d.BDF)
	if d.MDev != "" && !isUUID(d.MDev) {
		return Nodes{}, refuse.New(ReasonBadPlan, d.Name, "%s is no UUID of a mediated device", strconv.QuoteToASCII(d.MDev)).WithHint("Make the plan again.")
	}
	if d.MDev != "" {
		dir = mdevs + d.MDev
	}
	own, err := cdev(r, dir)
	if err != nil || own != (Nodes{}) {
		return own, err
	}
	group, err := groupOf(r, dir)
	if err != nil {
		return Nodes{}, err
	}
	if group < 0 {
		return Nodes{}, refuse.New(ReasonNoNode, d.Name, "%s is in no IOMMU group", path.Base(dir)).
			WithHint("The device is not there, or the IOMMU is off.")
	}
	n := Nodes{Control: container, Device: groupNode(group)}
	for _, p := range []string{n.Control, n.Device} {
		if ok, err := host.Exists(r, p); err != nil {
			return Nodes{}, err
		} else if !ok {
			return Nodes{}, refuse.New(ReasonNoNode, d.Name, "%s is not there", p).
				WithHint("Look whether the module vfio_iommu_type1 is loaded and %s has a VFIO driver.", path.Base(dir))
		}
	}
	return n, nil
}

// cdev returns iommufd and the node of the device in dir, where there are both.
func cdev(r host.Root, dir string) (Nodes, error) {
	names, err := list(r, dir+"/vfio-dev")
	if err != nil || len(names) == 0 {
		return Nodes{}, err
	}
	n := Nodes{Control: iommufd, Device: deviceNode(names[0])}
	if KindOf(n.Device) != DeviceNode {
		return Nodes{}, badText(dir+"/vfio-dev", names[0])
	}
	for _, p := range []string{n.Control, n.Device} {
		if ok, err := host.Exists(r, p); err != nil || !ok {
			return Nodes{}, err
		}
	}
	return n, nil
}
