package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	fakemachine "gpurig/fakehw/machine"
	"gpurig/fakehw/userspace"
)

func newHostEnter(s Streams) *cobra.Command {
	var faults []string
	var uevents bool
	cmd := &cobra.Command{
		Use:   "enter HOST [--fault FAULT]... [-- COMMAND [ARG...]]",
		Short: "Run a command on a fake host",
		Long: `Enter runs a command, or a shell, in which /sys, /dev, /proc and the driver's
files are those of the fake host; everything else is this machine's. Writes of the
command to sysfs have their effect there: drivers are bound, virtual functions and
mediated devices appear. Nothing is visible outside, and everything is removed
when the command ends. The exit code is the command's.

It needs root, or a kernel that allows every user to create user namespaces.`,
		Example: `  gpurig host enter dgx-a100 -- lspci -nnk
  gpurig host enter dgx-a100 --fault off-bus:0 -- nvidia-smi`,
		Args: takes(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			debug.SetGCPercent(-1) // until the command runs, there is little to collect
			more, command, err := cutFaults(args[1:])
			if err != nil {
				return err
			}
			prepared := fakemachine.Prepare()
			defer prepared.Close()
			h, err := openHost(args[0], append(faults, more...)...)
			if err != nil {
				return err
			}
			return enterHost(cmd.Context(), s, h, fakemachine.Options{Command: command, Prepared: prepared, Uevents: uevents})
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&uevents, "uevents", false, "have the kernel send uevents of the host's devices, in the network namespace of gpurig, which must not be this machine's: unshare -n gpurig host enter --uevents HOST")
	addFaults(cmd, &faults)
	cmd.ValidArgsFunction = complete(hostNames, fixed())
	return cmd
}

// cutFaults takes the flags between a host and its command: what comes after the
// host is not parsed as flags, so that a command's own need no "--" before them.
func cutFaults(args []string) (faults, command []string, err error) {
	for len(args) > 0 {
		value, inline := strings.CutPrefix(args[0], "--fault=")
		switch {
		case inline:
			args = args[1:]
		case args[0] == "--":
			return faults, args[1:], nil
		case args[0] != "--fault" && strings.HasPrefix(args[0], "-"):
			return nil, nil, hint(fmt.Errorf("unknown flag between the host and its command: %s", args[0]), "only --fault is one there; all flags can stand before the host: gpurig host enter --help")
		case args[0] != "--fault":
			return faults, args, nil
		case len(args) == 1:
			return nil, nil, hint(errors.New("flag needs an argument: --fault"), "gpurig host fault --list names the faults")
		default:
			value, args = args[1], args[2:]
		}
		faults = append(faults, value)
	}
	return faults, nil, nil
}

func enterHost(ctx context.Context, s Streams, h fakeHost, options fakemachine.Options) error {
	l, err := h.request.Live()
	if err != nil {
		return broken(err)
	}
	options.Name, options.Warn = h.name, s.Err
	options.Up = func() { debug.SetGCPercent(100) }
	if err := userspace.Add(ctx, l, &options, userspace.Options{NVML: h.request.NVML, Warn: s.Err}); err != nil {
		return broken(err)
	}
	defer serveMachine(s, h.name, l)()
	signals, stop := commandSignals()
	defer stop()
	options.Signals = signals
	// A signal to us is one for the command, and no reason to end it ourselves.
	return ended(fakemachine.Enter(context.WithoutCancel(ctx), l, options))
}

// commandSignals are those that a command gets because we did. Where we are in
// the foreground of a terminal, what its keys send reaches the command without us.
func commandSignals() (<-chan os.Signal, func()) {
	all, out := make(chan os.Signal, 8), make(chan os.Signal, 8)
	signal.Notify(all, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-all:
				if (sig == unix.SIGINT || sig == unix.SIGQUIT) && inForeground() {
					continue
				}
				select {
				case out <- sig:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	return out, func() { signal.Stop(all); close(done) }
}

// inForeground reports whether the keys of a terminal send us signals.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
