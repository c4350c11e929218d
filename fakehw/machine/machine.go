// Package machine runs unmodified programs on a fake host: they find its files in
// /sys, /dev, /proc and where the driver's files are.
//
// Enter starts a command in a mount namespace and a process namespace of its
// own. That is enough for root; for other users the command is root in a user
// namespace of its own, if the kernel allows it. There,
//
//   - /sys is the real one, passed through, with the host's GPUs in place of the
//     machine's own; control groups and other mounts below it stay;
//   - /dev has the machine's nodes and the host's;
//   - /proc/driver, devices, modules, misc, cmdline and the kernel's release show
//     the host's GPUs;
//   - the driver's files, its firmware, sockets and settings are mounted over /usr,
//     /etc and /run, and the loader's cache lists the libraries.
//
// Writes of the command below /usr and /etc are visible only to itself. Everything
// else is the real machine's. The calling process serves all this from outside the
// namespaces. When the command or the caller ends, in whatever way, everything is
// removed, including all processes of the command.
//
// A program that uses this package calls Init at the start of main.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"gpurig/core/host"
)

// Sentinels; all errors of this package wrap one of them or the context's cause.
var (
	ErrNotInit = errors.New("machine.Init was not called at the start of main")
	ErrUnable  = errors.New("this machine does not allow a fake machine to be entered")
	ErrStart   = errors.New("the command did not start")
	ErrLost    = errors.New("the fake machine was lost")
)

// An Error says why a command was not run.
type Error struct {
	Err  error
	Hint string // what the user can do, one sentence
}

func (e *Error) Error() string { return fmt.Sprintf("fake machine: %v", e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Options adjust Enter. The zero value runs a shell.
type Options struct {
	Name    string   // of the host, for the shell's prompt
	Command []string // program and arguments; empty: a shell
	Env     []string // of the command; nil: ours
	Stdin   *os.File // nil: ours, and so on
	Stdout  *os.File
	Stderr  *os.File
	Warn    io.Writer // what differs from the host, one line each; nil discards
	// Signals are sent to the command; nil: none. A closed channel ends nothing.
	Signals <-chan os.Signal
	// UserNamespace takes the unprivileged way even where we are root.
	UserNamespace bool
	// Uevents has the kernel send the uevents of the host's devices in our network
	// namespace, which must not be that of the real machine's first process.
	Uevents bool
	// Up, unless nil, is called when the command runs.
	Up func()
	// Prepared is a first process that was started before; nil: Enter starts it.
	// Its streams are ours.
	Prepared *Prepared
	// Files are regular files to put in place of those of the host's tree, by
	// their path there: a library that works instead of one that only looks so.
	// One that the tree does not have is added, as a program. The loader's cache
	// knows libraries among them, whatever the host's architecture is.
	Files map[string][]byte
	// Live are files below /run/gpurig that follow the host: each is made of its
	// model when it is read.
	Live map[string]func(host.Model) []byte
	// Serve are sockets below /run/gpurig, for every user, and what serves each:
	// it closes the listener and returns when ctx ends.
	Serve map[string]func(ctx context.Context, l net.Listener) error

	shell bool // Command is a shell that nobody asked for by name
}

// Entered is what became of a command.
type Entered struct {
	Exit int // its exit code; 128 and the signal's number if a signal ended it
}
