package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurig/runner/target"
	"gpurig/runner/target/agent"
)

// run starts the process and waits until its namespace is set up.
func (k *nsHolder) run(probe, cgroup string, enter target.Enter) error {
	in, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	line, stdout, err := namedPipe()
	if err != nil {
		return errors.Join(err, stdin.Close())
	}
	defer line.Close()
	said, stderr, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close(), stdout.Close())
	}
	command := []string{probe, "keep", cgroup, k.scratch, k.runtime}
	ended := make(chan error, 1)
	if enter == nil {
		// Not bound to a context: close ends it, or our own end does.
		cmd := exec.Command(command[0], command[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, stderr
		if err := cmd.Start(); err != nil {
			return errors.Join(fmt.Errorf("start the helper process: %w", err), stdin.Close(), stdout.Close(), stderr.Close(), said.Close())
		}
		stdout.Close()
		stderr.Close()
		go func() { ended <- cmd.Wait() }()
	} else {
		command = append([]string{"unshare", "--mount", "--propagation", "private"}, command...)
		go func() {
			err := enter(context.Background(), command, in, stdout, stderr)
			stdout.Close()
			stderr.Close()
			ended <- err
		}()
	}
	var words bytes.Buffer
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer said.Close()
		_, _ = io.Copy(&words, said) // what it said last is all that is wanted
	}()
	text, pid, err := receive(line)
	if err != nil || text != agent.Ready {
		stdin.Close()
		werr := <-ended
		<-heard
		return fmt.Errorf("mount namespace with cgroup %s: %s (%w)", cgroup, strings.TrimSpace(words.String()), errors.Join(err, werr))
	}
	k.pid, k.stdin = pid, stdin
	k.wait = func() error { return <-ended }
	return nil
}

// namedPipe returns both ends of a connection whose reader learns who wrote.
func namedPipe() (read, write *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	read, write = os.NewFile(uintptr(pair[0]), "line"), os.NewFile(uintptr(pair[1]), "stdout")
	if err := unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("setsockopt", err), read.Close(), write.Close())
	}
	return read, write, nil
}

// receive reads what is written first, and the process that wrote it, as we number
// processes: a machine numbers its own.
func receive(line *os.File) (text string, pid int, err error) {
	buf, control := make([]byte, 64), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	var n, cn int
	for {
		n, cn, _, _, err = unix.Recvmsg(int(line.Fd()), buf, control, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return "", 0, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return "", 0, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil || len(messages) != 1 {
		return "", 0, fmt.Errorf("%d control messages (%w)", len(messages), err)
	}
	from, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return "", 0, err
	}
	return string(buf[:n]), int(from.Pid), nil
}
