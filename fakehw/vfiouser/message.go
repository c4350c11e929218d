package vfiouser

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
)

// Commands of the protocol that a server carries out.
const (
	cmdVersion    = 1
	cmdDMAMap     = 2
	cmdDMAUnmap   = 3
	cmdInfo       = 4
	cmdRegionInfo = 5
	cmdIRQInfo    = 7
	cmdSetIRQs    = 8
	cmdRead       = 9
	cmdWrite      = 10
	cmdReset      = 13
	cmdWriteMulti = 15
)

// Bits of a header's flags.
const (
	flagReply   = 1 << 0
	flagNoReply = 1 << 4
	flagError   = 1 << 5
	maskType    = 0xf
)

const (
	headerSize  = 16
	maxTransfer = 1 << 20                       // bytes of one read or write; the protocol's default
	maxMessage  = headerSize + 16 + maxTransfer // of what a client may send
	maxMaps     = 65535                         // DMA windows at once; the protocol's default
	maxFDs      = 16                            // in one message
	major       = 0                             // version of the protocol
	minor       = 1
	barRegions  = 6 // BARs 0 to 5
	romRegion   = 6
	confRegion  = 7
	regions     = 9 // those of VFIO's PCI devices; 8 is VGA's
	irqIntx     = 0
	irqMSI      = 1
	irqMSIX     = 2
	irqError    = 3      // of PCI Express, which none of ours tells of
	irqs        = 5      // requests to let go have none
	dmaUnmapAll = 1 << 1 // VFIO_DMA_UNMAP_FLAG_ALL
	maxVectors  = 2048   // of MSI-X
	capsText    = `{"capabilities":{"max_msg_fds":16,"max_data_xfer_size":1048576,"pgsizes":4096}}`
)

// A header precedes every message.
type header struct {
	ID      uint16
	Command uint16
	Size    uint32 // of the message, header included
	Flags   uint32
	Errno   uint32 // of a reply with flagError
}

var le = binary.LittleEndian // the host's order, on every machine that runs this

func (h header) append(b []byte) []byte {
	b = le.AppendUint16(b, h.ID)
	b = le.AppendUint16(b, h.Command)
	b = le.AppendUint32(b, h.Size)
	b = le.AppendUint32(b, h.Flags)
	return le.AppendUint32(b, h.Errno)
}

// parseHeader reads the header of a command. Of another message nothing behind it can
// be understood, so that the connection ends.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, fmt.Errorf("header of %d bytes, want %d", len(b), headerSize)
	}
	h := header{le.Uint16(b), le.Uint16(b[2:]), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
	switch {
	case h.Size < headerSize || h.Size > maxMessage:
		return header{}, fmt.Errorf("message %d has %d bytes, want %d to %d", h.ID, h.Size, headerSize, maxMessage)
	case h.Flags&maskType != 0:
		return header{}, fmt.Errorf("message %d has type %d, want a command", h.ID, h.Flags&maskType)
	}
	return h, nil
}

// A transfer is the head of a read or write of a region.
type transfer struct {
	Offset uint64
	Region uint32
	Count  uint32 // bytes
}

func (t transfer) append(b []byte) []byte {
	b = le.AppendUint64(b, t.Offset)
	b = le.AppendUint32(b, t.Region)
	return le.AppendUint32(b, t.Count)
}

// parseTransfer reads a transfer, and returns what is behind it.
func parseTransfer(b []byte) (transfer, []byte, error) {
	if len(b) < 16 {
		return transfer{}, nil, fmt.Errorf("a transfer of %d bytes, want 16", len(b))
	}
	t := transfer{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])}
	if t.Count > maxTransfer {
		return transfer{}, nil, fmt.Errorf("a transfer of %d bytes, want at most %d", t.Count, maxTransfer)
	}
	return t, b[16:], nil
}

// parseWrites reads the writes of one message: one of them, or as many as it says.
func parseWrites(b []byte, multi bool) ([]transfer, [][]byte, error) {
	n := uint64(1)
	if multi {
		if len(b) < 8 {
			return nil, nil, fmt.Errorf("several writes in %d bytes, want at least 8", len(b))
		}
		n, b = le.Uint64(b), b[8:]
	}
	var all []transfer
	var data [][]byte
	for range n {
		t, rest, err := parseTransfer(b)
		if err != nil {
			return nil, nil, err
		}
		size := int(t.Count)
		if multi {
			size = 8 // of each, however much of it counts
		}
		if len(rest) < size || int(t.Count) > size {
			return nil, nil, fmt.Errorf("a write of %d bytes has %d", t.Count, len(rest))
		}
		all, data, b = append(all, t), append(data, rest[:t.Count]), rest[size:]
	}
	return all, data, nil
}

// An irqSet says what a client wants of a range of interrupts.
type irqSet struct {
	Flags, Index, Start, Count uint32
	Bools                      []byte
}

// Bits of an irqSet's flags.
const (
	irqNone    = 1 << 0
	irqBool    = 1 << 1
	irqEvent   = 1 << 2
	irqMask    = 1 << 3
	irqUnmask  = 1 << 4
	irqTrigger = 1 << 5
)

func parseIRQSet(b []byte) (irqSet, error) {
	if len(b) < 20 {
		return irqSet{}, fmt.Errorf("interrupts in %d bytes, want 20", len(b))
	}
	s := irqSet{Flags: le.Uint32(b[4:]), Index: le.Uint32(b[8:]), Start: le.Uint32(b[12:]), Count: le.Uint32(b[16:]), Bools: b[20:]}
	data, action := s.Flags&(irqNone|irqBool|irqEvent), s.Flags&(irqMask|irqUnmask|irqTrigger)
	switch {
	case s.Index >= irqs || s.Count > maxVectors || s.Start > maxVectors:
		return irqSet{}, fmt.Errorf("interrupts %d to %d of kind %d: there are none", s.Start, uint64(s.Start)+uint64(s.Count), s.Index)
	case data&(data-1) != 0 || data == 0 || action&(action-1) != 0 || action == 0:
		return irqSet{}, fmt.Errorf("interrupts with flags %#x, want one kind of data and one action", s.Flags)
	case data == irqBool && len(s.Bools) < int(s.Count):
		return irqSet{}, fmt.Errorf("%d interrupts with %d bytes", s.Count, len(s.Bools))
	}
	return s, nil
}

// A window is a range of a client's memory.
type window struct{ Address, Size uint64 }

func (w window) overlaps(o window) bool {
	return w.Address <= o.Address+(o.Size-1) && o.Address <= w.Address+(w.Size-1)
}

// parseMap reads a window that the client lets the server have.
func parseMap(b []byte) (window, error) {
	if len(b) < 32 {
		return window{}, fmt.Errorf("a DMA map of %d bytes, want 32", len(b))
	}
	return checked(window{le.Uint64(b[16:]), le.Uint64(b[24:])})
}

// parseUnmap reads a window that the client takes back; all says every one.
func parseUnmap(b []byte) (w window, all bool, err error) {
	if len(b) < 24 {
		return window{}, false, fmt.Errorf("a DMA unmap of %d bytes, want 24", len(b))
	}
	if le.Uint32(b[4:])&dmaUnmapAll != 0 {
		return window{}, true, nil
	}
	w, err = checked(window{le.Uint64(b[8:]), le.Uint64(b[16:])})
	return w, false, err
}

func checked(w window) (window, error) {
	if w.Size == 0 || w.Address+(w.Size-1) < w.Address {
		return window{}, fmt.Errorf("DMA of %d bytes at %#x", w.Size, w.Address)
	}
	return w, nil
}

// parseVersion reads what version a client proposes.
func parseVersion(b []byte) (theirs uint16, err error) {
	if len(b) < 4 {
		return 0, fmt.Errorf("a version of %d bytes, want 4", len(b))
	}
	if n := le.Uint16(b); n != major {
		return 0, fmt.Errorf("version %d.%d of the protocol, want %d", n, le.Uint16(b[2:]), major)
	}
	if text := b[4:]; len(text) > 0 {
		if i := slices.Index(text, 0); i >= 0 {
			text = text[:i]
		}
		if !json.Valid(text) {
			return 0, fmt.Errorf("capabilities of the client are not JSON")
		}
	}
	return le.Uint16(b[2:]), nil
}
