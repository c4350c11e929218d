package fusefs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// direct opens a connection to the kernel and makes a mount for it that is not
// attached anywhere yet. Options go to the kernel one by one, so no character
// in them is syntax (F30).
func direct(opts Options) (conn, mnt int, err error) {
	fsfd, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, -1, os.NewSyscallError("fsopen fuse", err)
	}
	defer unix.Close(fsfd)
	conn, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	defer func() {
		if err != nil {
			unix.Close(conn)
		}
	}()
	for _, o := range [][2]string{
		{"source", Name},
		{"subtype", Name},
		{"fd", strconv.Itoa(conn)},
		{"rootmode", "40000"}, // octal S_IFDIR
		{"user_id", strconv.Itoa(os.Geteuid())},
		{"group_id", strconv.Itoa(os.Getegid())},
	} {
		if err = unix.FsconfigSetString(fsfd, o[0], o[1]); err != nil {
			return -1, -1, os.NewSyscallError("fsconfig "+o[0], err)
		}
	}
	for _, flag := range []string{"default_permissions", "allow_other"} {
		if err = unix.FsconfigSetFlag(fsfd, flag); err != nil {
			return -1, -1, os.NewSyscallError("fsconfig "+flag, err)
		}
	}
	if err = unix.FsconfigCreate(fsfd); err != nil {
		return -1, -1, os.NewSyscallError("fsconfig create", err)
	}
	attr := unix.MOUNT_ATTR_NOSUID
	if !opts.writable {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if !opts.Dev {
		attr |= unix.MOUNT_ATTR_NODEV
	}
	mnt, err = unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, -1, os.NewSyscallError("fsmount", err)
	}
	return conn, mnt, nil
}

// viaHelper has the set-uid helper mount on dir and hand over the connection.
func viaHelper(ctx context.Context, helper, dir string, writable bool) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "fusermount3")
	defer unix.Close(ours)
	options := "nosuid,nodev,fsname=" + Name + ",subtype=" + Name
	switch {
	case writable && os.Geteuid() != 0:
		// Who mounts is root of the tree: the kernel keeps all others out, and
		// must not ask whether they own its files.
	case os.Geteuid() == 0 || othersAllowed():
		options += ",default_permissions,allow_other"
	default:
		options += ",default_permissions"
	}
	if !writable {
		options += ",ro"
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, helper, "-o", options, "--", dir)
	cmd.Env = []string{"_FUSE_COMMFD=3", "LC_ALL=C"}
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = &stderr
	cmd.SysProcAttr = alone()
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	theirs.Close()
	if err != nil {
		return -1, fmt.Errorf("%w: %s: %w", ErrUnavailable, firstLine(stderr.Bytes()), err)
	}
	buf, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(ours, buf, control, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg from fusermount3", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("fusermount3 sent no descriptor (%d messages, %v)", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("fusermount3 sent no descriptor (%d, %v)", len(fds), err)
	}
	return fds[0], nil
}

// othersAllowed reports whether fusermount3 accepts allow_other (fuse.conf(5)).
func othersAllowed() bool {
	conf, err := os.ReadFile("/etc/fuse.conf")
	if err != nil {
		return false
	}
	for line := range bytes.Lines(conf) {
		if string(bytes.TrimSpace(line)) == "user_allow_other" {
			return true
		}
	}
	return false
}

// pollProbe is a name that go-fuse answers itself.
const pollProbe = ".go-fuse-epoll-hack"

func (m *Mounted) settleAt(mnt int) error {
	if err := Settle(mnt); err != nil {
		return &Error{Dir: m.Dir, Err: err}
	}
	return nil
}

// Settle makes the kernel ask for poll once, on the mount that mnt refers to, and
// learn that there is none. A process that looks at files which it serves itself
// calls it first: without it, Go's own os.Open waits in epoll_ctl for an answer of
// this very process, holding a processor that the answer may need.
func Settle(mnt int) error {
	fd, err := unix.Openat(mnt, pollProbe, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("first request: %w", err)
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return os.NewSyscallError("poll", err)
	}
	return nil
}

func (m *Mounted) settle(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &Error{Dir: dir, Err: err}
	}
	defer unix.Close(fd)
	return m.settleAt(fd)
}
