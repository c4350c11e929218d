package cli

import (
	"os"

	"golang.org/x/sys/unix"

	fakemachine "gpurig/fakehw/machine"
	"gpurig/fakehw/mntns"
	"gpurig/runner/target/vfio"
)

// Init must be the first call of main: this program starts itself once more to
// serve as the child that works inside a fake machine, or as the first process
// of one that a command is to run on.
func Init() {
	mntns.Init()
	fakemachine.Init()
	vfio.Init()
}

// Stdio returns the process's own streams.
func Stdio() Streams {
	tty := isTerminal(os.Stderr)
	s := Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: tty, Same: tty && isTerminal(os.Stdout) && sameTerminal(os.Stdout, os.Stderr),
		// https://no-color.org: an empty variable says nothing
		Colour: tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if size, err := unix.IoctlGetWinsize(int(os.Stderr.Fd()), unix.TIOCGWINSZ); err == nil {
		s.Columns = int(size.Col)
	}
	return s
}

// sameTerminal compares devices, since /dev/tty is another file than the terminal that
// it stands for.
func sameTerminal(a, b *os.File) bool {
	var of [2]uint32
	for i, f := range []*os.File{a, b} {
		n, err := unix.IoctlGetUint32(int(f.Fd()), unix.TIOCGDEV)
		if err != nil {
			return false
		}
		of[i] = n
	}
	return of[0] == of[1]
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
