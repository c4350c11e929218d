package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A life is one start of a container by liblxc, up to its last hook. A manager may
// start a container again before the hooks of its last life have run: LXD and
// Incus call it stopped when their own post-stop hook has. The life is told by
// the processes that had a hook run, nearest first. One of them is liblxc's
// monitor, which all hooks of one life come from and which outlives them; those
// before it, a shell or somebody's wrapper, end with their hook.
type life struct {
	Boot string    `json:"boot"` // the kernel's boot_id
	By   []process `json:"by"`
}

// A process is told from a later one of the same number by its start.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

// maxBy bounds how far up a life is looked for: what is above the monitor says
// nothing about it.
const maxBy = 16

// thisLife is the life that has us run.
func thisLife() (*life, error) {
	boot, err := readProcText("/proc/sys/kernel/random/boot_id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("which start of the container this is: %w", err)
	}
	l := &life{Boot: string(bytes.TrimSpace(boot))}
	for pid := os.Getppid(); pid > 1 && len(l.By) < maxBy; {
		p, parent, err := processAt(pid)
		if err != nil {
			break // it ended, or is hidden: what is known says enough, or nothing
		}
		l.By = append(l.By, p)
		pid = parent
	}
	return l, nil
}

// goesOn reports whether the life noted is another one than l and not over, and
// the process that it hangs on: the nearest that still runs. Of our own life that
// is the monitor, or what is between, and we come from it.
func (l *life) goesOn(noted *life) (process, bool) {
	if noted == nil || noted.Boot != l.Boot {
		return process{}, false
	}
	for _, p := range noted.By {
		now, _, err := processAt(p.PID)
		if err == nil && now == p {
			return p, !slices.Contains(l.By, p)
		}
	}
	return process{}, false
}

// processAt reads what a running process is, and its parent: proc_pid_stat(5).
func processAt(pid int) (process, int, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := readProcText(name)
	if err != nil {
		return process{}, 0, err
	}
	return parseStat(name, pid, text)
}

// parseStat reads "PID (NAME) STATE PPID …", where NAME can have anything in it.
// A process that is dead and only not yet waited for is none.
func parseStat(name string, pid int, text []byte) (process, int, error) {
	const state, parent, start = 0, 1, 19 // fields 3, 4 and 22, counted after the name
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) <= start {
		return process{}, 0, fmt.Errorf("%s: %d fields after the name", name, len(f))
	}
	if slices.Contains([]string{"Z", "X", "x"}, string(f[state])) {
		return process{}, 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	var ppid int
	p := process{PID: pid}
	if _, err := fmt.Sscan(string(f[parent])+" "+string(f[start]), &ppid, &p.Start); err != nil {
		return process{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	return p, ppid, nil
}

func readProcText(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}
