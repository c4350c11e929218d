package vfiouser

import "slices"

// Offsets in a type 0 header and ids of capabilities (PCI Local Bus Specification 3.0,
// section 6.1; PCI Express Base Specification, section 7).
const (
	offCommand = 0x04
	offBAR     = 0x10
	offROM     = 0x30
	offCaps    = 0x34
	offLine    = 0x3c
	offPin     = 0x3d

	capPower   = 0x01
	capMSI     = 0x05
	capExpress = 0x10
	capMSIX    = 0x11

	flr = 1 << 15 // of Express' device control: reset this function
)

// space is a function's configuration space: its bytes, those it has after a reset, and
// which of their bits a guest's writes change.
type space struct {
	now, reset, writable []byte
	caps                 map[byte]int // offset of each capability
}

// newSpace makes the space of these bytes, with BARs of these sizes and low bits.
func newSpace(config []byte, bars [barRegions + 1]bar) *space {
	s := &space{reset: slices.Clone(config), writable: make([]byte, len(config)), caps: map[byte]int{}}
	may := func(off int, bits uint32, bytes int) {
		for i := range bytes {
			if off+i < len(s.writable) {
				s.writable[off+i] |= byte(bits >> (8 * i))
			}
		}
	}
	le.PutUint16(s.reset[offCommand:], 0)
	may(offCommand, 0x0547, 2) // I/O, memory, bus master, parity, SERR#, INTx off
	may(0x0c, 0xff, 1)         // cache line
	may(offLine, 0xff, 1)
	for i, b := range bars[:barRegions] {
		if i > 0 && bars[i-1].is64() {
			continue // the upper half of the one before
		}
		at := offBAR + 4*i
		le.PutUint32(s.reset[at:], b.low())
		if b.size == 0 {
			continue
		}
		mask := -b.size // all ones above the bits that number its bytes
		may(at, uint32(mask)&^0xf, 4)
		if b.low()&1 != 0 {
			may(at, uint32(mask)&^3, 4)
		}
		if b.is64() && i < barRegions-1 {
			le.PutUint32(s.reset[at+4:], 0)
			may(at+4, uint32(mask>>32), 4)
		}
	}
	le.PutUint32(s.reset[offROM:], 0)
	if rom := bars[romRegion]; rom.size > 0 {
		may(offROM, uint32(-rom.size)&0xffff_f800|1, 4)
	}
	for at, n := int(s.reset[offCaps]), 0; at >= 0x40 && at < 0xfc && n < 48; at, n = int(s.reset[at+1])&^3, n+1 {
		s.caps[s.reset[at]] = at
		switch s.reset[at] {
		case capPower:
			may(at+4, 0x0103, 2)
		case capMSI:
			may(at+2, 0x71, 2)
			may(at+4, 0xffff_fffc, 4)
			data := at + 8
			if s.reset[at+2]&0x80 != 0 { // 64-bit
				may(at+8, 0xffff_ffff, 4)
				data = at + 12
			}
			may(data, 0xffff, 2)
		case capMSIX:
			may(at+2, 0xc000, 2)
		case capExpress:
			may(at+0x08, 0x7fff, 2) // device control, but the bit that resets
			may(at+0x10, 0x0fdb, 2) // link control
			may(at+0x28, 0xffff, 2)
			may(at+0x30, 0xffff, 2)
		}
	}
	s.now = slices.Clone(s.reset)
	return s
}

// write changes the bits that may change, and reports whether the guest asks for a reset.
func (s *space) write(off int, data []byte) (reset bool) {
	for i, b := range data {
		w := s.writable[off+i]
		s.now[off+i] = s.now[off+i]&^w | b&w
	}
	control := s.caps[capExpress] + 9 // its upper byte
	return control > 9 && s.reset[control-2]&0x10 != 0 && off <= control && control < off+len(data) && data[control-off]&(flr>>8) != 0
}

// vectors are how many interrupts of a kind the function has.
func (s *space) vectors(kind uint32) uint32 {
	at, ok := s.caps[map[uint32]byte{irqMSI: capMSI, irqMSIX: capMSIX}[kind]]
	switch {
	case kind == irqIntx && s.reset[offPin] != 0:
		return 1
	case kind == irqError && s.caps[capExpress] != 0:
		return 1
	case kind == irqMSI && ok:
		return 1 << (s.reset[at+2] >> 1 & 7)
	case kind == irqMSIX && ok:
		return uint32(le.Uint16(s.reset[at+2:])&0x7ff) + 1
	}
	return 0
}
