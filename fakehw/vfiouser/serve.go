package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// Serve serves f to the clients of l, one after the other, until l is closed and f too,
// which is no error. What a client has of it, its memory and its interrupts, ends with it; the
// state of the function stays. A client that breaks the protocol is cut off; said, which
// may be nil, hears why.
func (f *Function) Serve(l *net.UnixListener, said func(error)) error {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if !f.connect(conn) {
			return conn.Close()
		}
		c := &client{f: f, conn: conn, events: map[irq]int{}}
		if err := c.serve(); err != nil && said != nil {
			said(err)
		}
		f.disconnect()
		c.end()
	}
}

// An irq is one interrupt of the function.
type irq struct{ kind, n uint32 }

// A client is one connection.
type client struct {
	f       *Function
	conn    *net.UnixConn
	greeted bool
	windows []window
	events  map[irq]int // event file descriptors
}

func (c *client) end() {
	for _, fd := range c.events {
		unix.Close(fd)
	}
}

func (c *client) serve() error {
	for {
		h, body, fds, err := c.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		var reply []byte
		if err == nil {
			reply, err = c.do(h, body, fds)
		}
		closeAll(fds)
		var no unix.Errno
		if err != nil && !errors.As(err, &no) {
			return err // it is not to be understood
		}
		if h.Flags&flagNoReply != 0 {
			continue
		}
		out := header{ID: h.ID, Command: h.Command, Flags: flagReply}
		if no != 0 {
			out.Flags, out.Errno, reply = flagReply|flagError, uint32(no), nil
		}
		out.Size = uint32(headerSize + len(reply))
		if _, err := c.conn.Write(append(out.append(make([]byte, 0, out.Size)), reply...)); err != nil {
			return nil // the client has gone
		}
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// receive reads one message with the descriptors that came with it. The error is
// io.EOF where the client has gone between two.
func (c *client) receive() (header, []byte, []int, error) {
	var head [headerSize]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	var fds []int
	for n := 0; n < headerSize; {
		k, oobn, _, _, err := c.conn.ReadMsgUnix(head[n:], oob)
		if err == nil && oobn > 0 {
			var more []int
			more, err = descriptors(oob[:oobn])
			fds = append(fds, more...)
		}
		if err == nil && k == 0 {
			err = io.EOF
		}
		if err != nil {
			closeAll(fds)
			return header{}, nil, nil, err
		}
		n += k
	}
	h, err := parseHeader(head[:])
	var body []byte
	if err == nil {
		body = make([]byte, h.Size-headerSize)
		if _, err = io.ReadFull(c.conn, body); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		closeAll(fds)
		return header{}, nil, nil, err
	}
	return h, body, fds, nil
}

func descriptors(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		out = append(out, fds...)
	}
	for _, fd := range out {
		unix.CloseOnExec(fd)
	}
	return out, nil
}

// do carries out one command. Of fds it sets to -1 those that it keeps. An error that
// is a unix.Errno goes to the client, any other ends the connection.
func (c *client) do(h header, body []byte, fds []int) ([]byte, error) {
	if !c.greeted {
		if h.Command != cmdVersion {
			return nil, fmt.Errorf("command %d comes before the version", h.Command)
		}
		theirs, err := parseVersion(body)
		if err != nil {
			return nil, err
		}
		c.greeted = true
		out := le.AppendUint16(nil, major)
		out = le.AppendUint16(out, min(theirs, minor))
		return append(append(out, capsText...), 0), nil
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	switch h.Command {
	case cmdDMAMap:
		return nil, c.dmaMap(body)
	case cmdDMAUnmap:
		return c.dmaUnmap(body)
	case cmdInfo:
		const resets, isPCI = 1, 2
		return words(16, resets|isPCI, regions, irqs), nil
	case cmdRegionInfo:
		return c.regionInfo(body)
	case cmdIRQInfo:
		return c.irqInfo(body)
	case cmdSetIRQs:
		s, err := parseIRQSet(body)
		if err != nil {
			return nil, err
		}
		return nil, c.setIRQs(s, fds)
	case cmdRead:
		t, _, err := parseTransfer(body)
		if err != nil {
			return nil, err
		}
		data, err := c.f.read(t)
		return append(t.append(nil), data...), err
	case cmdWrite, cmdWriteMulti:
		return c.write(body, h.Command == cmdWriteMulti)
	case cmdReset:
		return nil, c.f.reset()
	}
	return nil, unix.ENOSYS
}

// words are 32-bit numbers as a message has them.
func words(all ...uint32) []byte {
	var out []byte
	for _, w := range all {
		out = le.AppendUint32(out, w)
	}
	return out
}

// word returns a 32-bit number of a request, 0 beyond its end.
func word(b []byte, at int) uint32 {
	if len(b) < at+4 {
		return 0
	}
	return le.Uint32(b[at:])
}

func (c *client) dmaMap(body []byte) error {
	w, err := parseMap(body)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(c.windows, w.overlaps):
		return unix.EEXIST
	case len(c.windows) == maxMaps:
		return unix.ENOSPC
	}
	c.windows = append(c.windows, w)
	return nil
}

func (c *client) dmaUnmap(body []byte) ([]byte, error) {
	w, all, err := parseUnmap(body)
	if err != nil {
		return nil, err
	}
	i := slices.Index(c.windows, w)
	switch {
	case all:
		c.windows = nil
	case i < 0:
		return nil, unix.ENOENT
	default:
		c.windows = slices.Delete(c.windows, i, i+1)
	}
	return body[:24], nil
}

func (c *client) regionInfo(body []byte) ([]byte, error) {
	index := word(body, 8)
	if len(body) < 32 || index >= regions {
		return nil, unix.EINVAL
	}
	var flags uint32
	size := c.f.size(index)
	if size > 0 {
		flags = 1 // read
		if index != romRegion {
			flags |= 2
		}
	}
	out := words(32, flags, index, 0)
	return le.AppendUint64(le.AppendUint64(out, size), 0), nil
}

func (c *client) irqInfo(body []byte) ([]byte, error) {
	index := word(body, 8)
	if len(body) < 16 || index >= irqs {
		return nil, unix.EINVAL
	}
	const eventfd, maskable, automasked, noResize = 1, 2, 4, 8
	flags := uint32(eventfd | noResize)
	if index == irqIntx {
		flags = eventfd | maskable | automasked
	}
	return words(16, flags, index, c.f.space.vectors(index)), nil
}

// setIRQs says where interrupts go, or has some happen. Masks are taken as they come:
// the function raises none of its own.
func (c *client) setIRQs(s irqSet, fds []int) error {
	n := c.f.space.vectors(s.Index)
	if s.Start > n || s.Count > n-s.Start {
		return unix.EINVAL
	}
	if s.Flags&irqTrigger == 0 {
		return nil
	}
	forget := func(k irq) {
		if fd, ok := c.events[k]; ok {
			unix.Close(fd)
			delete(c.events, k)
		}
	}
	if s.Count == 0 && s.Flags&irqNone != 0 {
		for k := range n {
			forget(irq{s.Index, k})
		}
		return nil
	}
	if s.Flags&irqEvent != 0 && len(fds) > int(s.Count) {
		return unix.EINVAL
	}
	for i := range s.Count {
		k := irq{s.Index, s.Start + i}
		switch {
		case s.Flags&irqEvent != 0:
			forget(k)
			if int(i) < len(fds) {
				c.events[k], fds[i] = fds[i], -1
			}
		case s.Flags&irqBool != 0 && s.Bools[i] == 0:
		default:
			if fd, ok := c.events[k]; ok {
				if _, err := unix.Write(fd, le.AppendUint64(nil, 1)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *client) write(body []byte, multi bool) ([]byte, error) {
	all, data, err := parseWrites(body, multi)
	if err != nil {
		return nil, err
	}
	for i, t := range all {
		if err := c.f.write(t, data[i]); err != nil {
			return nil, err
		}
	}
	if multi {
		return le.AppendUint64(nil, uint64(len(all))), nil
	}
	return all[0].append(nil), nil
}
