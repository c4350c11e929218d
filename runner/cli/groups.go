package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"gpurig/core/translate"
)

// readGroups reads /etc/group of a container's root, none where it is not named or has none
// that is not needed. What leads out of the root, or is no file, is refused.
func readGroups(rootfs string, needed bool) ([]byte, error) {
	if rootfs == "" && needed {
		return nil, hint(errors.New("--map-groups without --rootfs"), "name the container's root, whose /etc/group has the groups")
	}
	if rootfs == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return nil, fmt.Errorf("--rootfs: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile("etc/group", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) && !needed {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("--rootfs %q: %w", rootfs, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--rootfs %q: etc/group: %w", rootfs, errors.Join(err, errNotRegular))
	}
	text, err := io.ReadAll(io.LimitReader(f, translate.MaxGroups+1))
	if err != nil {
		return nil, fmt.Errorf("--rootfs %q: %w", rootfs, err)
	}
	return text, nil
}
