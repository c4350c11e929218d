package lxd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/lxdapi"
	"gpurig/runner/target/sandbox"
)

// Restart ends the daemon of one cgroup version with a signal, and starts it
// again on what it left.
func Restart(ctx context.Context, l *LXD, cgroup string, sig unix.Signal) error {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return err
	}
	return s.restart(ctx, sig)
}

// Kill ends the daemon of one cgroup version for good.
func Kill(ctx context.Context, l *LXD, cgroup string) error {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return err
	}
	return s.daemon.stop(unix.SIGKILL)
}

// Socket is that of the daemon of one cgroup version, to be used by others.
func Socket(ctx context.Context, l *LXD, cgroup string) (string, error) {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return "", err
	}
	return s.Outside(socketName), nil
}

// Found is the socket that o leads to, and whether the user named it.
func Found(o Options, getenv func(string) string) (string, bool) { return o.socket(getenv) }

// API is the client of the daemon of one cgroup version, and Prefix that of names
// in it.
func API(ctx context.Context, l *LXD, cgroup string) (api *lxdapi.Client, prefix string, err error) {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return nil, "", err
	}
	return s.api, s.Prefix(), nil
}

// Fill leaves the disk of a daemon of our own no room.
func Fill(ctx context.Context, l *LXD, cgroup string) error {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.Outside(""), &st); err != nil {
		return err
	}
	used := uint64(st.Bsize) * (st.Blocks - st.Bfree)
	if out, err := s.command(ctx, "mount", "-o", fmt.Sprintf("remount,size=%d", used), s.Inside("")).CombinedOutput(); err != nil {
		return fmt.Errorf("%s (%w)", out, err)
	}
	return nil
}

// StopAtOnce stops a container and does not wait for its last hooks: ended does.
func StopAtOnce(ctx context.Context, c *Container) (ended func() error, err error) {
	m, err := c.stop(ctx)
	return m.wait, err
}

// Freeze stops the daemon of one cgroup version as soon as a hook of its own asks it
// for something, and has it go on when that hook has given up.
func Freeze(ctx context.Context, l *LXD, cgroup string) error {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return err
	}
	daemon, err := sandbox.Listener(s.Outside(socketName))
	if err != nil {
		return err
	}
	hook, err := waitFor(ctx, func() string { return hookOf(s.Prefix()) })
	if err != nil {
		return err
	}
	if err := unix.Kill(daemon, unix.SIGSTOP); err != nil {
		return err
	}
	// nsenter, its parent, stops with it.
	nsenter, err := waitFor(ctx, func() string { return parentOf(daemon) })
	if err != nil {
		return err
	}
	defer func() {
		if n, err := strconv.Atoi(nsenter); err == nil {
			_ = unix.Kill(n, unix.SIGCONT)
		}
	}()
	defer unix.Kill(daemon, unix.SIGCONT)
	_, err = waitFor(ctx, func() string {
		if _, err := os.Stat(hook); err == nil {
			return ""
		}
		return hook
	})
	return err
}

// parentOf is the process id of a process's parent.
func parentOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if of, ok := strings.CutPrefix(line, "PPid:"); ok {
			return strings.TrimSpace(of)
		}
	}
	return ""
}

// hookOf is the /proc folder of a hook of the daemon that runs for a container at its
// start.
func hookOf(prefix string) string {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		text, _ := os.ReadFile(p)
		if words := strings.Split(string(text), "\x00"); len(words) > 5 && words[1] == "callhook" && strings.HasPrefix(words[4], prefix) {
			return filepath.Dir(p)
		}
	}
	return ""
}

func waitFor(ctx context.Context, what func() string) (string, error) {
	for ctx.Err() == nil {
		if s := what(); s != "" {
			return s, nil
		}
		time.Sleep(time.Millisecond)
	}
	return "", ctx.Err()
}
