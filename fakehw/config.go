package fakehw

import (
	"encoding/binary"
)

// Offsets in the header of configuration space (PCI Local Bus Specification 3.0, section
// 6.1, PCI-to-PCI Bridge Architecture Specification 1.2, section 3.2).
const (
	offCommand  = 0x04
	offStatus   = 0x06
	offRevision = 0x08
	offHeader   = 0x0e
	offBAR      = 0x10
	offBuses    = 0x18
	offIO       = 0x1c
	offMemory   = 0x20
	offPref     = 0x24
	offSubsys   = 0x2c
	offROM      = 0x30
	offCaps     = 0x34
	offIRQLine  = 0x3c
	offIRQPin   = 0x3d
	offControl  = 0x3e
)

// config returns the 4096 bytes of a PCI Express function's configuration space, or the
// 256 of one that is a part of the processor.
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
	le.PutUint32(c[offRevision:], uint32(f.Class)<<8|uint32(f.Revision))
	if f.multi && f.BDF.Function == 0 {
		c[offHeader] = 0x80
	}
	c[offIRQLine] = 0xff
	c[offIRQPin] = pin
	if f.port != 0 {
		f.bridgeHeader(c)
	} else {
		le.PutUint16(c[offSubsys:], f.ID.SubVendor)
		le.PutUint16(c[offSubsys+2:], f.ID.SubDevice)
		for i, r := range windows {
			if r[2] != 0 {
				putBAR(c[offBAR:offBAR+24], i, r)
			}
		}
		if rom := f.resources[6]; rom[2] != 0 {
			le.PutUint32(c[offROM:], uint32(rom[0])) // disabled, as when a driver is bound
		}
	}
	if f.linkless {
		return c[:256]
	}
	le.PutUint16(c[offStatus:], 0x0010) // there is a capability list
	f.capabilities(c)
	return c
}

// bridgeHeader writes what a port's header has in other places than others'.
func (f *function) bridgeHeader(c []byte) {
	le := binary.LittleEndian
	c[offHeader] |= 1
	c[offBuses], c[offBuses+1], c[offBuses+2] = f.BDF.Bus, uint8(f.secondary), f.subordinate
	ports, memory, pref := f.resources[bridgeWindow], f.resources[bridgeWindow+1], f.resources[bridgeWindow+2]
	c[offIO], c[offIO+1] = uint8(ports[0]>>8)&0xf0, uint8(ports[1]>>8)&0xf0
	le.PutUint16(c[offMemory:], uint16(memory[0]>>16)&0xfff0)
	le.PutUint16(c[offMemory+2:], uint16(memory[1]>>16)&0xfff0)
	le.PutUint16(c[offPref:], uint16(pref[0]>>16)&0xfff0|1)
	le.PutUint16(c[offPref+2:], uint16(pref[1]>>16)&0xfff0|1)
	le.PutUint32(c[offPref+4:], uint32(pref[0]>>32))
	le.PutUint32(c[offPref+8:], uint32(pref[1]>>32))
	for at, closed := range map[int]bool{offIO: ports[2] == 0, offMemory: memory[2] == 0, offPref: pref[2] == 0} {
		if closed { // it ends before it starts
			c[at] |= 0xf0
		}
	}
	c[offControl] = 0x02 // it reports errors
}

// sriovCapability writes what a physical function says of its virtual ones (PCI
// Express Base Specification, SR-IOV Extended Capability), as boards in public
// listings say it.
func (f *function) sriovCapability(c []byte) {
	le := binary.LittleEndian
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
