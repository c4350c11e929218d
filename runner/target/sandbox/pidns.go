package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurig/core/plan"
	"gpurig/runner/target/agent"
)

// subidFile is where a pidns's lists of subordinate ids are, below the scratch
// directory.
const subidFile = "subids"

// A PIDNS is a process and network namespace in a sandbox, for a daemon that starts
// containers. Its first process is ours: the daemon can be restarted without its
// containers, and nothing of either outlives us.
type PIDNS struct {
	nsenter string
	first   *exec.Cmd
	stdin   io.Closer // closing it ends everything in the namespace
}

// NewPIDNS makes one. ids are what /etc/subuid and /etc/subgid give to owner there;
// unshare is the program of util-linux.
func (w *Sandbox) NewPIDNS(unshare, owner string, ids []plan.IDMap) (*PIDNS, error) {
	var list strings.Builder
	for _, m := range ids {
		fmt.Fprintf(&list, "%s:%d:%d\n", owner, m.Host, m.Count)
	}
	if err := os.WriteFile(w.Outside(subidFile), []byte(list.String()), 0o644); err != nil {
		return nil, err
	}
	n := &PIDNS{nsenter: w.nsenter}
	n.first = w.Command(context.Background(), unshare, "--mount", "--propagation", "private",
		w.Inside(ProbePath), "pidns", w.Inside(subidFile))
	n.first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	var stderr bytes.Buffer
	n.first.Stderr = &stderr
	in, err := n.first.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := n.first.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := n.first.Start(); err != nil {
		return nil, fmt.Errorf("start the daemon's helper process: %w", err)
	}
	n.stdin = in
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != agent.Ready {
		in.Close()
		werr := n.first.Wait()
		return nil, fmt.Errorf("namespaces of the daemon: %s (%v)", strings.TrimSpace(stderr.String()), werr)
	}
	return n, nil
}

// Path is the search path of programs in a pidns.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command returns a program to be run in the pidns. It gets an ordinary path, and
// no environment of ours.
func (n *PIDNS) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.nsenter, append([]string{
		"--target", fmt.Sprint(n.first.Process.Pid), "--mount", "--pid", "--net", "--wd=/", "--", program,
	}, args...)...)
	cmd.Env = []string{"PATH=" + Path, "HOME=/root", "LANG=C"}
	return cmd
}

// Close ends every process of the pidns.
func (n *PIDNS) Close() error {
	n.stdin.Close()
	if err := n.first.Wait(); err != nil {
		return fmt.Errorf("the daemon's helper process: %w", err)
	}
	return nil
}

// PID is the pidns's first process, as we see it.
func (n *PIDNS) PID() int { return n.first.Process.Pid }

// Listener is the process that listens on a socket, as we number it.
func Listener(socket string) (int, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return peer(conn)
}

// peer is the process at the other end of a connection.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(cerr, err); err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
