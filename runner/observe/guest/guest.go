// Package guest is the first process of a virtual machine that is looked at from
// inside: it has no other, no root file system, and no driver of what it looks at.
package guest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/runner/observe"
)

// Port is the serial port that the machine answers on; its console is the first one.
const Port = "/dev/ttyS1"

// Look asks for what the machine sees. Every answer is one line.
const Look = "look"

// An Answer is what came of a request, as JSON.
type Answer struct {
	Functions []observe.GuestFunction `json:"functions"`
	Error     string                  `json:"error,omitempty"`
}

// Init is the first process. It ends only with an error, and the kernel with it.
func Init() error {
	if os.Getpid() != 1 {
		return errors.New("\"machine\" is for the first process of a virtual machine")
	}
	for _, m := range [][2]string{{"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	tty, err := os.OpenFile(Port, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	fd := int(tty.Fd())
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	// As it is sent: no echo, no lines made of what is no line.
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return err
	}
	root, err := osroot.New("/")
	if err != nil {
		return err
	}
	return Serve(root, tty, tty)
}

// Serve answers each line of in by one of out, until in ends. It says first that it is
// there, by an empty Answer.
func Serve(r host.Root, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(Answer{}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var a Answer
		if line := lines.Text(); line != Look {
			a.Error = fmt.Sprintf("unknown request %q", line)
		} else if f, err := observe.LookGuest(r); err != nil {
			a.Error = err.Error()
		} else {
			a.Functions = f
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}
