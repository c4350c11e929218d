package hook

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
)

// leaveWarnings leaves what a stage warned of beside the hook file, for the container
// manager. Where the container's root is another user, the first stage makes the file
// for it: the stage that applies may be run by that one.
func leaveWarnings(job Job, owner hookspec.Owner, list []hookspec.Warning) error {
	name := hookspec.WarningsFile(job.File)
	switch {
	case job.Stage == Clean || job.Stage == Prepare && owner.UID == 0:
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case job.Stage == Finish:
		return nil
	}
	flags := os.O_WRONLY | os.O_TRUNC | unix.O_NOFOLLOW
	if job.Stage == Prepare || len(list) > 0 {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if job.Stage == Prepare {
		return f.Chown(int(owner.UID), int(owner.GID))
	}
	if len(list) == 0 {
		return nil
	}
	data, err := hookspec.MarshalWarnings(list)
	if err == nil {
		_, err = f.Write(data)
	}
	return err
}
