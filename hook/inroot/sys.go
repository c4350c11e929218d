package inroot

import "golang.org/x/sys/unix"

// again repeats a call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// openat is openat(2) without O_CREAT, close-on-exec.
func openat(dir int, name string, flags int) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

func readlinkat(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func fsync(fd int) error {
	err := again(func() error { return unix.Fsync(fd) })
	if err == unix.EINVAL { // a file system without fsync of directories
		return nil
	}
	return err
}
