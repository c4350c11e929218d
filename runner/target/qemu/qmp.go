package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// A qmp is QEMU's side for machines, QMP. It is used by one goroutine at a time.
//
// Reference: https://www.qemu.org/docs/master/interop/qmp-spec.html
type qmp struct {
	conn   net.Conn
	dec    *json.Decoder
	events []event // that nobody has awaited yet
}

// An event is what QEMU says of its own accord.
type event struct {
	Name string `json:"event"`
	Data struct {
		Device string `json:"device"`
	} `json:"data"`
}

// A message is a line of QEMU: one of a greeting, a reply, or an event.
type message struct {
	event
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
}

func newQMP(conn net.Conn) *qmp { return &qmp{conn: conn, dec: json.NewDecoder(conn)} }

// greet takes the connection into use.
func (m *qmp) greet(ctx context.Context) error {
	if _, err := m.next(ctx); err != nil {
		return err
	}
	return m.execute(ctx, "qmp_capabilities", nil)
}

// next reads one message.
func (m *qmp) next(ctx context.Context) (message, error) {
	defer until(ctx, m.conn)()
	var x message
	err := m.dec.Decode(&x)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("QEMU has ended")
	}
	return x, err
}

// until has reads of conn end with ctx; call what it returns when they are over.
func until(ctx context.Context, conn net.Conn) func() {
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// execute has QEMU do something. What arrives meanwhile is kept.
func (m *qmp) execute(ctx context.Context, command string, arguments any) error {
	call := map[string]any{"execute": command}
	if arguments != nil {
		call["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(call); err != nil {
		return err
	}
	for {
		x, err := m.next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", command, err)
		case x.Error != nil:
			return fmt.Errorf("%s: QEMU: %s", command, x.Error.Desc)
		case x.Return != nil:
			return nil
		}
		m.events = append(m.events, x.event)
	}
}

// await waits for an event of a device.
func (m *qmp) await(ctx context.Context, name, device string) error {
	for {
		if i := slices.IndexFunc(m.events, func(e event) bool { return e.Name == name && e.Data.Device == device }); i >= 0 {
			m.events = slices.Delete(m.events, i, i+1)
			return nil
		}
		x, err := m.next(ctx)
		if err != nil {
			return fmt.Errorf("wait for %s of %s: %w", name, device, err)
		}
		if x.Name != "" {
			m.events = append(m.events, x.event)
		}
	}
}
