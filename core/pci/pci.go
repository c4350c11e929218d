// Package pci names PCI functions as Linux sysfs does.
//
// It parses and prints; it opens no file. Reading /sys/bus/pci/devices is the
// job of package host.
//
// Reference: https://docs.kernel.org/PCI/sysfs-pci.html
package pci

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"
)

// A BDF is the address of one PCI function: domain, bus, device and function.
//
// Its text is the sysfs directory name, "0000:65:00.0". NVML writes the same
// address with an eight-digit domain; ParseBDF reads both, String writes only
// the sysfs form, so equal BDFs print equal text.
type BDF struct {
	Domain   uint32 // four hex digits or more: VMD domains start at 0x10000
	Bus      uint8
	Device   uint8 // 0 to 31
	Function uint8 // 0 to 7
}

var (
	_ encoding.TextMarshaler   = BDF{}
	_ encoding.TextUnmarshaler = (*BDF)(nil)
)

// A SyntaxError says that a text is no PCI address, and quotes it.
type SyntaxError struct {
	Text string // the input, unchanged
	Why  string // what is wrong with it, a few lower-case words
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("PCI address %q: %s; write it as 0000:65:00.0", e.Text, e.Why)
}

// ParseBDF reads "0000:65:00.0", the short "65:00.0" (domain 0) and NVML's
// "00000000:65:00.0", in either case. The error is a *SyntaxError.
func ParseBDF(s string) (BDF, error) {
	bad := func(why string) (BDF, error) { return BDF{}, &SyntaxError{Text: s, Why: why} }
	rest, fn, ok := strings.Cut(s, ".")
	if !ok {
		return bad("no dot before the function")
	}
	parts := strings.Split(rest, ":")
	if len(parts) == 2 {
		parts = append([]string{"0000"}, parts...)
	}
	if len(parts) != 3 {
		return bad("want domain:bus:device.function")
	}
	if n := len(parts[0]); n < 4 || n > 8 {
		return bad("the domain has four to eight hex digits")
	}
	if len(parts[1]) != 2 || len(parts[2]) != 2 || len(fn) != 1 {
		return bad("bus and device have two hex digits, the function one digit")
	}
	domain, err1 := parseHex(parts[0], 32)
	bus, err2 := parseHex(parts[1], 8)
	dev, err3 := parseHex(parts[2], 8)
	f, err4 := parseHex(fn, 8)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return bad("not a hexadecimal number")
	}
	if dev > 31 || f > 7 {
		return bad("the device is at most 1f, the function at most 7")
	}
	return BDF{Domain: uint32(domain), Bus: uint8(bus), Device: uint8(dev), Function: uint8(f)}, nil
}

// parseHex refuses what strconv alone would let pass: signs and underscores.
func parseHex(s string, bits int) (uint64, error) {
	if strings.ContainsAny(s, "+-_xX") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 16, bits)
}

// String returns the sysfs form, in lower case.
func (b BDF) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", b.Domain, b.Bus, b.Device, b.Function)
}

// NVML returns the address as NVML prints it, with eight upper-case digits of
// domain: "00000000:65:00.0".
func (b BDF) NVML() string {
	return fmt.Sprintf("%08X:%02X:%02X.%X", b.Domain, b.Bus, b.Device, b.Function)
}

// MarshalText writes the sysfs form.
func (b BDF) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads any form that ParseBDF reads.
func (b *BDF) UnmarshalText(t []byte) error {
	v, err := ParseBDF(string(t))
	if err == nil {
		*b = v
	}
	return err
}

// Compare orders addresses as sysfs lists them: by domain, bus, device, function.
func (b BDF) Compare(o BDF) int {
	x := uint64(b.Domain)<<32 | uint64(b.Bus)<<16 | uint64(b.Device)<<8 | uint64(b.Function)
	y := uint64(o.Domain)<<32 | uint64(o.Bus)<<16 | uint64(o.Device)<<8 | uint64(o.Function)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// Vendors of GPUs, as the sysfs attribute "vendor" gives them.
const (
	NVIDIA uint16 = 0x10de
	AMD    uint16 = 0x1002
	Intel  uint16 = 0x8086
)

// An ID says what a function is: the vendor's and the board maker's numbers.
type ID struct {
	Vendor    uint16 `json:"vendor" yaml:"vendor"`
	Device    uint16 `json:"device" yaml:"device"`
	SubVendor uint16 `json:"subVendor" yaml:"subVendor"` // zero: none
	SubDevice uint16 `json:"subDevice" yaml:"subDevice"`
}

// String returns vendor and device as lspci -n prints them, "10de:20b2".
func (id ID) String() string { return fmt.Sprintf("%04x:%04x", id.Vendor, id.Device) }

// ParseID reads "10de:20b2", or with the subsystem "10de:20b2:10de:1463", in either case.
// The error is an *IDError.
func ParseID(s string) (ID, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 2 && len(parts) != 4 {
		return ID{}, &IDError{Text: s}
	}
	var id ID
	for i, to := range []*uint16{&id.Vendor, &id.Device, &id.SubVendor, &id.SubDevice}[:len(parts)] {
		n, err := parseHex(parts[i], 16)
		if err != nil || len(parts[i]) != 4 {
			return ID{}, &IDError{Text: s}
		}
		*to = uint16(n)
	}
	return id, nil
}

// An IDError says that a text is not the ids of a function.
type IDError struct{ Text string }

func (e *IDError) Error() string {
	return fmt.Sprintf("PCI ids %q: want vendor and device, and those of the subsystem, in four hex digits each: 10de:20b2:10de:1463", e.Text)
}

// A Class is the 24-bit class code: base class, sub-class, interface.
type Class uint32

// Classes that GPU hosts have, from the PCI Code and ID Assignment Specification.
const (
	ClassVGA    Class = 0x030000
	Class3D     Class = 0x030200
	ClassBridge Class = 0x060400 // PCI-to-PCI bridge
	ClassOther  Class = 0x068000 // "bridge, other": NVSwitch
	ClassAudio  Class = 0x040300
	ClassAccel  Class = 0x120000 // processing accelerator
)

// Display reports whether the base class is 03, a display controller.
func (c Class) Display() bool { return c>>16 == 0x03 }

// String returns the code as sysfs prints it, "0x030200".
func (c Class) String() string { return fmt.Sprintf("0x%06x", uint32(c)) }
