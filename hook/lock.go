package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// A held lock keeps other hooks of the same hook file away: they come one after
// the other. The kernel lets go of it when we end, however that is.
type held struct {
	*os.File
	name string // of the lock file; empty: the hook file itself is locked
}

func lockName(hookFile string) string { return hookFile + ".lock" }

// lock takes the lock beside the hook file, which a manager may exchange at any
// time. Nobody else can open it: it is 0600. Where it cannot be made, by a hook
// inside an id map or in a read-only directory, the hook file is locked instead.
func lock(ctx context.Context, hookFile string) (held, error) {
	for {
		h, err := openLock(hookFile)
		if err != nil {
			return held{}, err
		}
		if err := waitFor(ctx, h); err != nil {
			h.Close()
			return held{}, err
		}
		var st unix.Stat_t
		if err := calls.Fstat(int(h.Fd()), &st); err != nil {
			h.Close()
			return held{}, fmt.Errorf("%s: %w", h.Name(), err)
		}
		if st.Nlink > 0 {
			return h, nil
		}
		h.Close() // the one before us took it away: it is not the lock any more
	}
}

func openLock(hookFile string) (held, error) {
	dir, err := trustedDir(path.Dir(hookFile), nobody)
	if err != nil {
		return held{}, err
	}
	defer unix.Close(dir)
	name := lockName(hookFile)
	// The hook file comes first: without one there is nothing to lock.
	f, err := openTrusted(hookFile)
	if err != nil {
		return held{}, err
	}
	fd, err := calls.Create(dir, path.Base(name), unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	switch err {
	case nil:
		f.Close()
		return held{File: os.NewFile(uintptr(fd), name), name: name}, nil
	case unix.EACCES, unix.EPERM, unix.EROFS:
		return held{File: f}, nil
	}
	f.Close()
	return held{}, &os.PathError{Op: "lock", Path: name, Err: err}
}

func waitFor(ctx context.Context, h held) error {
	for {
		err := unix.Flock(int(h.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return fmt.Errorf("lock %s: %w", h.Name(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %s: another cdi-hook holds it: %w", h.Name(), context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// remove takes the lock file away; those who wait for it notice.
func (h held) remove() error {
	if h.name == "" {
		return nil
	}
	if err := os.Remove(h.name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
