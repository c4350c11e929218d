package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/plan"
)

// Programs of the base system, for the one mount that a read-only root needs.
const (
	shell  = "/bin/sh"
	umount = "/bin/umount"
)

// ReadOnlyView mounts a read-only view of root at at; EndView takes it away.
// Both are below the scratch directory.
func (w *Sandbox) ReadOnlyView(ctx context.Context, root, at string) error {
	if err := os.MkdirAll(w.Outside(at), 0o755); err != nil {
		return err
	}
	script := fmt.Sprintf("mount --bind %[1]s %[2]s && mount -o remount,bind,ro %[2]s", w.Inside(root), w.Inside(at))
	return w.Output(ctx, nil, "/usr/bin/env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", shell, "-c", script)
}

// EndView ends what ReadOnlyView made.
func (w *Sandbox) EndView(ctx context.Context, at string) error {
	return w.Output(ctx, nil, umount, w.Inside(at))
}

// MakeNodes makes device nodes that are not there yet; their paths are those of
// the namespace, below the scratch directory.
func (w *Sandbox) MakeNodes(list []plan.Node) error {
	for _, n := range list {
		rel, err := filepath.Rel(w.Inside(""), n.Path)
		if err != nil {
			return err
		}
		at := w.Outside(rel)
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		mode := uint32(unix.S_IFBLK)
		if n.Type == device.Char {
			mode = unix.S_IFCHR
		}
		if err := unix.Mknod(at, mode|0o600, int(unix.Mkdev(n.Num.Major, n.Num.Minor))); err != nil {
			return &os.PathError{Op: "mknod", Path: at, Err: err}
		}
		if err := errors.Join(os.Chown(at, int(n.UID), int(n.GID)), os.Chmod(at, n.Mode.Perm())); err != nil {
			return err
		}
	}
	return nil
}

// Resolve returns p with the links of its directories resolved in the root. What
// does not exist is as it stands.
func Resolve(root host.Root, p string) (string, error) {
	dir := path.Dir(p)
	if dir == p {
		return p, nil
	}
	real, err := host.Resolve(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = Resolve(root, dir)
	}
	return path.Join(real, path.Base(p)), err
}
