package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gpurig/core/show"
	"gpurig/fakehw/ctlsocket"
	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/live"
	fakemachine "gpurig/fakehw/machine"
)

func newHostMount(s Streams) *cobra.Command {
	var faults []string
	cmd := &cobra.Command{
		Use:   "mount HOST DIR [--fault FAULT]... [-- COMMAND [ARG...]]",
		Short: "Mount the files of a fake host on a folder",
		Long: `Mount mounts /sys, /proc, /dev, the driver's files and everything else of a fake
host on the folder DIR, which is created if it does not exist and must be empty.
Writes to its /sys have the same effect as on that host, and gpurig host fault
changes its faults. Device nodes are visible but cannot be opened. The files stay
mounted until Ctrl-C, SIGTERM, or fusermount3 -u DIR.

It needs root or fusermount3 (package fuse3). A user who is not root sees the host
as its root does, and no other user sees anything.

With a command, only that command sees the files, until it ends. This needs root or
user namespaces, but not fusermount3. The exit code is the command's.`,
		Example: `  gpurig host mount dgx-a100 ./dgx
  gpurig host mount dgx-a100 ./dgx -- nvidia-ctk cdi generate --driver-root ./dgx --dev-root ./dgx`,
		Args: takes(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			more, command, err := cutFaults(args[2:])
			if err != nil {
				return err
			}
			h, err := openHost(args[0], append(faults, more...)...)
			if err != nil {
				return err
			}
			if args[1] == "" {
				return errors.New("a folder with an empty name")
			}
			return mountHost(cmd.Context(), s, h, args[1], command)
		},
	}
	cmd.Flags().SetInterspersed(false)
	addFaults(cmd, &faults)
	cmd.ValidArgsFunction = complete(hostNames, fixed())
	return cmd
}

func mountHost(ctx context.Context, s Streams, h fakeHost, dir string, command []string) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	dir, made, err := mountPoint(s, dir)
	if err != nil {
		return err
	}
	if made {
		defer os.Remove(dir)
	}
	l, err := h.request.Live()
	if err != nil {
		return broken(err)
	}
	if len(command) == 0 {
		return offer(ctx, s, h, l, dir)
	}
	defer serveMachine(s, h.name, l)()
	stop() // from now on, what we are sent is the command's
	signals, end := commandSignals()
	defer end()
	return ended(fakemachine.WithTree(context.WithoutCancel(ctx), l, dir, fakemachine.Options{Name: h.name, Command: command, Signals: signals}))
}

// offer mounts l on dir until ctx ends or somebody takes the mount away.
func offer(ctx context.Context, s Streams, h fakeHost, l *live.Host, dir string) error {
	defer serveMachine(s, h.name, l)() // whoever sees the files can break the machine
	m, err := fusefs.Mount(ctx, l.Tree(), dir, fusefs.Options{Lock: l.Locker(), Write: l.Write, Watch: l.WatchTree, OneOwner: !knowsOthers()})
	switch {
	case ctx.Err() != nil && err != nil:
		return broken(err)
	case errors.Is(err, fusefs.ErrUnavailable):
		return broken(hint(err, "run as root, or install fuse3; or give a command, which alone will see the files: gpurig host mount %s %s -- sh", h.name, dir))
	case err != nil:
		if e, ok := errors.AsType[*fusefs.Error](err); ok && e.Hint != "" {
			err = hint(err, "%s", e.Hint)
		}
		return broken(err)
	}
	if _, err = show.Fprintf(s.Out, "%s is mounted on %s\n", h.name, dir); err == nil {
		select {
		case <-ctx.Done():
		case <-m.Served():
		}
	}
	err = errors.Join(err, m.Unmount())
	if m.Lazy() {
		show.Fprintf(s.Err, "note: programs use %s: they keep what they see of it no longer than this\n", dir)
	}
	if err != nil {
		return broken(err)
	}
	return nil
}

// mountPoint returns the path of a folder that is empty, and whether it was made.
// What a gpurig that was killed has left mounted there is taken away.
func mountPoint(s Streams, dir string) (real string, made bool, err error) {
	if err := os.Mkdir(dir, 0o755); err == nil {
		made = true
	} else if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTCONN) {
		return "", false, err
	}
	fail := func(err error) (string, bool, error) {
		if made {
			err = errors.Join(err, os.Remove(dir))
		}
		return "", false, err
	}
	real, state, err := fusefs.Look(dir)
	if err == nil && state == fusefs.Orphan {
		show.Fprintf(s.Err, "note: a gpurig that was killed left its mount on %s; it is taken away\n", real)
		if err = fusefs.Clear(real); err == nil {
			real, state, err = fusefs.Look(dir)
		}
	}
	if err != nil {
		return fail(err)
	}
	if state != fusefs.Free {
		return fail(hint(fmt.Errorf("a fake host is mounted on %s already", real), "name another folder; fusermount3 -u %s ends that mount", real))
	}
	switch entries, err := os.ReadDir(real); {
	case err != nil:
		return fail(err)
	case len(entries) > 0:
		return fail(hint(fmt.Errorf("folder %s is not empty", filepath.Clean(dir)), "name a new folder: a mount would hide what is in this one"))
	}
	return real, made, nil
}

// knowsOthers reports whether our user namespace has more users than one.
func knowsOthers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	var inside, outside, size uint64
	var more string
	n, _ := fmt.Sscan(string(text), &inside, &outside, &size, &more)
	return n != 3 || size > 1
}

// serveMachine lets gpurig host fault reach a machine, or says that it does not.
func serveMachine(s Streams, name string, l *live.Host) (end func()) {
	end, err := ctlsocket.Serve(ctlsocket.User(), name, l)
	if err != nil {
		show.Fprintf(s.Err, "warning: gpurig host fault does not reach this machine: %s\n", err.Error())
		return func() {}
	}
	return end
}

// ended is how a command's end on a fake machine becomes ours.
func ended(out fakemachine.Entered, err error) error {
	var e *fakemachine.Error
	switch {
	case errors.Is(err, fakemachine.ErrStart):
		return &exit{code: out.Exit, err: err}
	case errors.As(err, &e) && e.Hint != "":
		return &exit{code: ExitBroken, err: hint(err, "%s", e.Hint)}
	case err != nil:
		return broken(err)
	case out.Exit != 0:
		return &exit{code: out.Exit}
	}
	return nil
}
