package live

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"gpurig/core/host"
)

// Sys is the host as one of its own programs, root's, has it: files to read, and
// attributes to write to. It follows the host.
type Sys struct{ h *Host }

var (
	_ host.Root     = Sys{}
	_ host.Resolver = Sys{}
)

// Sys returns h for a program that knows no tree.
func (h *Host) Sys() Sys { return Sys{h} }

// Write opens the file at path, links followed, and writes to it once: see Host.Write.
// The error wraps the kernel's number.
func (s Sys) Write(path string, data []byte) error {
	at, err := host.Resolve(s, path)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	if no := s.h.Write(at, data); no != 0 {
		return &fs.PathError{Op: "write", Path: path, Err: no}
	}
	return nil
}

// ErrWaits says that a write would have to wait.
var ErrWaits = errors.New("the write waits until nobody has the device open")

// WriteNow is Write, but for what would have to wait: that is ErrWaits, and nothing
// has changed.
func (s Sys) WriteNow(path string, data []byte) error {
	at, err := host.Resolve(s, path)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	no, waits := s.h.writeNow(at, data)
	if waits {
		return &fs.PathError{Op: "write", Path: path, Err: ErrWaits}
	}
	if no != 0 {
		return &fs.PathError{Op: "write", Path: path, Err: no}
	}
	return nil
}

// Open notes that the node at path is open, until it is closed.
func (s Sys) Open(path string) (io.Closer, error) {
	at, err := host.Resolve(s, path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	s.h.Open(at)
	return &opened{h: s.h, path: at}, nil
}

// An opened is a node that is open. Closed twice is closed once.
type opened struct {
	once sync.Once
	h    *Host
	path string
}

// Close is part of io.Closer.
func (o *opened) Close() error {
	o.once.Do(func() { o.h.Close(o.path) })
	return nil
}

// Lstat is part of host.Root.
func (s Sys) Lstat(path string) (host.Info, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.tree.Lstat(path)
}

// Readlink is part of host.Root.
func (s Sys) Readlink(path string) (string, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.tree.Readlink(path)
}

// ReadFile is part of host.Root.
func (s Sys) ReadFile(path string) ([]byte, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.tree.ReadFile(path)
}

// ReadDir is part of host.Root.
func (s Sys) ReadDir(path string) ([]string, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.tree.ReadDir(path)
}

// ResolvePath is part of host.Resolver.
func (s Sys) ResolvePath(p string, last bool) (string, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.tree.ResolvePath(p, last)
}
