package inroot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// hostProc is our own directory in the host's procfs, checked to be the
// kernel's. It is opened by the path that we started with; the container's
// /proc is never asked.
var hostProc = sync.OnceValues(func() (int, error) {
	fd, err := calls.Openat(unix.AT_FDCWD, "/proc/self", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("/proc/self: %w", err)
	}
	var st unix.Statfs_t
	if err := calls.Again(func() error { return unix.Fstatfs(fd, &st) }); err != nil || st.Type != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return -1, fmt.Errorf("/proc is not the kernel's procfs: %w", unix.EINVAL)
	}
	return fd, nil
})

// CheckProc says why /proc is not the kernel's procfs; nil: it is.
func CheckProc() error {
	_, err := hostProc()
	return err
}

// reopen opens the object of an O_PATH descriptor for reading: the same inode,
// whatever its path means by now.
func reopen(fd int) (*file, error) {
	proc, err := hostProc()
	if err != nil {
		return nil, err
	}
	got, err := calls.Openat(proc, "fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return nil, err
	}
	return &file{got}, nil
}

// chmodFD changes the mode of an O_PATH descriptor's object; fchmod refuses those.
func chmodFD(fd int, mode uint32) error {
	proc, err := hostProc()
	if err != nil {
		return err
	}
	return calls.Again(func() error { return unix.Fchmodat(proc, "fd/"+strconv.Itoa(fd), mode, 0) })
}

// mountID returns the id of the mount that fd is on. Kernels before 5.8 have no
// STATX_MNT_ID, and some filters no statx: procfs tells it too.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	err := calls.Again(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	})
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	return mountIDFromProc(fd)
}

func mountIDFromProc(fd int) (uint64, error) {
	data, err := readProc("fdinfo/"+strconv.Itoa(fd), 4096)
	if err != nil {
		return 0, fmt.Errorf("mount id: %w", err)
	}
	for line := range bytes.Lines(data) {
		if text, ok := bytes.CutPrefix(line, []byte("mnt_id:")); ok {
			return strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
		}
	}
	return 0, errors.New("mount id: the kernel does not tell it")
}

// readProc reads one of our own files in the host's procfs.
func readProc(name string, limit int64) ([]byte, error) {
	proc, err := hostProc()
	if err != nil {
		return nil, err
	}
	fd, err := calls.Openat(proc, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return data, err
}

// mountedElsewhere reports whether the file system with the device number dev is
// mounted anywhere in our own mount namespace but at the mount id and below it.
// Then it is not the container's own: the host's /dev, bound into a container,
// is a tmpfs like a fresh one.
func mountedElsewhere(dev uint64, id uint64) (bool, error) {
	data, err := readProc("mountinfo", 16<<20)
	if err != nil {
		return false, err
	}
	return elsewhere(string(data), fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)), strconv.FormatUint(id, 10)), nil
}

// elsewhere looks for number, "major:minor", in the text of proc_pid_mountinfo(5).
func elsewhere(mountinfo, number, id string) bool {
	var at []string
	own := ""
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		switch {
		case len(f) < 5 || f[2] != number:
		case f[0] == id:
			own = f[4]
		default:
			at = append(at, f[4])
		}
	}
	for _, p := range at {
		if own == "" || !strings.HasPrefix(p, own+"/") {
			return true
		}
	}
	return false
}
