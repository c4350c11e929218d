package machine

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/live"
)

// holders looks for the processes of the machine that have a node of h open, by
// its number, so whatever its name is in their container. A node that no driver
// of this machine stands behind cannot be opened to be read (ENXIO); those who
// would hold it on the host, our libcuda.so.1 for one, hold it with O_PATH.
func (p *process) holders(h *live.Host) live.Holders {
	return func(path string, except int) bool {
		h.Locker().Lock()
		e, err := h.Tree().Lstat(path)
		h.Locker().Unlock()
		if err != nil || !e.IsDevice() {
			return false
		}
		kind := uint32(unix.S_IFBLK)
		if e.Mode&os.ModeCharDevice != 0 {
			kind = unix.S_IFCHR
		}
		number := unix.Mkdev(e.Num.Major, e.Num.Minor)
		for _, pid := range offspring(p.cmd.Process.Pid) {
			if pid != except && hasOpen(pid, kind, number) {
				return true
			}
		}
		return false
	}
}

// hasOpen reports whether a process has a device of this kind and number open.
func hasOpen(pid int, kind uint32, number uint64) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, n := range names {
		var st unix.Stat_t
		if unix.Stat(dir+"/"+n.Name(), &st) == nil && st.Mode&unix.S_IFMT == kind && st.Rdev == number {
			return true
		}
	}
	return false
}
