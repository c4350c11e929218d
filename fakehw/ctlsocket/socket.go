package ctlsocket

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix is what the sockets of a user's machines are called, "@" standing for the
// zero byte of an abstract name.
func prefix(user string) string { return "@gpurig/machine/" + user + "/" }

// sockets lists those of a user's machines in this network namespace, by
// /proc/net/unix (proc_net(5)).
func sockets(user string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		// Number, references, protocol, flags, type, state, inode, name.
		f := strings.Fields(line)
		if len(f) == 8 && f[3] == listening && strings.HasPrefix(f[7], prefix(user)) {
			out = append(out, f[7])
		}
	}
	return out, nil
}

// listening is __SO_ACCEPTCON (include/uapi/linux/net.h): the ends of connections
// have the name too.
const listening = "00010000"

// peer is who is at the other end of c; nil if the kernel does not say.
func peer(c net.Conn) *unix.Ucred {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || credErr != nil {
		return nil
	}
	return cred
}
