package fakehw

import (
	"encoding/binary"
)

// Offsets in a type 0 header (PCI Local Bus Specification 3.0, section 6.1) and
// where our capabilities stand.
const (
	offCommand  = 0x04
	offStatus   = 0x06
	offRevision = 0x08
	offHeader   = 0x0e
	offBAR      = 0x10
	offSubsys   = 0x2c
	offROM      = 0x30
	offCaps     = 0x34
	offIRQLine  = 0x3c
	offIRQPin   = 0x3d
	capPower    = 0x60
	capMSI      = 0x68
	capExpress  = 0x78
	extAER      = 0x100
)

// config returns the 4096 bytes of a PCI Express function's configuration
// space: header, power management, MSI, Express and error reporting.
func (f *function) config() []byte {
	c := make([]byte, 4096)
	le := binary.LittleEndian
	le.PutUint16(c[0:], f.ID.Vendor)
	le.PutUint16(c[2:], f.ID.Device)
	if f.Driver != "" {
		le.PutUint16(c[offCommand:], 0x0406) // memory, bus master, no INTx
	}
	le.PutUint16(c[offStatus:], 0x0010) // there is a capability list
	le.PutUint32(c[offRevision:], uint32(f.Class)<<8|uint32(f.Revision))
	if f.multi && f.BDF.Function == 0 {
		c[offHeader] = 0x80
	}
	for i, r := range f.resources[:6] {
		if r[2] == 0 {
			continue
		}
		at := offBAR + 4*i
		le.PutUint32(c[at:], uint32(r[0])|barBits(r[2]))
		if r[2]&flag64 != 0 && i < 5 {
			le.PutUint32(c[at+4:], uint32(r[0]>>32))
		}
	}
	le.PutUint16(c[offSubsys:], f.ID.SubVendor)
	le.PutUint16(c[offSubsys+2:], f.ID.SubDevice)
	if rom := f.resources[6]; rom[2] != 0 {
		le.PutUint32(c[offROM:], uint32(rom[0])) // disabled, as when a driver is bound
	}
	c[offCaps] = capPower
	c[offIRQLine] = 0xff
	c[offIRQPin] = 1

	copy(c[capPower:], []byte{0x01, capMSI, 0x03, 0x00, 0x08, 0x00})             // power management 3, no soft reset
	copy(c[capMSI:], []byte{0x05, capExpress, 0x80, 0x00})                       // MSI, 64-bit
	copy(c[capExpress:], []byte{0x10, 0x00, 0x12, 0x00, 0xe1, 0x8d, 0x2c, 0x01}) // endpoint, version 2
	le.PutUint32(c[capExpress+0x0c:], 0x00453d04)                                // link: 16 GT/s, 16 lanes
	le.PutUint16(c[capExpress+0x12:], 0x1104)
	le.PutUint32(c[extAER:], 0x0002_0001) // advanced error reporting 2, last in the list
	return c
}

// barBits returns the low bits of a base address register.
func barBits(flags uint64) uint32 {
	if flags&flagIO != 0 {
		return 1
	}
	var bits uint32
	if flags&flag64 != 0 {
		bits |= 4
	}
	if flags&flagPref != 0 {
		bits |= 8
	}
	return bits
}
