package fusefs

import (
	"context"
	"syscall"

	fusenode "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A realFile is an open file of the real machine.
type realFile int

var _ fusenode.FileReleaser = realFile(0)

// Release is part of fusenode.FileReleaser.
func (r realFile) Release(context.Context) syscall.Errno {
	return fusenode.ToErrno(unix.Close(int(r)))
}

func (r realFile) read(dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := unix.Pread(int(r), dest, off)
	if err != nil {
		return nil, fusenode.ToErrno(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

func (r realFile) write(data []byte, off int64) (uint32, syscall.Errno) {
	n, err := unix.Pwrite(int(r), data, off)
	if err != nil {
		return 0, fusenode.ToErrno(err)
	}
	return uint32(n), 0
}
