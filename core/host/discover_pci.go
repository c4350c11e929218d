package host

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/pci"
)

const pciDevices = "/sys/bus/pci/devices"

// pci reads every PCI function that is a GPU, an NVSwitch, another function of a
// maker of GPUs alone, or stands beside a GPU: in its slot or in its IOMMU group.
func (d *discovery) pci() error {
	names, err := d.list(pciDevices)
	if err != nil {
		return err
	}
	var rest []PCIFunction // of others
	for _, name := range names {
		f, err := d.function(name, false)
		if err == errNoGPU {
			rest = append(rest, f)
			continue
		}
		pf, virtual, perr := d.physical(name)
		err = cmp.Or(err, perr)
		v := VF{PCIFunction: f, PF: pf}
		if virtual && isGPU(f) && err == nil {
			v, err = d.virtual(f, pf)
		}
		switch {
		case err != nil && !virtual && isGPU(f):
			d.m.GPUs = append(d.m.GPUs, GPU{PCI: &f, Minor: -1, Index: -1, Card: -1, Render: -1, Problem: oneLine(err)})
		case err != nil:
			d.problem("PCI function "+name, err)
		case virtual && isGPU(f):
			d.m.VFs = append(d.m.VFs, v)
		case isGPU(f):
			d.m.GPUs = append(d.m.GPUs, GPU{PCI: &f, Minor: -1, Index: -1, Card: -1, Render: -1})
		case f.ID.Vendor == pci.NVIDIA && f.Class == pci.ClassOther:
			d.m.NVSwitches = append(d.m.NVSwitches, f)
		default: // a board's audio function stays when its GPU is pulled out
			d.m.Companions = append(d.m.Companions, f)
		}
	}
	for _, f := range rest {
		if !slices.ContainsFunc(d.m.GPUs, func(g GPU) bool {
			return g.PCI != nil && (slot(g.PCI.BDF) == slot(f.BDF) || f.IOMMUGroup >= 0 && f.IOMMUGroup == g.PCI.IOMMUGroup)
		}) {
			continue
		}
		whole, err := d.function(f.BDF.String(), true)
		if err != nil {
			d.problem("PCI function "+f.BDF.String(), err)
			continue
		}
		d.m.Companions = append(d.m.Companions, whole)
	}
	byBDF := func(a, b PCIFunction) int { return a.BDF.Compare(b.BDF) }
	slices.SortFunc(d.m.NVSwitches, byBDF)
	slices.SortFunc(d.m.Companions, byBDF)
	slices.SortFunc(d.m.VFs, func(a, b VF) int { return a.BDF.Compare(b.BDF) })
	if err := d.mdevs(); err != nil {
		return err
	}
	return d.idleDrivers()
}

// errNoGPU says that a function is none of a maker of GPUs, or one of its ports: it
// matters where it stands beside a GPU.
var errNoGPU = errors.New("no GPU, and nothing of one")

func noGPU(f PCIFunction) bool {
	maker := f.ID.Vendor == pci.NVIDIA || f.ID.Vendor == pci.AMD
	return !isGPU(f) && (!maker || f.Class == pci.ClassBridge)
}

func slot(a pci.BDF) pci.BDF {
	a.Function = 0
	return a
}

// isGPU reports whether f is a display controller, or a processing accelerator
// of a maker whose GPUs carry that class.
func isGPU(f PCIFunction) bool {
	return f.Class.Display() || f.Class>>16 == 0x12 && (f.ID.Vendor == pci.NVIDIA || f.ID.Vendor == pci.AMD || f.ID.Vendor == pci.Intel)
}

// function reads one entry of /sys/bus/pci/devices
// (Documentation/ABI/testing/sysfs-bus-pci), and if it is not to read any, leaves those
// at errNoGPU that it is. With an error comes what could be read.
func (d *discovery) function(name string, any bool) (PCIFunction, error) {
	f := PCIFunction{NUMANode: -1, IOMMUGroup: -1}
	dir, err := d.device(name)
	if err != nil {
		return f, err
	}
	if f.BDF, err = pci.ParseBDF(name); err != nil {
		return f, fmt.Errorf("%s: %w", pciDevices, err)
	}
	var first error
	for _, a := range []struct {
		name   string
		digits int
		set    func(uint64)
	}{
		{"vendor", 4, func(v uint64) { f.ID.Vendor = uint16(v) }},
		{"class", 6, func(v uint64) { f.Class = pci.Class(v) }},
		{"device", 4, func(v uint64) { f.ID.Device = uint16(v) }},
		{"subsystem_vendor", 4, func(v uint64) { f.ID.SubVendor = uint16(v) }},
		{"subsystem_device", 4, func(v uint64) { f.ID.SubDevice = uint16(v) }},
		{"revision", 2, func(v uint64) { f.Revision = uint8(v) }},
	} {
		text, err := d.text(dir + "/" + a.name)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		v, err := parseHexAttr(text, a.digits)
		if err != nil {
			first = cmp.Or(first, inFile(dir+"/"+a.name, err))
			continue
		}
		a.set(v)
		if a.name == "class" && first == nil && !any && noGPU(f) {
			if err := d.group(&f, dir); err != nil {
				return f, err
			}
			return f, errNoGPU
		}
	}
	if first != nil {
		return f, first
	}
	if f.Driver, err = d.linkBase(dir + "/driver"); err != nil {
		return f, err
	}
	if err := d.group(&f, dir); err != nil {
		return f, err
	}
	if text, ok, err := d.optional(dir + "/numa_node"); err != nil {
		return f, err
	} else if ok {
		if f.NUMANode, err = strconv.Atoi(strings.TrimSpace(text)); err != nil || f.NUMANode < -1 {
			return f, inFile(dir+"/numa_node", malformed(0, strings.TrimSpace(text), "not the number of a node"))
		}
	}
	text, err := d.text(dir + "/resource")
	if err != nil {
		return f, err
	}
	if f.BARs, err = parseResource(text); err != nil {
		return f, inFile(dir+"/resource", err)
	}
	return f, d.binding(&f, dir)
}

// group reads the IOMMU group of a function.
func (d *discovery) group(f *PCIFunction, dir string) error {
	group, err := d.linkBase(dir + "/iommu_group")
	if err != nil || group == "" {
		return err
	}
	if f.IOMMUGroup, err = strconv.Atoi(group); err != nil || f.IOMMUGroup < 0 {
		return inFile(dir+"/iommu_group", malformed(0, group, "not the number of a group"))
	}
	return nil
}

// device returns the directory that an entry of the bus leads to. Going there
// once spares following the same link for each attribute.
func (d *discovery) device(name string) (string, error) {
	p := pciDevices + "/" + name
	dir, err := Resolve(d.r, p)
	if missing(err) {
		dir, err = Resolve(d.r, p)
	}
	if err != nil {
		return "", fmt.Errorf("follow %s: %w", p, err)
	}
	return dir, nil
}

// parseHexAttr reads "0x10de", "0x10DE" or "10de" of exactly that many digits.
func parseHexAttr(text string, digits int) (uint64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	s = strings.TrimPrefix(s, "0x")
	v, err := strconv.ParseUint(s, 16, 32)
	if len(s) != digits || err != nil || s[0] == '+' {
		return 0, malformed(0, text, fmt.Sprintf("want %d hex digits", digits))
	}
	return v, nil
}

// parseResource reads the file "resource": a line of start, end and flags for
// each window; unused ones are zero.
func parseResource(text string) ([]BAR, error) {
	var out []BAR
	index := -1
	for line := range strings.Lines(text) {
		index++
		words := strings.Fields(line)
		var v [3]uint64
		for i, w := range words {
			n, err := strconv.ParseUint(strings.TrimPrefix(w, "0x"), 16, 64)
			if err != nil || len(words) != len(v) {
				return nil, malformed(index+1, line, "want start, end and flags in hex")
			}
			v[i] = n
		}
		switch {
		case len(words) == 0 || v == [3]uint64{}:
		case v[1] < v[0] || v[1]-v[0] == ^uint64(0):
			return nil, malformed(index+1, line, "the window ends before it starts")
		case v[1] != 0:
			out = append(out, BAR{Index: index, Size: v[1] - v[0] + 1, Flags: v[2]})
		}
	}
	return out, nil
}

// linkBase returns the last part of a link's text; empty if there is no link.
// A link that leads nowhere is an error: its text is no proof of anything.
func (d *discovery) linkBase(p string) (string, error) {
	is, err := d.isLink(p)
	if err != nil || !is {
		return "", err
	}
	target, err := d.r.Readlink(p)
	if err != nil {
		return "", fmt.Errorf("read link %s: %w", p, err)
	}
	if _, err := Resolve(d.r, p); err != nil {
		return "", inFile(p, malformed(0, target, "the link leads nowhere"))
	}
	return path.Base(target), nil
}

// drm reads the numbers of a device's card and render node, -1 for none.
func (d *discovery) drm(device string) (card, render int, err error) {
	names, err := d.list(device + "/drm")
	card, render = -1, -1
	for _, name := range names {
		if n, ok := numbered(name, "card"); ok && card < 0 {
			card = n
		}
		if n, ok := numbered(name, "renderD"); ok && render < 0 {
			render = n
		}
	}
	return card, render, err
}

// numbered reads the N of "cardN": digits alone, as the kernel prints them.
func numbered(name, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == rest
}
