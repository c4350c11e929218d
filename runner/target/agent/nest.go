package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Nest is the first process of a process namespace: it gives that a /proc of its
// own, binds the file subids over the lists of subordinate ids, says so on out,
// and stays until in ends. The kernel then ends every process of the namespace,
// daemons and containers too, however our parent went (F29). Processes that are
// left to it meanwhile are waited for.
func Nest(subids string, in io.Reader, out io.Writer) error {
	if os.Getpid() != 1 {
		return errors.New("not the first process of a process namespace: nothing is mounted")
	}
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)
	go func() {
		for range child {
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
					break
				}
			}
		}
	}()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, list := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := unix.Mount(subids, list, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind our ids over %s: %w", list, err)
		}
	}
	if _, err := io.WriteString(out, Ready); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
