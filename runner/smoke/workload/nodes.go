package workload

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"gpurig/runner/smoke"
)

// Answers of open(2) besides its error's text. ENXIO and ENODEV are those of a node
// that may be opened, and whose driver is not there.
const (
	allowed = "allowed"
	missing = "missing"
)

func openNode(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.EACCES) { // capability nodes are for reading
		f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	}
	switch {
	case err == nil:
		f.Close()
		return allowed
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return allowed
	case errors.Is(err, fs.ErrNotExist):
		return missing
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// ofGPU matches the nodes that CUDA opens: those of NVIDIA's discrete GPUs, of MIG,
// and of a Tegra.
var ofGPU = regexp.MustCompile(`^(nvidia(\d+|ctl|-uvm)|nvidia-caps/nvidia-cap\d+|nvmap|nvhost-(ctrl|as|dbg|tsg)?-?gpu|nvgpu/igpu0/(ctrl|as|channel)|dri/renderD\d+)$`)

// look opens the GPU's nodes below a folder, and names the shared ones that are
// missing beside a discrete GPU's.
func look(dev string) []smoke.Node {
	var out []smoke.Node
	for _, pattern := range []string{"*", "nvidia-caps/*", "nvgpu/igpu0/*", "dri/*"} {
		found, _ := filepath.Glob(filepath.Join(dev, pattern)) // only a bad pattern fails
		for _, p := range found {
			if rel, _ := filepath.Rel(dev, p); ofGPU.MatchString(rel) {
				out = append(out, smoke.Node{Path: "/dev/" + rel, Open: openNode(p)})
			}
		}
	}
	if slices.ContainsFunc(out, discrete) {
		for _, p := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm"} {
			if !slices.ContainsFunc(out, func(n smoke.Node) bool { return n.Path == p }) {
				out = append(out, smoke.Node{Path: p, Open: missing})
			}
		}
	}
	slices.SortFunc(out, func(a, b smoke.Node) int {
		return cmp.Or(cmp.Compare(turn(a.Path), turn(b.Path)), strings.Compare(a.Path, b.Path))
	})
	return out
}

// turn is when cuInit opens a node: the first that fails decides its code.
func turn(path string) int {
	if i := slices.Index([]string{"/dev/nvidiactl", "/dev/nvidia-uvm"}, path); i >= 0 {
		return i
	}
	return 2
}

var own = regexp.MustCompile(`^/dev/nvidia(\d+|ctl|-uvm)$`)

func discrete(n smoke.Node) bool { return own.MatchString(n.Path) }
