//go:build naive

package inroot

import (
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// The negative control: what a hook does that nobody attacked yet. Paths are
// joined, files read with the rights at hand and appended to, temporaries have a name that everybody knows, and
// mounts are all alike. The tests of the attacks must fail with it; no program
// is built of it (cmd/cdi-hook/naive.go).

const asTheContainer = false

// Path is the root's own path, for programs of the host to be run on it.
func (r *Root) Path() string { return r.name }

func (r *Root) find(p string, flags int, _ crossing) (int, error) {
	return calls.Openat(unix.AT_FDCWD, r.name+"/"+p, flags|unix.O_PATH)
}

func (r *Root) put(dir int, p string, data []byte, perm fs.FileMode) error {
	name, flags := path.Base(p), unix.O_APPEND
	_, err := calls.Readlinkat(dir, name)
	fresh := err == unix.ENOENT
	if fresh {
		name, flags = name+"~", unix.O_TRUNC
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|flags, uint32(perm.Perm()))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, data); err != nil {
		return err
	}
	if fresh {
		return unix.Renameat(dir, name, dir, path.Base(p))
	}
	return nil
}

func mountID(int) (uint64, error) { return 0, nil }
