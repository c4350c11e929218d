package inroot

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// hostProc is the host's own procfs, opened and checked before anything of the
// container is looked at.
var hostProc = sync.OnceValues(func() (int, error) {
	fd, err := unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return -1, fmt.Errorf("/proc is not the kernel's procfs: %w", unix.EINVAL)
	}
	return fd, nil
})

// openProcFD reopens the object of an O_PATH descriptor through the host's
// procfs. /proc/self/fd belongs to this process and is not the container's.
func openProcFD(fd, flags int) (int, error) {
	dir, err := hostProc()
	if err != nil {
		return -1, err
	}
	return unix.Openat(dir, fmt.Sprint(fd), flags, 0)
}
