package driverctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A Handler carries out commands. It is asked by several goroutines at once.
type Handler interface {
	// Control carries c out and says so. ctx ends with the server.
	Control(ctx context.Context, c Command, from Caller) Reply
}

// A HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, c Command, from Caller) Reply

// Control calls f.
func (f HandlerFunc) Control(ctx context.Context, c Command, from Caller) Reply {
	return f(ctx, c, from)
}

// What one server spends on clients that do not behave.
const (
	maxClients = 64
	maxIdle    = 30 * time.Second
)

// Serve answers requests on l until ctx ends, which is no error, or accepting
// fails. It closes l, and returns when every connection is closed. A connection
// may bring several requests, one after the other; a line that is no request is
// answered with INVALID_ARGUMENT and ends its connection.
//
// A caller's ids are those that the kernel gives of a Unix socket. The server's
// own user is taken for the machine's root: in a user namespace, that is who
// root is outside. Callers on other sockets are nobody.
func Serve(ctx context.Context, l net.Listener, h Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel() // before open.Wait: it closes the connections
	room := make(chan struct{}, maxClients)
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ECONNABORTED) {
			select { // a client that waits, or one that went: neither ends the machine
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			return err
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			conn.Close()
			return nil
		}
		open.Go(func() {
			defer func() { <-room }()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			talk(ctx, conn, h)
		})
	}
}

// talk answers the requests of one connection.
func talk(ctx context.Context, conn net.Conn, h Handler) {
	from := caller(conn)
	in := bufio.NewReaderSize(conn, MaxLine)
	for {
		conn.SetReadDeadline(time.Now().Add(maxIdle))
		line, err := in.ReadSlice('\n')
		if err != nil && len(line) == 0 {
			return // the client is done
		}
		var r Reply
		c, bad := Parse(string(bytes.TrimSuffix(line, []byte("\n"))))
		switch {
		case errors.Is(err, io.EOF):
			r = Refuse(nvml.ERROR_INVALID_ARGUMENT, "the line has no end")
		case err != nil:
			r = Refuse(nvml.ERROR_INVALID_ARGUMENT, "the line is longer than %d bytes", MaxLine)
		case bad != nil:
			r = Refuse(nvml.ERROR_INVALID_ARGUMENT, "%v", bad)
		default:
			r = h.Control(ctx, c, from)
		}
		conn.SetWriteDeadline(time.Now().Add(maxIdle))
		if _, werr := io.WriteString(conn, r.String()+"\n"); werr != nil || err != nil || bad != nil {
			return
		}
	}
}

// nobody is the user that has no rights (/proc/sys/kernel/overflowuid).
const nobody = 65534

// caller asks the kernel who connected.
func caller(conn net.Conn) Caller {
	none := Caller{UID: nobody, GID: nobody}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return none
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return none
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return none
	}
	c := Caller{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}
	if c.UID == uint32(os.Geteuid()) {
		c.UID, c.GID = 0, 0
	}
	return c
}
