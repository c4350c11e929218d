package fakehw

import (
	"encoding/binary"

	"gpurig/core/pci"
)

// Capabilities, by id (PCI Code and ID Assignment Specification).
const (
	capPower     = 0x01
	capMSI       = 0x05
	capVendor    = 0x09
	capSubsystem = 0x0d
	capExpress   = 0x10
	capMSIX      = 0x11

	extErrors    = 0x01
	extChannel   = 0x02
	extSerial    = 0x03
	extBudget    = 0x04
	extVendor    = 0x0b
	extAccess    = 0x0d
	extARI       = 0x0e
	extSRIOV     = 0x10
	extResizable = 0x15
	extLatency   = 0x18
	extSecondary = 0x19
	extL1        = 0x1e
	extDataLink  = 0x25
	extLayer16   = 0x26
	extMargin    = 0x27
	extLayer32   = 0x2a
)

// A chain writes capabilities, each linked to the one before.
type chain struct {
	c         []byte
	last, ext int // where the last ones stand
}

// add writes a capability: what comes after its id and link.
func (k *chain) add(at int, id byte, body ...byte) {
	if k.last == 0 {
		k.c[offCaps] = byte(at)
	} else {
		k.c[k.last+1] = byte(at)
	}
	k.c[at] = id
	copy(k.c[at+2:], body)
	k.last = at
}

// extend writes an extended capability, which the first of them has at 0x100.
func (k *chain) extend(at int, id, version uint32, words ...uint32) {
	le := binary.LittleEndian
	if k.ext != 0 {
		le.PutUint32(k.c[k.ext:], le.Uint32(k.c[k.ext:])&0xfffff|uint32(at)<<20)
	}
	le.PutUint32(k.c[at:], version<<16|id)
	for i, w := range words {
		le.PutUint32(k.c[at+4+4*i:], w)
	}
	k.ext = at
}

// An express is what a function's PCI Express capability says.
type express struct {
	kind   int    // endpoint, legacy endpoint, port
	device uint32 // Device Capabilities
}

const legacyEndpoint = 1

// capabilities writes the chain that a function's board has: NVIDIA's as listings of
// lspci have them (open-mpi/hwloc issue 653, cloud-hypervisor issue 434, NVIDIA/nvtrust
// issues 51 and 128), whose contents are unverified where those do not say them.
func (f *function) capabilities(c []byte) {
	k := &chain{c: c}
	late := len(f.BARs) > 1 && f.BARs[1].Index == 2
	switch gpu := f.ID.Vendor == pci.NVIDIA && f.Class.Display(); {
	case f.port != 0:
		f.portChain(k)
	case gpu && late || gpu && f.physfn != nil:
		f.lateChain(k)
	case gpu:
		f.earlyChain(k)
	default:
		k.add(0x60, capPower, 0x03, 0x00, 0x08, 0x00)
		k.add(0x68, capMSI, 0x80, 0x00)
		f.express(k, 0x78, express{device: 0x112c8de1})
		if f.Class>>16 != 0x04 && f.Class>>16 != 0x0c { // sound and USB of a board have MSI alone
			k.add(0xc8, capMSIX, f.msix(64)...)
		}
		k.extend(0x100, extErrors, 2, 0, 0, 0x00462030, 0, 0x6000)
		f.virtualChain(k, 0xbcc, 0xc14)
	}
}

// earlyChain is that of Turing, Ampere and Ada.
func (f *function) earlyChain(k *chain) {
	k.add(0x60, capPower, 0x03, 0x00, 0x08, 0x00)
	x := express{device: 0x17e88de1}
	switch {
	case f.Class == pci.ClassVGA:
		k.add(0x68, capMSI, 0x80|f.bound(), 0x00)
		x = express{legacyEndpoint, 0x10008de1}
	default:
		k.add(0x68, 0, 0x80, 0x00)
	}
	_, most := f.linkGenerations()
	if most < 4 { // Turing cannot be reset alone
		x.device &^= 0x10000000
	}
	f.express(k, 0x78, x)
	if f.Class == pci.ClassVGA {
		k.add(0xb4, capVendor, 0x14)
	} else {
		k.add(0xc8, capMSIX, f.msix(6)...)
	}
	k.extend(0x100, extChannel, 1, 0, 0, 0, 0, 0x800000ff)
	k.extend(0x258, extL1, 1, 0x1f)
	k.extend(0x128, extBudget, 1)
	k.extend(0x420, extErrors, 2, 0, 0, 0x00462030, 0, 0x6000)
	k.extend(0x600, extVendor, 1, 0x02410001)
	k.extend(0x900, extSecondary, 1)
	k.extend(0xbb0, extResizable, 1, f.resizable(0, 1, 3)...)
	f.virtualChain(k, 0xbcc, 0xc14)
	if most >= 4 {
		k.extend(0xc1c, extLayer16, 1)
		k.extend(0xd00, extMargin, 1)
		k.extend(0xe00, extDataLink, 1, 0x80000001)
	}
}

// lateChain is that of Hopper and Blackwell.
func (f *function) lateChain(k *chain) {
	k.add(0x40, capPower, 0x03, 0x00, 0x08, 0x00)
	k.add(0x48, capMSI, 0x88, 0x01)
	f.express(k, 0x60, express{device: 0x112c8021})
	k.add(0x9c, capVendor, 0x14)
	k.add(0xb0, capMSIX, f.msix(9)...)
	k.extend(0x100, extSecondary, 1)
	k.extend(0x12c, extLatency, 1)
	k.extend(0x134, extResizable, 1, f.resizable(2)...)
	k.extend(0x14c, extDataLink, 1, 0x80000001)
	k.extend(0x158, extLayer16, 1)
	k.extend(0x188, extLayer32, 1)
	k.extend(0x1b8, extErrors, 2, 0, 0, 0x00462030, 0, 0x6000)
	k.extend(0x200, extMargin, 1)
	f.virtualChain(k, 0x250, 0x248)
	k.extend(0x2a4, extVendor, 1, 0x01410001)
	k.extend(0x2b8, extBudget, 1)
	k.extend(0x2f0, extSerial, 1, uint32(RoutingID(f.BDF)), 0x48b02d00)
}

// virtualChain writes what a physical function says of its virtual ones.
func (f *function) virtualChain(k *chain, sriov, ari int) {
	if f.SRIOV == nil {
		return
	}
	k.extend(sriov, extSRIOV, 1)
	f.sriovCapability(k.c[sriov:])
	k.extend(ari, extARI, 1)
}

// portChain is that of a port.
func (f *function) portChain(k *chain) {
	k.add(0x40, capPower, 0x03, 0xc8, 0x08, 0x00)
	k.add(0x48, capMSI, 0x80|f.bound(), 0x00)
	f.express(k, 0x68, express{kind: f.port, device: 0x8022})
	if f.ID.SubVendor != 0 {
		k.add(0xa4, capSubsystem, 0, 0, byte(f.ID.SubVendor), byte(f.ID.SubVendor>>8), byte(f.ID.SubDevice), byte(f.ID.SubDevice>>8))
	}
	k.extend(0x100, extErrors, 2, 0, 0, 0x00462030, 0, 0x6000)
	if f.port == rootPort || f.port == downstreamPort {
		k.extend(0x148, extAccess, 1, 0x001d_005f)
	}
}

// bound is the bit by which a driver has switched an interrupt on.
func (f *function) bound() byte {
	if f.Driver != "" && !isVFIO(f.Driver) {
		return 1
	}
	return 0
}

// express writes the PCI Express capability, version 2, of a function whose link has 16
// lanes.
func (f *function) express(k *chain, at int, x express) {
	k.add(at, capExpress, 0x02|byte(x.kind)<<4, 0)
	le := binary.LittleEndian
	if x.kind == rootPort || x.kind == downstreamPort {
		k.c[at+3] = 0x01 // behind it is a slot
	}
	now, most := f.linkGenerations()
	le.PutUint32(k.c[at+0x04:], x.device)
	le.PutUint16(k.c[at+0x08:], 0x2137) // errors are reported, 256 and 512 bytes
	le.PutUint32(k.c[at+0x0c:], 0x00453d00|uint32(most))
	le.PutUint16(k.c[at+0x12:], 0x1100|uint16(now))
	le.PutUint32(k.c[at+0x24:], 0x0813)
	le.PutUint32(k.c[at+0x2c:], (1<<most-1)<<1) // all generations so far
	le.PutUint16(k.c[at+0x30:], uint16(most))
}

// msix is an MSI-X capability of that many interrupts, where NVIDIA's boards have it.
func (f *function) msix(count byte) []byte {
	table, pending := uint32(0xb9_0000), uint32(0xba_0000)
	// A virtual function's window is smaller; where in it they are is unverified.
	if size := f.resources[0][1] - f.resources[0][0] + 1; size < uint64(pending)+8 {
		table, pending = uint32(size/2), uint32(size/4*3)
	}
	out := binary.LittleEndian.AppendUint32([]byte{count - 1, f.bound() << 7}, table)
	return binary.LittleEndian.AppendUint32(out, pending)
}

// resizable says which sizes windows can have: the large one from 64 MiB on, others
// their own.
func (f *function) resizable(windows ...int) []uint32 {
	var out []uint32
	for _, i := range windows {
		size := f.resources[i][1] - f.resources[i][0] + 1
		bit := 0 // of 1 MiB
		for size>>20>>(bit+1) != 0 {
			bit++
		}
		sizes := uint32(1) << (4 + bit)
		if (i == 1 || i == 2) && bit > 6 {
			sizes = 1<<(5+bit) - 1<<10
		}
		out = append(out, sizes, uint32(len(windows))<<5|uint32(i)|uint32(bit)<<8)
	}
	return out
}
