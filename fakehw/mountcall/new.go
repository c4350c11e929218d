package mountcall

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// New makes a file system that is mounted nowhere. Each parameter goes to
// the kernel by itself, so no character in it is syntax (F30).
func New(kind string, attr int, params ...[2]string) (int, error) {
	fsfd, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, os.NewSyscallError("fsopen", err))
	}
	defer unix.Close(fsfd)
	for _, p := range params {
		if p[1] == "" {
			err = unix.FsconfigSetFlag(fsfd, p[0])
		} else {
			err = unix.FsconfigSetString(fsfd, p[0], p[1])
		}
		if err != nil {
			return -1, fmt.Errorf("%s %s: %w", kind, p[0], os.NewSyscallError("fsconfig", err))
		}
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return -1, fmt.Errorf("%s: %w", kind, os.NewSyscallError("fsconfig", err))
	}
	mnt, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", kind, os.NewSyscallError("fsmount", err))
	}
	return mnt, nil
}
