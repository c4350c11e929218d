package fakehw

import (
	"encoding/binary"

	"gpurig/core/pci"
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
	extSRIOV    = 0xbcc // where NVIDIA's boards have it
	extARI      = 0xc14
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
	windows := f.resources[:6]
	pin := byte(1)
	if f.physfn != nil { // the physical function has its ids, its windows and their switch
		le.PutUint32(c[0:], 0xffff_ffff)
		le.PutUint16(c[offCommand:], le.Uint16(c[offCommand:])&0x0004)
		windows, pin = nil, 0
	}
	le.PutUint16(c[offStatus:], 0x0010) // there is a capability list
	le.PutUint32(c[offRevision:], uint32(f.Class)<<8|uint32(f.Revision))
	if f.multi && f.BDF.Function == 0 {
		c[offHeader] = 0x80
	}
	for i, r := range windows {
		if r[2] == 0 {
			continue
		}
		putBAR(c[offBAR:offBAR+24], i, r)
	}
	le.PutUint16(c[offSubsys:], f.ID.SubVendor)
	le.PutUint16(c[offSubsys+2:], f.ID.SubDevice)
	if rom := f.resources[6]; rom[2] != 0 {
		le.PutUint32(c[offROM:], uint32(rom[0])) // disabled, as when a driver is bound
	}
	c[offCaps] = capPower
	c[offIRQLine] = 0xff
	c[offIRQPin] = pin

	copy(c[capPower:], []byte{0x01, capMSI, 0x03, 0x00, 0x08, 0x00})             // power management 3, no soft reset
	copy(c[capMSI:], []byte{0x05, capExpress, 0x80, 0x00})                       // MSI, 64-bit
	copy(c[capExpress:], []byte{0x10, 0x00, 0x02, 0x00, 0xe1, 0x8d, 0x2c, 0x01}) // endpoint, version 2
	if f.Class == pci.ClassVGA {
		c[capExpress+2] = 0x12 // a legacy endpoint
	}
	now, most := linkGenerations(f.PCIFunction)
	le.PutUint32(c[capExpress+0x0c:], 0x00453d00|uint32(most)) // link: 16 lanes
	le.PutUint16(c[capExpress+0x12:], 0x1100|uint16(now))
	le.PutUint32(c[extAER:], 0x0002_0001) // advanced error reporting 2
	if f.SRIOV != nil {
		le.PutUint32(c[extAER:], extSRIOV<<20|0x0002_0001)
		f.sriovCapability(c[extSRIOV:])
		le.PutUint32(c[extARI:], 0x0001_000e) // alternative routing ids, last in the list
	}
	return c
}

// sriovCapability writes what a physical function says of its virtual ones (PCI
// Express Base Specification, SR-IOV Extended Capability), as boards in public
// listings say it.
func (f *function) sriovCapability(c []byte) {
	le := binary.LittleEndian
	le.PutUint32(c, extARI<<20|0x0001_0010)
	control := uint16(0x10) // routing ids beyond the slot
	if f.SRIOV.Num > 0 {
		control |= 0x09 // enabled, with their memory
	}
	le.PutUint16(c[0x08:], control)
	le.PutUint16(c[0x0c:], uint16(f.SRIOV.Total)) // at first
	le.PutUint16(c[0x0e:], uint16(f.SRIOV.Total))
	le.PutUint16(c[0x10:], uint16(f.SRIOV.Num))
	le.PutUint16(c[0x14:], uint16(f.SRIOV.Offset))
	le.PutUint16(c[0x16:], uint16(f.SRIOV.Stride))
	le.PutUint16(c[0x1a:], f.SRIOV.Device)
	le.PutUint32(c[0x1c:], 0x573) // sizes of pages
	le.PutUint32(c[0x20:], 1)     // 4 KiB
	for i, r := range f.virtual {
		if r[2] != 0 {
			putBAR(c[0x24:0x3c], i, r)
		}
	}
}

// putBAR writes a base address register among six.
func putBAR(bars []byte, i int, r [3]uint64) {
	binary.LittleEndian.PutUint32(bars[4*i:], uint32(r[0])|barBits(r[2]))
	if r[2]&flag64 != 0 && i < 5 {
		binary.LittleEndian.PutUint32(bars[4*i+4:], uint32(r[0]>>32))
	}
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
