package reach

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const ext = ".sock"

// socketName names the machine that this process serves. A process id alone would
// not do: a machine inside of a machine has its own process namespace, and both
// have one folder.
func socketName() string {
	ns, _ := os.Readlink("/proc/self/ns/pid") // without /proc there are no machines in machines
	return strconv.Itoa(os.Getpid()) + "-" + strings.Trim(ns, "pid:[]") + ext
}

// listen makes a socket that has its name from the moment on at which somebody
// listens, so that one which refuses is known to be left by a killed process.
func listen(path string) (*net.UnixListener, error) {
	early := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	_ = os.Remove(early) // of a process that had our id and was killed
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	if err := os.Rename(early, path); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(early))
	}
	return l, nil
}

// sockets lists those in the folder of a user's machines.
func sockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = ours(dir)
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ext) && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// sweep takes away the sockets of machines that were killed (F29). What is not
// certain stays.
func sweep(dir string) {
	names, err := sockets(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		c, err := net.DialTimeout("unix", filepath.Join(dir, name), patience)
		if err == nil {
			c.Close()
		} else if dead(err) {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// dead reports whether connecting failed since nobody listens any more.
func dead(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// listener returns the process that listens at the other end of c, as it is called
// in our process namespace; 0 where it has no number there.
func listener(c net.Conn) int {
	if u, ok := c.(*net.UnixConn); ok {
		if cred := peer(u); cred != nil {
			return int(cred.Pid)
		}
	}
	return 0
}

// peer is who is at the other end of c; nil if the kernel does not say.
func peer(c *net.UnixConn) *unix.Ucred {
	raw, err := c.SyscallConn()
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
