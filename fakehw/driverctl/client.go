package driverctl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Do sends one command to the socket on path and returns the reply. An error
// says that there is none; a refusal is a Reply.
func Do(ctx context.Context, path string, c Command) (Reply, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return Reply{}, fmt.Errorf("control %q: %w", c, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, c.String()+"\n"); err != nil {
		return Reply{}, fmt.Errorf("control %q: %w", c, err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, MaxLine)).ReadString('\n')
	if err != nil {
		return Reply{}, fmt.Errorf("control %q: read the reply: %w", c, err)
	}
	return ParseReply(strings.TrimSuffix(line, "\n"))
}
