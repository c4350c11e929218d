package mntns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A way is how a child gets a mount namespace.
type way int

const (
	asRoot   way = iota // we may administer mounts
	asMapped            // in a user namespace, as its root
)

func (w way) String() string {
	if w == asRoot {
		return "mount namespace"
	}
	return "user namespace"
}

func (w way) attr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWNS}
	if w == asMapped {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

func chooseWay(opts Options) (way, error) {
	if opts.UserNamespace {
		return asMapped, nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0, os.NewSyscallError("capget", err)
	}
	for _, c := range []uint{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT} {
		if data[0].Effective&(1<<c) == 0 {
			return asMapped, nil
		}
	}
	return asRoot, nil
}

// Able returns nil when this machine lets us have a fake root directory, found
// out by making one. Else the error says in one line what is in the way, and
// its Hint what to allow.
func Able() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := startChild(ctx, Options{})
	if err != nil {
		return err
	}
	c.end()
	return nil
}

// unable wraps a failed start with what this machine would have to allow.
func unable(err error) *Error {
	return &Error{Err: fmt.Errorf("%w: %w", ErrUnable, err), Hint: advise(err)}
}

// advise names the setting that is most likely in the way.
func advise(err error) string {
	for _, s := range []struct{ file, value, hint string }{
		{"/proc/sys/user/max_user_namespaces", "0", "run as root, or set sysctl user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "run as root, or set sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "run as root, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		text, readErr := os.ReadFile(s.file)
		if readErr == nil && strings.TrimSpace(string(text)) == s.value && os.Geteuid() != 0 {
			return s.hint
		}
	}
	if strings.Contains(err.Error(), "/dev/fuse") {
		return "run as root, or let every user open /dev/fuse (modprobe fuse, mode 0666), as most distributions do"
	}
	hint := "run as root (CAP_SYS_ADMIN and CAP_SYS_CHROOT), or allow unprivileged user namespaces"
	if _, lookErr := exec.LookPath("fusermount3"); lookErr == nil && !errors.Is(err, ErrNotInit) {
		hint += "; fusermount3 can mount a tree but not make it a root directory"
	}
	return hint
}
