package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// A GuestFunction is a PCI function that a virtual machine has below a root port.
type GuestFunction struct {
	Port     int       `json:"port"`          // physical slot number of the root port
	BDF      pci.BDF   `json:"bdf"`           // where the guest's kernel has it; of what is expected, only its function number counts
	ID       pci.ID    `json:"id"`            // as the kernel found it
	Class    pci.Class `json:"class"`         //
	Revision uint8     `json:"revision"`      //
	Windows  []Window  `json:"windows"`       // BARs by index, and the ROM as 6
	Lost     bool      `json:"lost,omitzero"` // its configuration space reads as ones: it fell off the bus
}

// A Window is one base address register.
type Window struct {
	Index int    `json:"index"`
	Size  uint64 `json:"size"`  // bytes
	Flags uint64 `json:"flags"` // as sysfs prints them
	Start uint64 `json:"start"` // address in the guest; of what is expected, only whether it is from 4 GiB on; 0: none was assigned, where newer kernels leave the window out
}

// Bits of a Window's flags (include/linux/ioport.h).
const (
	windowIO    = 0x100
	windowPref  = 0x2000
	window64    = 0x10_0000
	windowUnset = 0x2000_0000
	romIndex    = 6
)

// Above4G is the first address that takes a 64-bit window.
const Above4G = 1 << 32

const pciDevices = "/sys/bus/pci/devices/"

// LookGuest reads the functions that the machine whose root is r has below root ports, by
// port and function.
func LookGuest(r host.Root) ([]GuestFunction, error) {
	names, err := r.ReadDir(pciDevices)
	if err != nil {
		return nil, err
	}
	var out []GuestFunction
	for _, name := range names {
		link, err := r.Readlink(pciDevices + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pulled out meanwhile
		}
		if err != nil {
			return nil, err
		}
		port, ok, err := portNumber(r, path.Base(path.Dir(link)))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		b, err := pci.ParseBDF(name)
		if err != nil {
			return nil, err
		}
		f, err := ReadFunction(r, b)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		config, err := r.ReadFile(pciDevices + name + "/config")
		if err != nil {
			return nil, err
		}
		f.Lost = len(config) >= 4 && string(config[:4]) == "\xff\xff\xff\xff"
		f.Port = port
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b GuestFunction) int {
		return (a.Port-b.Port)*8 + int(a.BDF.Function) - int(b.BDF.Function)
	})
	return out, nil
}

// portNumber returns the physical slot number of a root port, which is what QEMU was
// told of it (PCI Express Base Specification, Slot Capabilities).
func portNumber(r host.Root, name string) (n int, ok bool, err error) {
	if _, err := pci.ParseBDF(name); err != nil {
		return 0, false, nil // a host bridge
	}
	c, err := r.ReadFile(pciDevices + name + "/config")
	if err != nil || len(c) < 64 || c[0x0e]&0x7f != 1 {
		return 0, false, err
	}
	for at, i := int(c[0x34])&^3, 0; at >= 0x40 && at+0x18 <= min(len(c), 256) && i < 48; at, i = int(c[at+1])&^3, i+1 {
		const express, rootPort = 0x10, 4
		if c[at] == express && c[at+2]>>4 == rootPort {
			return int(c[at+0x17])<<5 | int(c[at+0x16])>>3, true, nil
		}
	}
	return 0, false, nil
}

// ReadFunction reads what sysfs says of a function at any place.
func ReadFunction(r host.Root, b pci.BDF) (GuestFunction, error) {
	f := GuestFunction{BDF: b}
	dir := pciDevices + b.String() + "/"
	for _, a := range []struct {
		name string
		set  func(uint64)
	}{
		{"vendor", func(n uint64) { f.ID.Vendor = uint16(n) }},
		{"device", func(n uint64) { f.ID.Device = uint16(n) }},
		{"subsystem_vendor", func(n uint64) { f.ID.SubVendor = uint16(n) }},
		{"subsystem_device", func(n uint64) { f.ID.SubDevice = uint16(n) }},
		{"class", func(n uint64) { f.Class = pci.Class(n) }},
		{"revision", func(n uint64) { f.Revision = uint8(n) }},
	} {
		text, err := r.ReadFile(dir + a.name)
		if err != nil {
			return f, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 24)
		if err != nil {
			return f, fmt.Errorf("%s%s: %w", dir, a.name, err)
		}
		a.set(n)
	}
	text, err := r.ReadFile(dir + "resource")
	if err != nil {
		return f, err
	}
	for i, line := range strings.SplitN(string(text), "\n", romIndex+2) {
		var start, end, flags uint64
		if i > romIndex || line == "" {
			break
		}
		if _, err := fmt.Sscanf(line, "0x%x 0x%x 0x%x", &start, &end, &flags); err != nil {
			return f, fmt.Errorf("%sresource: line %d: %w", dir, i+1, err)
		}
		if flags == 0 {
			continue
		}
		w := Window{Index: i, Size: end - start + 1, Flags: flags & (windowIO | windowPref | window64), Start: start}
		if flags&windowUnset != 0 {
			w.Start = 0
		}
		f.Windows = append(f.Windows, w)
	}
	return f, nil
}

// Prefetchable64 reports whether a machine has the window from 4 GiB on.
func (w Window) Prefetchable64() bool {
	return w.Flags&(windowPref|window64) == windowPref|window64
}

// kind describes a window as lspci does.
func (w Window) kind() string {
	bits, pref := "32-bit", "non-prefetchable"
	if w.Flags&window64 != 0 {
		bits = "64-bit"
	}
	if w.Flags&windowPref != 0 {
		pref = "prefetchable"
	}
	return bits + ", " + pref
}

// size prints a size as lspci does.
func (w Window) size() string {
	n, unit := w.Size, 0
	for unit < 4 && n%1024 == 0 {
		n, unit = n/1024, unit+1
	}
	return strings.TrimSpace(fmt.Sprintf("%d%c", n, " KMGT"[unit]))
}

// String is the function as "lspci -vv" prints it, as far as it is looked at.
func (f GuestFunction) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s [%04x]: [%s] (rev %02x)", strings.TrimPrefix(f.BDF.String(), "0000:"), uint32(f.Class)>>8, f.ID, f.Revision)
	if f.Lost {
		s.WriteString(" (rev ff)")
	}
	for _, w := range f.Windows {
		at := fmt.Sprintf("%x", w.Start)
		if w.Start == 0 {
			at = "<unassigned>"
		}
		switch {
		case w.Index == romIndex:
			fmt.Fprintf(&s, "\n\tExpansion ROM at %s [size=%s]", at, w.size())
		case w.Flags&windowIO != 0:
			fmt.Fprintf(&s, "\n\tRegion %d: I/O ports at %s [size=%s]", w.Index, at, w.size())
		default:
			fmt.Fprintf(&s, "\n\tRegion %d: Memory at %s (%s) [size=%s]", w.Index, at, w.kind(), w.size())
		}
	}
	return s.String()
}

// entry is the function by its place, without what each machine decides on its own.
func (f GuestFunction) entry() entry {
	text := fmt.Sprintf("%s subsystem %04x:%04x class %s rev %02x", f.ID, f.ID.SubVendor, f.ID.SubDevice, f.Class, f.Revision)
	if f.Lost {
		text += ", fallen off the bus"
	}
	for _, w := range f.Windows {
		switch where := ""; {
		case w.Index == romIndex && f.Class>>8 == pci.ClassVGA>>8:
			text += ", ROM" // of the first screen, the kernel shows a copy of 128 KiB in its place
		case w.Index == romIndex:
			text += ", ROM " + w.size()
		case w.Flags&windowIO != 0:
			text += fmt.Sprintf(", BAR%d I/O %s", w.Index, w.size())
		default:
			if w.Start == 0 {
				where = " unassigned"
			} else if w.Start >= Above4G {
				where = " above 4G"
			}
			text += fmt.Sprintf(", BAR%d %s %s%s", w.Index, w.size(), w.kind(), where)
		}
	}
	return entry{fmt.Sprintf("port %d.%d", f.Port, f.BDF.Function), text}
}
