package mountcall

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Caller is the thread that made a call, seen through a procfs of ours. What it
// says is to be taken back where Waits then says that the thread is gone.
type Caller struct {
	proc int // descriptor of the procfs
	tid  int
}

// Caller is whoever made a call.
func (c Call) Caller(proc int) Caller { return Caller{proc, c.TID} }

// status reads the number of the process, and whether the thread has CAP_SYS_ADMIN in
// its user namespace.
func (c Caller) status() (tgid int, able bool, err error) {
	text, err := c.read("status")
	if err != nil {
		return 0, false, err
	}
	for line := range strings.Lines(string(text)) {
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "Tgid":
			tgid, err = strconv.Atoi(strings.TrimSpace(value))
		case "CapEff":
			var caps uint64
			caps, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			able = caps&(1<<unix.CAP_SYS_ADMIN) != 0
		}
		if err != nil {
			return 0, false, fmt.Errorf("status of thread %d: %w", c.tid, err)
		}
	}
	return tgid, able, nil
}

func (c Caller) read(name string) ([]byte, error) {
	fd, err := c.Open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}

// Open opens a file of the thread's folder in /proc: "ns/mnt", "root", "fd/7".
func (c Caller) Open(name string, flags int) (int, error) {
	return unix.Openat(c.proc, fmt.Sprintf("%d/%s", c.tid, name), flags|unix.O_CLOEXEC, 0)
}

// Enter puts the calling thread, which shares its directories with no other, into
// the mount namespace of the caller, at its root and working directories.
func (c Caller) Enter() error {
	var fds [3]int
	for i, x := range []struct {
		name  string
		flags int
	}{{"ns/mnt", unix.O_RDONLY}, {"root", unix.O_PATH}, {"cwd", unix.O_PATH}} {
		fd, err := c.Open(x.name, x.flags)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		fds[i] = fd
	}
	if err := unix.Setns(fds[0], unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Fchdir(fds[1]); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Fchdir(fds[2])
}

// Path opens what a path of the caller leads to. Links of /proc that lead to the
// caller itself would lead to us. The calling thread has Entered.
func (c Caller) Path(p string, flags int) (int, error) {
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if rest, ok := strings.CutPrefix(p, self); ok {
			return c.Open(rest, flags|unix.O_PATH)
		}
	}
	return unix.Open(p, flags|unix.O_PATH|unix.O_CLOEXEC, 0)
}

// Process is a descriptor of the caller's process (pidfd_open).
func (c Caller) Process() (int, error) {
	tgid, _, err := c.status()
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(tgid, 0)
}

// Peek opens what a path of the caller leads to, without entering. It refuses links
// of /proc and paths that are not absolute.
func (c Caller) Peek(p string, flags uint64) (int, error) {
	if !strings.HasPrefix(p, "/") {
		return -1, unix.EXDEV
	}
	root, err := c.Open("root", unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return unix.Openat2(root, p, &unix.OpenHow{Flags: flags | unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
}

// File is a copy of a descriptor of the caller.
func (c Caller) File(fd int) (int, error) {
	pid, err := c.Process()
	if err != nil {
		return -1, err
	}
	defer unix.Close(pid)
	return unix.PidfdGetfd(pid, fd, 0)
}

// String reads a text of the caller's memory; at 0 it has none.
func (c Caller) String(at uint64) (string, error) {
	const page, most = 4096, 4096
	var out []byte
	for at != 0 && len(out) < most {
		buf := make([]byte, page-at%page) // the next page may not be there
		local := unix.Iovec{Base: &buf[0]}
		local.SetLen(len(buf))
		n, err := unix.ProcessVMReadv(c.tid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(buf)}}, 0)
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
			return string(append(out, buf[:end]...)), nil
		}
		out, at = append(out, buf[:n]...), at+uint64(n)
	}
	if at == 0 {
		return "", nil
	}
	return "", unix.ENAMETOOLONG
}

// Write writes to the caller's memory.
func (c Caller) Write(at uint64, data []byte) error {
	local := unix.Iovec{Base: &data[0]}
	local.SetLen(len(data))
	n, err := unix.ProcessVMWritev(c.tid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(data)}}, 0)
	if err == nil && n < len(data) {
		err = unix.EFAULT
	}
	return err
}

// Plain reports whether the caller sees the kernel as it is (personality(2)).
func (c Caller) Plain() bool {
	text, err := c.read("personality")
	return err == nil && strings.Trim(string(text), "0\n") == ""
}

// May reports whether the caller may do to a namespace of its own ("mnt", "net")
// what takes CAP_SYS_ADMIN in the user namespace that owns it (cap_capable).
func (c Caller) May(ns string) bool {
	if _, able, err := c.status(); err != nil || !able {
		return false
	}
	own, err := c.inode("ns/user")
	if err != nil {
		return false
	}
	fd, err := c.Open("ns/"+ns, unix.O_RDONLY)
	if err != nil {
		return false
	}
	for request := uint(unix.NS_GET_USERNS); ; request = unix.NS_GET_PARENT {
		up, err := unix.IoctlRetInt(fd, request)
		unix.Close(fd)
		if err != nil {
			return false // above ours
		}
		fd = up
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Ino == own {
			unix.Close(fd)
			return true
		}
	}
}

// Mounts are the kinds of the file systems that the caller can reach, by the number of
// the mount.
func (c Caller) Mounts() (map[uint64]string, error) {
	text, err := c.read("mountinfo")
	if err != nil {
		return nil, err
	}
	out := map[uint64]string{}
	for line := range strings.Lines(string(text)) {
		number, _, _ := strings.Cut(line, " ")
		_, rest, _ := strings.Cut(line, " - ")
		id, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %q is not understood", strings.TrimSpace(line))
		}
		out[id], _, _ = strings.Cut(rest, " ")
	}
	return out, nil
}

// Namespace is the name of a namespace of the caller, "mnt:[4026531841]".
func (c Caller) Namespace(kind string) (string, error) {
	buf := make([]byte, 64)
	n, err := unix.Readlinkat(c.proc, fmt.Sprintf("%d/ns/%s", c.tid, kind), buf)
	return string(buf[:max(n, 0)]), err
}

func (c Caller) inode(name string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstatat(c.proc, fmt.Sprintf("%d/%s", c.tid, name), &st, 0)
	return st.Ino, err
}
