package vfio

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// A member is one PCI function of an IOMMU group. Only a whole group can be kept
// away from the rest of the host, so only a whole group changes hands.
type member struct {
	bdf    pci.BDF
	class  pci.Class
	driver string // empty: none
}

// String describes a member for a message.
func (f member) String() string {
	driver := "no driver"
	if f.driver != "" {
		driver = "driver " + f.driver
	}
	return fmt.Sprintf("%s (%s, %s)", f.bdf, className(f.class), driver)
}

// className says what a function is, for a message.
func className(c pci.Class) string {
	what := map[pci.Class]string{
		0x01: "storage", 0x02: "network", 0x03: "graphics", 0x04: "sound", 0x06: "bridge", 0x08: "system device", 0x0c: "serial bus", 0x12: "accelerator",
	}[c>>16]
	return cmp.Or(what, "class "+c.String())
}

// bridge reports whether f is a PCI-to-PCI bridge: those stay with the host, and
// the kernel does not count them.
func (f member) bridge() bool { return f.class>>8 == pci.ClassBridge>>8 }

// members reads the functions of a group, by address. A mediated device, which is
// alone in its group, is no function.
func members(r host.Root, group int) ([]member, error) {
	dir := groups + strconv.Itoa(group) + "/devices"
	names, err := list(r, dir)
	if err != nil {
		return nil, err
	}
	var out []member
	for _, name := range names {
		if isUUID(name) {
			continue
		}
		b, err := pci.ParseBDF(name)
		if err != nil || b.String() != name {
			return nil, badText(dir, name)
		}
		f := member{bdf: b}
		if f.driver, _, err = driverOf(r, b); err != nil {
			return nil, err
		}
		text, _, err := attribute(r, at(b)+"/class")
		if err != nil {
			return nil, err
		}
		class, err := strconv.ParseUint(text, 0, 24)
		if err != nil {
			return nil, badText(at(b)+"/class", text)
		}
		f.class = pci.Class(class)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b member) int { return a.bdf.Compare(b.bdf) })
	return out, nil
}

// groupOf reads the number of the IOMMU group of the device in dir; -1: none.
func groupOf(r host.Root, dir string) (int, error) {
	name, ok, err := linkName(r, dir+"/iommu_group")
	if err != nil || !ok {
		return -1, err
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 {
		return -1, badText(dir+"/iommu_group", name)
	}
	return n, nil
}

// Viable reports whether the kernel would let a monitor have the group: nobody but
// VFIO drivers may hold a function of it. Bridges do not count, nor does a function
// without a driver. The error is a refusal that names who is in the way.
func Viable(r host.Root, group int) error {
	all, err := members(r, group)
	if err != nil {
		return err
	}
	var held []string
	for _, f := range all {
		mine, err := allowed(r, f)
		if err != nil {
			return err
		}
		if !mine {
			held = append(held, f.String())
		}
	}
	if len(held) == 0 {
		return nil
	}
	return refuse.New(ReasonNotViable, "", "IOMMU group %d is not viable: the host holds %s", group, strings.Join(held, ", ")).
		WithHint("Take the driver from each of them, or give each to vfio-pci.")
}

// allowed reports whether a group may have f as it is (vfio_dev_driver_allowed; from
// Linux 5.19 on the drivers with driver_managed_dma).
func allowed(r host.Root, f member) (bool, error) {
	if f.driver == "" || IsDriver(f.driver) || f.driver == "pci-stub" || f.bridge() {
		return true, nil
	}
	// A vGPU's virtual function stays with NVIDIA's driver, which is a VFIO driver
	// for that one.
	kind, _, err := number(r, at(f.bdf)+"/nvidia/current_vgpu_type")
	return kind > 0, err
}
