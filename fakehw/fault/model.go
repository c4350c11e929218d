package fault

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/tree"
)

func breakDriver(b *Broken, f Fault) (err error) {
	if f.gpu == "" {
		if b.Model.Driver == nil {
			return impossible("NVIDIA's driver is not loaded on this host")
		}
		b.Model = fakehw.Unloaded(b.Model)
		return nil
	}
	g, err := b.gpu(f.gpu)
	switch {
	case err != nil:
		return err
	case g.PCI == nil:
		return impossible("GPU %s is part of the SoC: its driver goes with the module, no-driver", f.gpu)
	case g.PCI.Driver == "":
		return impossible("no driver has GPU %s", f.gpu)
	}
	b.Model, err = fakehw.Unbound(b.Model, g.PCI.BDF)
	return err
}

func breakVersion(b *Broken, f Fault) error {
	v, err := catalog.FindDriver(f.name)
	switch {
	case err != nil:
		return impossible("%v", err)
	case b.Model.Driver == nil || b.Model.Userspace == nil:
		return impossible("it takes a loaded driver and installed libraries")
	case b.Model.Driver.Version == v.Version:
		return impossible("the loaded driver is %s", v.Version)
	}
	b.Model, err = fakehw.WithUserspace(b.Model, v.Version)
	return err
}

// breakPersistenced takes the socket and leaves what the daemon set before.
func breakPersistenced(b *Broken, _ Fault) error {
	if b.Model.Userspace == nil || !b.Model.Userspace.Persist {
		return impossible("nvidia-persistenced has no socket on this host")
	}
	m := b.Model.Clone()
	m.Userspace.Persist = false
	for _, g := range m.NVIDIAGPUs() {
		if g.PCI != nil {
			b.persistent = append(b.persistent, g.Index)
		}
	}
	b.Model = m
	return nil
}

func breakUVM(b *Broken, _ Fault) error {
	if !hasUVM(b.Model) {
		return impossible("the module nvidia_uvm is not loaded on this host")
	}
	b.Model = withoutUVM(b.Model)
	return nil
}

func hasUVM(m host.Model) bool {
	return m.Driver != nil && slices.Contains(m.Driver.Modules, "nvidia_uvm")
}

// withoutUVM is m before the module nvidia_uvm was loaded.
func withoutUVM(m host.Model) host.Model {
	m = m.Clone()
	m.Driver.Modules = slices.DeleteFunc(m.Driver.Modules, func(name string) bool { return name == "nvidia_uvm" })
	m.Majors = slices.DeleteFunc(m.Majors, func(x host.Major) bool { return x.Name == "nvidia-uvm" })
	m.Nodes = slices.DeleteFunc(m.Nodes, func(n device.Node) bool { return strings.HasPrefix(n.Path, "/dev/nvidia-uvm") })
	return m
}

// Majors that the kernel or NVIDIA's driver has for good
// (Documentation/admin-guide/devices.txt; NV_MAJOR_DEVICE_NUMBER of nv-linux.h).
var fixedMajors = []uint32{1, 4, 5, 10, 13, 29, 195, 226, 231}

// breakMajor changes the line of /proc/devices and not the nodes.
func breakMajor(b *Broken, f Fault) error {
	at := slices.IndexFunc(b.Model.Majors, func(x host.Major) bool { return x.Name == f.name && x.Type == device.Char })
	if at < 0 {
		var names []string
		for _, x := range b.Model.Majors {
			if !slices.Contains(fixedMajors, x.Major) {
				names = append(names, x.Name)
			}
		}
		return impossible("no driver %s with a number of its own; there are %s", f.name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	was := b.Model.Majors[at].Major
	switch {
	case slices.Contains(fixedMajors, was):
		return impossible("its major is %d on every boot", was)
	case was == f.major:
		return impossible("it has the major %d on this host", was)
	}
	for _, x := range b.Model.Majors {
		if x.Major == f.major && x.Type == device.Char {
			return impossible("%s has the major %d", x.Name, x.Major)
		}
	}
	if slices.Contains(fixedMajors, f.major) {
		return impossible("the major %d is another driver's on every boot", f.major)
	}
	m := b.Model.Clone()
	m.Majors[at].Major = f.major
	slices.SortFunc(m.Majors, func(x, y host.Major) int {
		return cmp.Or(cmp.Compare(x.Major, y.Major), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type))
	})
	b.Model = m
	return nil
}

func breakNodes(b *Broken, f Fault) error {
	found := false
	for _, n := range b.Model.Nodes {
		gone := strings.HasPrefix(n.Path, "/dev/nvidia")
		if f.name != "" {
			gone, _ = path.Match(f.name, n.Path) // Parse looked at the pattern
		}
		if !gone {
			continue
		}
		found = true
		m, err := fakehw.WithoutNode(b.Model, n.Path)
		if err != nil {
			return err
		}
		b.Model = m
	}
	if !found {
		return impossible("no node of this host matches %s", cmp.Or(f.name, "/dev/nvidia*"))
	}
	return nil
}

func breakNode(b *Broken, f Fault) (err error) {
	at := slices.IndexFunc(b.Model.Nodes, func(n device.Node) bool { return n.Path == f.name })
	if at < 0 {
		return impossible("the host has no node %s", f.name)
	}
	n := b.Model.Nodes[at]
	was := n
	if f.node.hasMode {
		n.Mode = f.node.perm()
	}
	if f.node.hasUID {
		n.UID = f.node.uid
	}
	if f.node.hasGID {
		n.GID = f.node.gid
	}
	if n == was {
		return impossible("the node is %04o %d:%d on this host", n.Mode, n.UID, n.GID)
	}
	b.Model, err = fakehw.WithNode(b.Model, n)
	return err
}

// breakBus leaves what the kernel and the driver remember. What they read from
// the device comes back as ones: the link's width is then 63 lanes and its speed
// no known one (pcie_link_speed of drivers/pci/probe.c).
func breakBus(b *Broken, f Fault) error {
	g, err := b.gpu(f.gpu)
	if err != nil {
		return err
	}
	if g.PCI == nil {
		return impossible("GPU %s is part of the SoC and on no bus", f.gpu)
	}
	if g.Index >= 0 {
		b.fail("*:"+itoa(g.Index), codes["GPU_IS_LOST"])
		b.offBus = append(b.offBus, g.Index)
		b.xids = append(b.xids, nvmlfake.Xid{GPU: g.Index, Code: 79})
	}
	dir := "/sys/bus/pci/devices/" + g.PCI.BDF.String() + "/"
	b.edit(f, func(t *tree.Tree) error {
		e, err := t.Follow(dir + "config")
		if err != nil {
			return err
		}
		if err := t.SetData(dir+"config", slices.Repeat([]byte{0xff}, len(e.Data))); err != nil {
			return err
		}
		for name, text := range map[string]string{"current_link_speed": "Unknown\n", "current_link_width": "63\n", "max_link_width": "63\n"} {
			if err := t.SetData(dir+name, []byte(text)); err != nil && !errors.Is(err, fs.ErrNotExist) { // a recording may have none
				return err
			}
		}
		return nil
	})
	return nil
}
