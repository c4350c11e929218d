package machine_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/machine/machinetest"
)

// terminal makes a pseudo-terminal: our end, and the other one.
func terminal(t testing.TB) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		machinetest.Skip(t, "no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// Without a command there is a shell that says where it is, has the terminal's
// keys to itself, and gives the terminal back.
func TestAShellHasTheTerminal(t *testing.T) {
	machinetest.Require(t)
	exe := self(t)
	for _, shell := range []string{"/bin/sh", "/bin/bash"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := os.Stat(shell); err != nil {
				t.Skip(err)
			}
			ours, theirs := terminal(t)
			// The outer shell reads the terminal afterwards: it is its own again.
			cmd := exec.Command("/bin/sh", "-c", `"$0" "$1" dgx-a100; echo "code $?"; read line; echo "read $line"`, exe, enterer)
			cmd.Env = append(os.Environ(), "SHELL="+shell, "HOME=/nonexistent", "TERM=dumb")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			seen := ""
			chunks := make(chan string)
			go func() {
				defer close(chunks)
				buf := make([]byte, 4096)
				for {
					n, err := ours.Read(buf)
					if err != nil {
						return
					}
					chunks <- string(buf[:n])
				}
			}()
			// type what is given once the terminal shows what is waited for.
			dialogue := []struct{ wait, keys string }{
				{"(dgx-a100) ", "tty\n"},
				// A key before sleep has the terminal is the shell's, which waits on.
				{"/dev/pts/", "sh -c 'echo $((40+2)); exec sleep 1000'; echo woken\n"},
				{"42\r\n", "\x03"},
				{"(dgx-a100) ", "exit $(($(id -u) + 5))\n"},
				{"code 5", "a line\n"},
				{"read a line", ""},
			}
			deadline := time.After(30 * time.Second)
			for _, d := range dialogue {
				for !strings.Contains(seen, d.wait) {
					select {
					case c, ok := <-chunks:
						if !ok {
							t.Fatalf("the terminal was closed after %q; want %q", seen, d.wait)
						}
						seen += c
					case <-deadline:
						t.Fatalf("the terminal shows %q; want %q", seen, d.wait)
					}
				}
				_, seen, _ = strings.Cut(seen, d.wait)
				if _, err := io.WriteString(ours, d.keys); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Wait()
		})
	}
}
