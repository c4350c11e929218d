package inroot

import (
	"io"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// A File is a regular file, open for reading.
type File interface {
	io.ReaderAt
	io.Closer
}

// An os.File would ask the kernel twice whether it can be polled, for each of a
// driver's hundred libraries.
type file struct{ fd int }

// Read is part of io.Reader.
func (f *file) Read(p []byte) (int, error) {
	return f.read(p, func() (int, error) { return unix.Read(f.fd, p) })
}

// ReadAt is part of io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		rest, at := p[n:], off+int64(n)
		var k int
		k, err = f.read(rest, func() (int, error) { return unix.Pread(f.fd, rest, at) })
		n += k
	}
	return n, err
}

func (f *file) read(p []byte, call func() (int, error)) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err = calls.Again(func() error { n, err = call(); return err }); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close closes the file.
func (f *file) Close() error { return unix.Close(f.fd) }
