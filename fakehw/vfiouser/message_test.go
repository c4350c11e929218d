package vfiouser

import (
	"bytes"
	"testing"
)

func TestMessagesThatAreRefused(t *testing.T) {
	h := func(size, flags uint32) []byte {
		return header{ID: 1, Command: cmdRead, Size: size, Flags: flags}.append(nil)
	}
	irqs := func(flags, index, start, count uint32) []byte { return words(20, flags, index, start, count) }
	for name, err := range map[string]error{
		"a short header":                second(parseHeader(h(16, 0)[:15])),
		"smaller than its header":       second(parseHeader(h(15, 0))),
		"larger than any":               second(parseHeader(h(maxMessage+1, 0))),
		"a reply":                       second(parseHeader(h(16, flagReply))),
		"a read of too much":            third(parseTransfer(transfer{Count: maxTransfer + 1}.append(nil))),
		"a write of less than it says":  third(parseWrites(append(transfer{Count: 5}.append(nil), 1, 2, 3, 4), false)),
		"several writes of nine bytes":  third(parseWrites(append(append(le.AppendUint64(nil, 1), transfer{Count: 9}.append(nil)...), make([]byte, 9)...), true)),
		"fewer writes than it says":     third(parseWrites(le.AppendUint64(nil, 1<<60), true)),
		"two actions":                   second(parseIRQSet(irqs(irqNone|irqMask|irqTrigger, 0, 0, 1))),
		"no data":                       second(parseIRQSet(irqs(irqTrigger, 0, 0, 1))),
		"an unknown kind of interrupt":  second(parseIRQSet(irqs(irqNone|irqTrigger, irqs0, 0, 1))),
		"fewer answers than vectors":    second(parseIRQSet(irqs(irqBool|irqTrigger, irqMSI, 0, 1))),
		"an empty DMA window":           second(parseMap(make([]byte, 32))),
		"a DMA window over the end":     second(parseMap(append(make([]byte, 16), bytes.Repeat([]byte{0xff}, 16)...))),
		"another version":               second(parseVersion([]byte{1, 0, 0, 0})),
		"capabilities that are no JSON": second(parseVersion([]byte("\x00\x00\x01\x00{x\x00"))),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

const irqs0 = irqs

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// FuzzMessage: what is taken is within the limits, and a header is what it was read from.
func FuzzMessage(f *testing.F) {
	f.Add(header{1, cmdRead, 32, 0, 0}.append(nil), transfer{4096, 7, 4}.append(nil))
	f.Add(header{2, cmdSetIRQs, 36, flagNoReply, 0}.append(nil), words(20, irqEvent|irqTrigger, irqMSIX, 0, 4))
	f.Add(header{3, cmdWriteMulti, 40, 0, 0}.append(nil), append(append(le.AppendUint64(nil, 1), transfer{0, 0, 3}.append(nil)...), make([]byte, 8)...))
	f.Add(header{4, cmdDMAMap, 48, 0, 0}.append(nil), append(make([]byte, 24), 0, 16, 0, 0, 0, 0, 0, 0))
	f.Add(header{5, cmdVersion, 20, 0, 0}.append(nil), []byte("\x00\x00\x01\x00{}\x00"))
	f.Fuzz(func(t *testing.T, head, body []byte) {
		if h, err := parseHeader(head); err == nil && !bytes.Equal(h.append(nil), head[:headerSize]) {
			t.Errorf("%x is %+v", head, h)
		}
		for _, multi := range []bool{false, true} {
			all, data, err := parseWrites(body, multi)
			if err == nil && len(all) != len(data) {
				t.Errorf("%d writes with %d data", len(all), len(data))
			}
			for i := range data {
				if len(data[i]) != int(all[i].Count) {
					t.Errorf("write of %d bytes has %d", all[i].Count, len(data[i]))
				}
			}
		}
		if s, err := parseIRQSet(body); err == nil && (s.Count > maxVectors || s.Index >= irqs) {
			t.Errorf("%+v", s)
		}
		if w, err := parseMap(body); err == nil && !w.overlaps(w) {
			t.Errorf("%+v does not overlap itself", w)
		}
		_, _, _ = parseUnmap(body)
		_, _ = parseVersion(body)
	})
}

// FuzzClient: no sequence of messages brings the server down, and it answers each that
// wants an answer.
func FuzzClient(f *testing.F) {
	f.Add(uint16(cmdRead), transfer{0, confRegion, 64}.append(nil))
	f.Add(uint16(cmdWrite), append(transfer{offBAR, confRegion, 4}.append(nil), 255, 255, 255, 255))
	f.Add(uint16(cmdSetIRQs), words(20, irqNone|irqTrigger, irqMSIX, 0, 0))
	f.Add(uint16(cmdRegionInfo), words(32, 0, 1, 0, 0, 0, 0, 0))
	f.Add(uint16(cmdReset), []byte{})
	fn := made(f)
	f.Fuzz(func(t *testing.T, command uint16, body []byte) {
		c := &client{f: fn, greeted: true, events: map[irq]int{}}
		out, err := c.do(header{Command: command}, body, nil)
		if len(out) > maxMessage {
			t.Errorf("a reply of %d bytes", len(out))
		}
		if command == cmdReset && err != nil {
			t.Error(err)
		}
		if got, err := fn.read(transfer{0, confRegion, 4}); err != nil || le.Uint32(got) != 0x20b9_10de {
			t.Errorf("ids %x, %v", got, err)
		}
	})
}
