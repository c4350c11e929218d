package machine

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"gpurig/core/show"
)

// sockets makes the sockets of /run/gpurig and has them served until the machine
// ends. The staging area is mounted nowhere that we see; its descriptor leads
// there.
func (s *server) sockets(ctx context.Context) error {
	ctx, s.stop = context.WithCancel(ctx)
	for name, serve := range s.o.Serve {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s/%s", s.area, s.live, name)})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // the descriptor may lead elsewhere then
		if err := unix.Fchmodat(s.area, s.live+"/"+name, 0o666, 0); err != nil {
			l.Close()
			return wrapPath("chmod", name, err)
		}
		s.serving.Go(func() {
			if err := serve(ctx, l); err != nil {
				show.Fprintf(s.o.Warn, "%s: %v\n", name, err)
			}
		})
	}
	return nil
}
