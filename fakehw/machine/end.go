package machine

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// end ends every process that the command has left. In a process namespace the
// kernel does that when its first process ends.
func (c *child) end() {
	if c.pid {
		return
	}
	for {
		left := offspring(os.Getpid())
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		for {
			var ws unix.WaitStatus
			if pid, err := unix.Wait4(-1, &ws, 0, nil); pid <= 0 && err != unix.EINTR {
				break
			}
		}
	}
}

// offspring lists the children of a process and theirs.
func offspring(pid int) []int {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	var out []int
	for _, t := range tasks {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + t.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				out = append(append(out, n), offspring(n)...)
			}
		}
	}
	return out
}
