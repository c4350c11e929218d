package image

import (
	"errors"
	"fmt"
	"io/fs"

	"gpurig/fakehw/tree"
)

// DockerRoot makes a tree what Docker makes of it before it starts anything there:
// it adds the folders that it needs, by a layer of its own. It goes by no link:
// where the image has one, a folder takes its place (daemon/initlayer/setup_unix.go,
// seen with 20.10.24).
func DockerRoot(root *tree.Tree) error {
	for _, dir := range []string{"/dev", "/etc", "/proc", "/sys"} {
		e, err := root.Entry(dir)
		if err == nil && e.Mode.IsDir() {
			continue
		}
		if err == nil {
			err = root.Remove(dir)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = root.Mkdir(dir, 0o755)
		}
		if err != nil {
			return fmt.Errorf("init layer: %w", err)
		}
	}
	return nil
}
