package workload

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gpurig/runner/smoke"
)

func openNode(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.EACCES) { // capability nodes are for reading
		f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	}
	switch {
	case err == nil:
		f.Close()
		return smoke.Allowed
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EACCES) && onlyShown(path):
		return smoke.Allowed
	case errors.Is(err, fs.ErrNotExist):
		return smoke.Missing
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// onlyShown reports whether a node cannot be opened for the one reason that it is a
// fake machine's that was entered without privilege: FUSE shows it there, and the
// libraries go by its owner and mode.
func onlyShown(path string) bool {
	const (
		fuse   = 0x65735546 // FUSE_SUPER_MAGIC
		noDev  = 4          // ST_NODEV
		access = 4 | 2      // R_OK | W_OK
	)
	var fs syscall.Statfs_t
	err := syscall.Statfs(path, &fs)
	return err == nil && int64(fs.Type) == fuse && int64(fs.Flags)&noDev != 0 && syscall.Access(path, access) == nil
}

// look opens the GPU's nodes below a folder.
func look(dev string) []smoke.Node {
	var out []smoke.Node
	for _, pattern := range []string{"*", "nvidia-caps/*", "nvgpu/igpu0/*", "dri/*"} {
		found, _ := filepath.Glob(filepath.Join(dev, pattern)) // only a bad pattern fails
		for _, p := range found {
			rel, _ := filepath.Rel(dev, p)
			if path := "/dev/" + rel; smoke.OfGPU(path) {
				out = append(out, smoke.Node{Path: path, Open: openNode(p)})
			}
		}
	}
	return smoke.Arrange(out)
}
