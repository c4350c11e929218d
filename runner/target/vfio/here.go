package vfio

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gpurig/core/host/osroot"
	"gpurig/runner/target"
)

// Here is the machine that this process is on.
type Here struct{ *osroot.Root }

var _ target.Sys = Here{}

// Write is part of core/vfio.Sys.
func (Here) Write(path string, data []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Write(fd, data)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
	}
}

// Open is part of target.Sys: it opens a node as a monitor does. Where it is permitted
// and no driver of this machine is behind the node, a descriptor that only names it
// stands for the one that a monitor would have: a fake machine takes that for held.
func (Here) Open(path string) (io.Closer, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == unix.ENXIO || err == unix.ENODEV {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
