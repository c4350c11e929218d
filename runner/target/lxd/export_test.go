package lxd

import (
	"context"

	"golang.org/x/sys/unix"
)

// Restart ends the daemon of one cgroup version with a signal, and starts it
// again on what it left.
func Restart(ctx context.Context, l *LXD, cgroup string, sig unix.Signal) error {
	s, err := l.server(ctx, cgroup)
	if err != nil {
		return err
	}
	if err := s.daemon.stop(sig); err != nil {
		return err
	}
	s.api.Close()
	s.api, err = s.daemon.start(ctx)
	return err
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
