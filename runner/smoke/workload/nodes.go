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
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
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
