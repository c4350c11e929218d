package lxd

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"gpurig/runner/lxdapi"
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
